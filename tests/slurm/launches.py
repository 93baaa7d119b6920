"""Launches over the nodes of this allocation of Slurm's, one after the other, made as a comparison makes them.

    python -m tests.slurm.launches FOLDER STEPS STRATEGY[=OPTION:VALUE[,OPTION:VALUE]]...

leaves their records in the folder. With 0 steps it makes certificates.
"""

import dataclasses
import sys
from pathlib import Path

from rich.console import Console

from common.contract.dataset import preset_task
from common.declarations.catalogue import find
from common.errors import exit_with_one_line
from common.launching.executor import run_planned
from common.launching.hosts import cluster
from common.launching.hosts.selection import Selection
from common.launching.planned import PlannedLaunch, Size
from common.sessions.comparison_scope import Scope, certificate_launches


def main() -> None:
    """Find the nodes, and make the launches that the command line names, with a worker on each of two."""
    folder, steps, *names = sys.argv[1:]
    hosts, size = cluster.find(Console(), Selection(slurm=True), (2,)), Size(2, 2)
    scope = Scope(workers=(2,), spread=hosts.spread)
    for name, _, choices in (each.partition("=") for each in names):
        strategy = find(name)
        options = strategy.options(**dict(each.split(":") for each in choices.split(",") if each))
        [launch, *_] = certificate_launches(scope, strategy, size)
        launch = dataclasses.replace(launch, options=options)
        if int(steps):
            task = dataclasses.replace(preset_task("digits"), workers=2, steps=int(steps), deadline_seconds=300.0)
            launch = PlannedLaunch(strategy, 2, "throughput", 1, task, options, size.hosts)
        record = run_planned(launch, Path(folder), hosts)
        print(f"{launch.name}: {record.status} {record.reason}", flush=True)


if __name__ == "__main__":
    exit_with_one_line(main)
