"""Every command line by which a launch starts in an allocation of Slurm's, held to a text that was read once.

A reader sees there what is started where, without a cluster. Whoever changes a command on purpose writes the text anew,
and reads what differs: `.nox/tools/bin/python -m tests.common.launching.hosts.test_slurm_commands`.
"""

import dataclasses
import shlex
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from common.contract.task import PRESETS
from common.declarations import catalogue, strategy
from common.launching.executor import run_planned
from common.launching.hosts import cluster
from common.launching.hosts.ranks import HostsOutcome
from common.launching.places.slurm_node import SlurmNode
from common.launching.planned import PlannedLaunch
from common.paths import ROOT
from common.records.header import Allocated
from tests.common.launching.hosts.test_cluster import cluster_of, member

KEPT = Path(__file__).with_name("slurm_commands.txt")
SHOWN = ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "SLURM_OVERLAP", "SLURM_CPUS_PER_TASK")
"""The variables of a launch that are in the text; the others are the allocation's, or go on for lines."""

LAUNCHES = [
    ("torch_ddp", {}),
    ("torch_sync_sgd", {"backend": "mpi"}),
    ("torch_sync_sgd", {"backend": "mpi", "mpi_starter": "srun"}),
    ("tf_multi_worker_mirrored", {}),
    ("tf_parameter_server", {}),
    ("horovod_torch", {}),
    ("horovod_torch", {"backend": "mpi"}),
    ("jax_data_parallel", {}),
]


def started(name, options, count, folder, run_over_hosts):
    """The lines on a launch of this strategy with two workers on each of so many nodes."""
    members = [member(number, host=SlurmNode(f"node{number}", 2, 2)) for number in range(1, count + 1)]
    program = catalogue.find(name)
    task = dataclasses.replace(PRESETS["digits"], workers=2 * count)
    launch = PlannedLaunch(program, 2 * count, "throughput", 1, task, program.options(**options), hosts=count)
    run_planned(launch, folder, cluster_of(count, members=members, allocation=Allocated(job="7")))
    words = "".join(f" --{key.replace('_', '-')} {value}" for key, value in options.items())
    yield f"## {name}{words}: {2 * count} workers on {count} node{'s' if count > 1 else ''}"
    for each in run_over_hosts.call_args.args[0]:
        yield f"here$ {shlex.join(each.host.command(['-m', 'common.launching.hosts.agent', 'run']))}"
        variables = [f"{key}={each.environment[key]}" for key in SHOWN if key in each.environment]
        yield f"{each.host.name}$ export {' '.join(variables)}"
        yield from (f"{each.host.name}$ {shlex.join(map(str, command))}" for command in each.commands)
    yield ""


def text(monkeypatch, folder):
    """All launches, on a machine on which every environment is made, for a user who isn't root."""
    run_over_hosts = Mock(return_value=HostsOutcome(1, reason="It is only looked at."))
    monkeypatch.setattr(cluster, "run_over_hosts", run_over_hosts)
    monkeypatch.setattr(
        cluster, "python_for", lambda program: Path(ROOT, ".nox", program.family.environment, "bin/python")
    )
    monkeypatch.setattr(cluster.random, "choice", lambda ports: ports[0])
    monkeypatch.setattr("common.launching.executor.python_for", lambda program: None)
    monkeypatch.setattr(strategy.shutil, "which", lambda program, path=None: f"{path}/{program}")
    monkeypatch.setattr(strategy.os, "geteuid", lambda: 1000)
    lines = [
        line
        for name, options in LAUNCHES
        for count in (1, 2, 4)
        # On one node this launch is refused.
        if count > 1 or "mpi_starter" not in options
        for line in started(name, options, count, folder, run_over_hosts)
    ]
    plain = "\n".join(lines).replace(str(ROOT), "/lockstep")
    return plain.replace(cluster.sys.executable.replace(str(ROOT), "/lockstep"), "/lockstep/.nox/tools/bin/python")


def test_every_launcher_starts_in_an_allocation_as_was_read_once(monkeypatch, tmp_path):
    assert text(monkeypatch, tmp_path).splitlines() == KEPT.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as temporary:
        KEPT.write_text(text(patch, Path(temporary)), encoding="utf-8")
