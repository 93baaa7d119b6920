"""Kill at random, again and again, and look at what is left: workers, and the launcher itself.

To start it: `.nox/tools/bin/python -m tests.benchmarks.endurance`. A worker's launch is started again from its
checkpoint and held to the oracle. With one worker its weights have to be bit by bit those of a launch that nobody
killed. After each kill no process and no shared memory of the launch may be left, and no temporary file but in the
folder of a launcher that was killed itself. The exit status is 1 where this isn't so.
"""

import dataclasses
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import psutil
import tyro
from rich.console import Console
from rich.table import Table

from common.contract.model import State
from common.contract.task import Task
from common.declarations.catalogue import strategies
from common.declarations.strategy import Strategy
from common.errors import exit_with_one_line
from common.laboratory import faults
from common.launching.attempts import AGAIN
from common.launching.executor import run_planned
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.paths import ROOT
from common.records import certificate
from common.records.certificate import final_weights
from common.records.files import read_record
from common.records.recovery import Recovery, recovery_path

MARK = "LOCKSTEP_ENDURANCE"
"""Environment variable of all that a trial starts."""

SHARED_MEMORY = Path("/dev/shm")

_LEAVE_SECONDS = 10.0


@dataclass(frozen=True)
class Arguments:
    """Kill at random, and look at what is left."""

    trials: int = 200
    """Kills: half of workers, half of launchers."""
    seed: int = 0
    """Decides strategies, ranks and moments."""
    strategies: tuple[str, ...] = ()
    """Only these; none named: all."""


@dataclass(frozen=True)
class Trial:
    """One kill, and what is wrong after it; nothing is well."""

    strategy: str
    kind: str
    about: str
    wrong: tuple[str, ...]


def main() -> None:
    """Make all trials, print each that went wrong, and how many there were of each kind."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140, markup=False)
    chance = random.Random(arguments.seed)
    known = [each for each in strategies().values() if not arguments.strategies or each.name in arguments.strategies]
    scope, found = faults.Scope(), list[Trial]()
    task = faults.task_of(scope)
    with machine.alone():
        for number in range(arguments.trials):
            strategy, kill = chance.choice(known), (kill_worker, kill_launcher)[number % 2]
            with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
                trial = kill(strategy, task, chance, Path(folder))
            found.append(trial)
            console.print(f"{number + 1:>4} {trial.strategy}, {trial.about}: {'; '.join(trial.wrong) or 'well'}")
    table = Table("killed", "trials", "well")
    for kind, count in Counter(trial.kind for trial in found).items():
        table.add_row(kind, str(count), str(sum(trial.kind == kind and not trial.wrong for trial in found)))
    console.print(table)
    sys.exit(int(any(trial.wrong for trial in found)))


def kill_worker(strategy: Strategy, task: Task, chance: random.Random, folder: Path) -> Trial:
    """Kill a rank at a random step. The launch is started again, and has to follow the oracle."""
    workers = strategy.most_workers or chance.choice((1, 2))
    ranks = 1 if strategy.work.is_one_process else workers
    inject = f"kill:rank={chance.randrange(ranks)},step={chance.randrange(1, task.steps - 1)}"
    undisturbed = dataclasses.replace(task, workers=workers)
    task = dataclasses.replace(undisturbed, inject=inject, restarts=1)
    options = strategy.options(**strategy.synchronous_with)
    planned = PlannedLaunch(strategy, workers, "throughput", 1, task, options)
    before, wrong = files(folder), list[str]()
    own = {MARK: folder.name, "TMPDIR": str(folder / "tmp")}
    os.environ |= own
    record = run_planned(planned, folder)
    for name in own:
        del os.environ[name]
    wrong += [f"it ended {record.status} ({record.reason})"] if record.status != "ok" else []
    [compared] = certificate.compare({planned.name: record}, folder) or [None]
    wrong += (
        [f"it {compared.verdict} ({compared.note})"] if compared and compared.verdict != certificate.FOLLOWS else []
    )
    if workers == 1 and record.status == "ok":
        kept = final_weights(record, folder)
        others = weights_of(dataclasses.replace(planned, task=undisturbed))
        differing = [name for name, value in others.items() if not np.array_equal(kept[name], value)]
        wrong += [f"{differing[0]} isn't bit by bit what it is without a kill"] if differing else []
    account = read_record(recovery_path(folder / f"{planned.name}.json"), Recovery)
    wrong += ["nobody was killed"] if account.injected_seconds is None else []
    log = (folder / f"{planned.name}.log").read_text(encoding="utf-8", errors="replace")
    wrong += ["it wasn't started again"] if AGAIN not in log and {} not in strategy.recovers_with else []
    return Trial(strategy.name, "worker", inject, (*wrong, *left(folder, before)))


@cache
def weights_of(planned: PlannedLaunch) -> State:
    """The final weights of a launch that nobody disturbs."""
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        return final_weights(run_planned(planned, Path(folder)), Path(folder))


def kill_launcher(strategy: Strategy, task: Task, chance: random.Random, folder: Path) -> Trial:
    """Kill the launcher at a random moment: all that it started has to end, and no record may be half there."""
    seconds, before = chance.uniform(0.2, 8.0), files(folder)
    words = ["-m", "common.launching.launch", strategy.name, "--workers", str(strategy.most_workers or 2)]
    words += ["--steps", "1000000", "--record", str(folder / "run.json"), "--deadline-seconds", "60"]
    environment = {**os.environ, MARK: folder.name}
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    process.kill()
    process.wait()
    wrong = ["a record is there"] if (folder / "run.json").exists() else []
    return Trial(strategy.name, "launcher", f"after {seconds:.1f} s", (*wrong, *left(folder, before)))


def files(folder: Path) -> set[Path]:
    """What lies in shared memory, and in the folder that the trial has for temporary files."""
    own = folder / "tmp"
    own.mkdir(exist_ok=True)
    return {*SHARED_MEMORY.iterdir(), *own.iterdir()}


def left(folder: Path, before: set[Path]) -> list[str]:
    """What is left of a trial a few seconds after it: processes, and files that weren't there `before`."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    while (running := processes(folder.name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    remaining = [f"still running: {', '.join(running)}"] if running else []
    return [*remaining, *(f"left: {path}" for path in sorted(files(folder) - before))]


def processes(mark: str) -> list[str]:
    """The processes that a trial has started and that run."""
    found = list[str]()
    for process in psutil.process_iter():
        try:
            is_own = process.pid != os.getpid() and process.environ().get(MARK) == mark
            if is_own and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.name()} ({process.pid})")
        except (psutil.Error, OSError):  # It has ended meanwhile, or is another user's.
            continue
    return found


if __name__ == "__main__":
    exit_with_one_line(main)
