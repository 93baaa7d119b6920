"""common/launching/planned.py: what is started for a launch, and the record that is kept of one of the laboratory."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.sweep import Sweep
from common.errors import NotInstalledError
from common.launching import executor
from common.launching.executor import ThisMachine, run_planned
from common.launching.exit_cause import TIMED_OUT_STATUS, Ended
from common.launching.planned import PlannedLaunch, PlannedSweep
from common.records.collective_times import Cell, append_line, cells_path
from common.records.files import to_json
from tests.common.conftest import NUMPY

CELL = Cell(
    collective="all_reduce", size_bytes=8, status="ok", entered_seconds=[[0.0], [0.1]], left_seconds=[[0.2], [0.3]]
)
ABOUT = {"backend": "gloo", "timing_seconds": 1e-7, "started_at": "2026-01-31T12:00:00.000+00:00"}


@pytest.fixture
def planned():
    return PlannedSweep(catalogue.find_library("gloo"), Sweep(sizes=("8",)), repetition=3)


@pytest.fixture
def launch(monkeypatch, tmp_path):
    """A function that makes a launch leave these lines and this log, and end with this status."""

    def make(lines, status, log=""):
        def start(arguments, root, log_path, deadline_seconds, variables):
            log_path.write_text(log)
            for line in lines:
                append_line(cells_path(tmp_path / "gloo-2w-03.json"), line)
            return status

        monkeypatch.setattr(executor, "start", start)
        monkeypatch.setattr(executor, "python_for", lambda library: None)

    return make


def test_a_launch_that_ends_well_leaves_every_cell(launch, planned, tmp_path):
    launch([ABOUT, CELL, {"elapsed_seconds": 2.0}], 0)
    record = run_planned(planned, tmp_path)
    assert (record.status, record.reason, record.cells) == ("ok", None, [CELL])
    assert (record.library, record.world_size, record.repetition, record.elapsed_seconds) == ("gloo", 2, 3, 2.0)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["gloo-2w-03.json"]
    assert not cells_path(tmp_path / "gloo-2w-03.json").exists()


def test_what_was_measured_before_a_rank_died_is_kept(launch, planned, tmp_path):
    launch([ABOUT, CELL], 1, "lockstep: failed: rank 1 ended with signal 9.\n")
    record = run_planned(planned, tmp_path)
    assert (record.status, record.reason) == ("failed", "rank 1 ended with signal 9.")
    assert record.cells == [CELL]


def test_what_was_measured_before_a_launch_over_hosts_failed_is_kept_and_only_the_lines_are_asked_for(
    launch, planned, tmp_path
):
    cells = cells_path(tmp_path / f"{planned.name}.json")

    class Hosts(ThisMachine):
        def run(self, job, site, log_path):
            assert job.files == [cells.name]
            assert job.arguments[-2:] == ["--workers", "2"]
            for line in (ABOUT, to_json(CELL)):
                append_line(cells, line)
            return Ended("failed", "host2: rank 1 ended with signal 9.")

    launch([], 0)
    record = run_planned(planned, tmp_path, Hosts())
    assert (record.status, record.reason) == ("failed", "host2: rank 1 ended with signal 9.")
    assert record.cells == [CELL]


def test_a_launch_that_hung_is_failed_by_its_deadline(launch, planned, tmp_path):
    launch([], TIMED_OUT_STATUS)
    record = run_planned(planned, tmp_path)
    assert record.status == "failed"
    assert "deadline of 300 s" in record.reason
    assert record.cells == []


def test_one_that_ends_in_the_middle_without_an_error_is_failed(launch, planned, tmp_path):
    launch([ABOUT, CELL], 0)
    assert run_planned(planned, tmp_path).status == "failed"


def test_a_refusal_is_unsupported(launch, planned, tmp_path):
    launch([], 2, "lockstep: There is no mpirun.\n")
    record = run_planned(planned, tmp_path)
    assert (record.status, record.reason) == ("unsupported", "There is no mpirun.")


def test_a_library_that_is_not_installed_is_unsupported_with_the_remedy(monkeypatch, planned, tmp_path):
    def missing(library):
        raise NotInstalledError("torch isn't installed: run `nox -s torch` once.")

    monkeypatch.setattr(executor, "python_for", missing)
    record = run_planned(planned, tmp_path)
    assert record.status == "unsupported"
    assert "nox -s torch" in record.reason


def test_lines_of_an_earlier_launch_do_not_count(launch, planned, tmp_path):
    append_line(cells_path(tmp_path / "gloo-2w-03.json"), ABOUT)
    append_line(cells_path(tmp_path / "gloo-2w-03.json"), CELL)
    launch([ABOUT, {"elapsed_seconds": 1.0}], 0)
    assert run_planned(planned, tmp_path).cells == []


def test_a_launch_is_traced_by_what_its_framework_declares(declare, refusal):
    def job_of(**changes):
        strategy = declare(family=dataclasses.replace(NUMPY, **changes))
        launch = PlannedLaunch(strategy, 2, "throughput", 1, Task(workers=2), strategy.options(), runner="tracer")
        return launch.job(Path("folder"))

    traced = job_of(tracer="numpy_impl.tracer")
    assert traced.words[:3] == ["--runner", "numpy_impl.tracer", "numpy_threads"]
    said = refusal(job_of)
    assert said == "NumPy declares no tracer, so what numpy_threads sends isn't known."


def test_busy_work_is_a_module_that_exists(declare):
    strategy = declare()
    launch = PlannedLaunch(strategy, 2, "throughput", 1, Task(workers=2), strategy.options(), runner="busy")
    _, module, name, *_ = launch.job(Path("folder")).words
    assert (importlib.util.find_spec(module) is not None, name) == (True, "numpy_threads")
    assert launch.name == dataclasses.replace(launch, runner=None).name


def test_the_rows_of_a_launch_over_hosts_are_in_the_cache_before_it_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    strategy = catalogue.find("torch_ddp")
    launch = PlannedLaunch(strategy, 2, "throughput", 1, Task(preset="digits"), strategy.options(), hosts=2)
    launch.job(tmp_path).check(0)
    assert [*tmp_path.rglob("digits*")]
