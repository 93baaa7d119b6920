"""common/launching/planned.py: what is started for a launch, and the record that is kept of one of the laboratory."""

import dataclasses
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import Options
from common.declarations.sweep import Sweep
from common.launching import executor
from common.launching.executor import run_planned
from common.launching.exit_cause import TIMED_OUT_STATUS
from common.launching.planned import PlannedLaunch, PlannedSweep
from common.records.collective_times import Cell, append_line, cells_path
from tests.common.conftest import NUMPY

CELL = Cell(
    collective="all_reduce", size_bytes=8, status="ok", entered_seconds=[[0.0], [0.1]], left_seconds=[[0.2], [0.3]]
)
GLOO = PlannedSweep(catalogue.find_library("gloo"), Sweep(sizes=("8",)), repetition=3)
ABOUT = {"backend": "gloo", "timing_seconds": 1e-7, "started_at": "2026-01-31T12:00:00.000+00:00"}


@dataclass(frozen=True)
class TracedOptions(Options):
    trace: bool = True


@pytest.mark.parametrize(
    ("lines", "status", "log", "ended", "reason"),
    [
        ([ABOUT, CELL, {"elapsed_seconds": 2.0}], 0, "", "ok", None),
        ([ABOUT, CELL], 1, "lockstep: failed: rank 1 ended.\n", "failed", "rank 1 ended."),
        ([ABOUT, CELL], TIMED_OUT_STATUS, "", "failed", "It was ended by its deadline of 300 s."),
        ([ABOUT, CELL], 0, "", "failed", "It ended without saying that it had measured everything."),
        ([], 2, "lockstep: There is no mpirun.\n", "unsupported", "There is no mpirun."),
    ],
    ids=["ended well", "a rank died", "hung", "ended in the middle", "refused"],
)
def test_what_was_measured_is_kept_in_one_record_however_the_launch_ended(
    lines, status, log, ended, reason, monkeypatch, tmp_path
):
    def start(arguments, root, log_path, deadline_seconds, variables):
        log_path.write_text(log)
        for line in lines:
            append_line(cells_path(tmp_path / f"{GLOO.name}.json"), line)
        return status

    monkeypatch.setattr(executor, "start", start)
    monkeypatch.setattr(executor, "python_for", lambda library: None)
    record = run_planned(GLOO, tmp_path)
    assert (record.status, record.reason, record.cells) == (ended, reason, [CELL] if lines else [])
    assert (record.library, record.world_size, record.repetition) == ("gloo", 2, 3)
    assert record.elapsed_seconds == (2.0 if ended == "ok" else 0.0)
    assert {path.name for path in tmp_path.iterdir()} == {"gloo-2w-03.json", "gloo-2w-03.log"}


def test_of_a_launch_over_hosts_only_what_it_leaves_is_asked_for(declare):
    def files(suffixes, options=Options, **task):
        strategy = declare(options=options)
        launch = PlannedLaunch(strategy, 2, "throughput", 1, Task(workers=2, **task), options())
        assert launch.job(Path("folder")).files == [f"{launch.name}{suffix}" for suffix in suffixes]

    files([".json", ".evidence"])
    files([".json", ".evidence", ".trace"], TracedOptions)
    files([".json", ".evidence", ".safetensors"], checkpoint=Path("weights"))
    sweep = GLOO.job(Path("folder"))
    assert sweep.files == [cells_path(Path(f"{GLOO.name}.json")).name]
    assert sweep.arguments[-2:] == ["--workers", "2"]


def test_a_launch_runs_in_busy_work_or_by_the_tracer_that_its_framework_declares(declare, refusal):
    def launch_of(runner, **changes):
        strategy = declare(family=dataclasses.replace(NUMPY, **changes))
        return PlannedLaunch(strategy, 2, "throughput", 1, Task(workers=2), strategy.options(), runner=runner)

    busy, traced = launch_of("busy"), launch_of("tracer", tracer="numpy_impl.tracer")
    assert busy.name == traced.name == launch_of(None).name
    _, module, name, *_ = busy.job(Path("folder")).words
    assert (importlib.util.find_spec(module) is not None, name) == (True, "numpy_threads")
    assert traced.job(Path("folder")).words[:3] == ["--runner", "numpy_impl.tracer", "numpy_threads"]
    said = refusal(lambda: launch_of("tracer").job(Path("folder")))
    assert said == "NumPy declares no tracer, so what numpy_threads sends isn't known."


def test_the_rows_of_a_launch_over_hosts_are_in_the_cache_before_it_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    strategy = catalogue.find("torch_ddp")
    launch = PlannedLaunch(strategy, 2, "throughput", 1, Task(preset="digits"), strategy.options(), hosts=2)
    launch.job(tmp_path).check(0)
    assert [*tmp_path.rglob("digits*")]
