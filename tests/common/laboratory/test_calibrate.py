"""python -m common.laboratory.calibrate: its rounds, how it ends, and that it goes on where it stopped. Launches are
made up."""

import dataclasses
import math
import random
import sys

import pytest

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import Options
from common.laboratory import calibrate as program
from common.laboratory.calibrate import RUNNERS, planned
from common.launching import executor
from common.measurement import machine
from common.measurement.record import declared
from common.records import calibration
from common.records.files import write_record
from common.records.training import Record, Window
from common.sessions.comparison_scope import Scope, main_worlds

SECONDS = {None: 0.1, "busy": 0.105}


@pytest.fixture
def base(declare, catalogue_of):
    """The only strategy of the quick profile that distributes nothing, behind others."""
    base = declare("numpy_alone", work=Work.UNDISTRIBUTED, options=Options, quick=True)
    slow = declare("numpy_slow", work=Work.UNDISTRIBUTED, options=Options)
    catalogue_of(declare(quick=True), slow, base)
    return base


class Launches:
    """Makes up what launches leave: a record of a step's seconds, with a little spread."""

    def __init__(self):
        self.made, self.wrong = [], {}
        self._noise = random.Random(0)

    def run_planned(self, launch, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.made.append((folder.name, launch.repetition, launch.runner))
        known = declared(launch.strategy, launch.task, launch.options, launch.workers)
        if problem := self.wrong.get((folder.name, launch.repetition)):
            if not isinstance(problem, str):
                raise problem
            ended = {"status": "failed", "reason": problem, "log": f"{launch.name}.log"}
        else:
            seconds = SECONDS[launch.runner] * math.exp(self._noise.gauss(0.0, 0.005))
            ended = {"status": "ok", "windows": [Window(rank=0, step=50, steps=25, seconds=seconds)]}
        record = Record(**known, **ended, started_at="2026-01-01T00:00:00.000+00:00", examples_per_step=64)
        write_record(folder / f"{launch.name}.json", record)
        return record


@pytest.fixture
def launches(monkeypatch):
    launches = Launches()
    monkeypatch.setattr(executor, "run_planned", launches.run_planned)
    monkeypatch.setattr(machine, "git_commit", lambda: "0123456")
    return launches


@pytest.fixture
def calibrate(base, launches, tmp_path, monkeypatch):
    """A function that calibrates with these options; returns the exit status."""
    # Signals would go on ending the tests themselves in this way.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    # Hundreds of made-up launches needn't outlast a power failure.
    monkeypatch.setattr("os.fsync", lambda file: None)

    def run(*options):
        command = ["calibration", "--results", str(tmp_path), "--order-seed", "0", *options]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            program.main()
        return int(ended.value.code)

    return run


def result_in(folder):
    [path] = folder.glob(f"*-calibration/{calibration.FILE}")
    return calibration.read(path)


def test_without_a_name_the_first_base_of_the_quick_profile_is_launched(base, declare, catalogue_of):
    assert catalogue.first_base() is base
    catalogue_of(declare(), declare("numpy_more"))
    assert catalogue.first_base().name == "numpy_threads"


def test_a_round_launches_what_the_quick_comparison_measures_under_each_name(calibrate, launches, base):
    assert calibrate("--rounds", "12") == 0
    rounds = [launches.made[start : start + 3] for start in range(0, 36, 3)]
    for repetition, made in enumerate(rounds, start=1):
        assert {*made} == {(alias, repetition, runner) for alias, runner in RUNNERS.items()}
    assert len({tuple(alias for alias, *_ in made) for made in rounds}) > 1
    launch = planned(base, 3)
    assert (launch.strategy, launch.workers, launch.repetition, launch.purpose) == (base, 1, 3, "throughput")
    assert launch.task.preset == "pathway"


def test_a_distributed_strategy_has_the_workers_of_the_quick_comparisons_rounds(base, declare, catalogue_of):
    spread = declare(quick=True)
    catalogue_of(spread, base)
    assert planned(spread, 1).workers == main_worlds(Scope(strategies=(spread.name,)))[spread.name].workers


def test_a_short_calibration_ends_well_and_says_what_it_leaves_open(calibrate, tmp_path, capsys):
    assert calibrate("--rounds", "12", "--order-seed", "5") == 0
    said = capsys.readouterr().out
    assert "has seed 5" in said
    assert said.count("can't be concluded") == 2
    found = result_in(tmp_path)
    assert (found.strategy, found.workers, found.rounds, found.blocks, found.order_seed) == ("numpy_alone", 1, 12, 2, 5)
    assert (found.processor, found.cores) == (machine.host_facts().processor, machine.host_facts().cores)
    assert found.commit == "0123456"
    assert found.busy_share == pytest.approx(0.05, abs=0.01)


def test_a_whole_calibration_whose_promises_hold_ends_well(calibrate, tmp_path, capsys):
    assert calibrate() == 0
    assert "can't be concluded" not in capsys.readouterr().out
    found = result_in(tmp_path)
    assert (found.blocks, found.long_blocks, found.found) == (30, 18, 18)


def test_a_broken_promise_is_the_exit_status(calibrate, monkeypatch, capsys):
    # The busy launches are as fast as the others.
    monkeypatch.setitem(SECONDS, "busy", 0.1)
    assert calibrate() == 1
    assert " no " in capsys.readouterr().out


def test_an_interrupted_calibration_goes_on_where_it_stopped_in_the_same_order(
    calibrate, launches, tmp_path, monkeypatch
):
    launches.wrong = {("busy", 7): KeyboardInterrupt()}
    assert calibrate("--rounds", "10") == 130
    begun = list(launches.made)
    launches.wrong = {}
    [folder] = tmp_path.glob("*-calibration")
    folder.rename(tmp_path / "20260101T000000-calibration")
    # A commit of the README alone leaves the code as it is.
    monkeypatch.setattr(machine, "git_commit", lambda: "89abcde")
    assert calibrate("--rounds", "10") == 0
    assert launches.made[len(begun)] == begun[-1]
    assert len(launches.made) == 31
    assert len({*launches.made}) == 30
    assert result_in(tmp_path).rounds == 10


def test_a_finished_calibration_and_one_with_other_options_begin_anew(calibrate, launches, tmp_path):
    def grow_older():
        [newest] = tmp_path.glob("2*-calibration")
        newest.rename(tmp_path / f"older-{len(launches.made)}-calibration")

    launches.wrong = {("busy", 7): KeyboardInterrupt()}
    calibrate("--rounds", "10")
    grow_older()
    launches.made, launches.wrong = [], {}
    calibrate("--rounds", "11")
    assert len(launches.made) == 33
    grow_older()
    calibrate("--rounds", "11")
    assert len(launches.made) == 66


def test_a_launch_that_measures_nothing_ends_the_calibration_which_can_go_on(calibrate, launches, refusal):
    launches.wrong = {("second", 2): "It broke."}
    said = refusal(lambda: calibrate("--rounds", "10"))
    assert said.startswith("Round 2 has no measurement of second, since its launch is failed (It broke; log: ")
    launches.wrong = {}
    assert calibrate("--rounds", "10") == 0
    assert launches.made.count(("second", 2, None)) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--rounds", "9"], "--rounds 9: give 10 or more"),
        (["--strategy", "numpy_alnoe"], "There is no strategy named 'numpy_alnoe'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_launched(calibrate, launches, refusal, options, complaint):
    assert refusal(lambda: calibrate(*options)).startswith(complaint)
    assert launches.made == []


def test_a_strategy_that_is_not_installed_is_refused_before_anything_is_launched(
    calibrate, launches, base, declare, catalogue_of, refusal
):
    elsewhere = dataclasses.replace(base.family, environment="elsewhere", imports="a_module_that_nobody_has")
    catalogue_of(declare("numpy_elsewhere", family=elsewhere, work=Work.UNDISTRIBUTED, options=Options))
    assert "nox -s elsewhere" in refusal(calibrate)
    assert launches.made == []


def test_no_calibration_begins_while_something_else_measures(calibrate, launches, refusal):
    with machine.alone():
        assert "Another comparison or benchmark" in refusal(calibrate)
    assert launches.made == []
