"""common/laboratory/calibrate.py: its launches, and how it ends. Launches are made up."""

import math
import random
from functools import partial

import pytest
from msgspec import structs

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import Options
from common.laboratory import calibrate
from common.laboratory.calibrate import EXPERIMENT, RUNNERS, Scope, launches
from common.launching.executor import HERE
from common.measurement import machine
from common.records import calibration
from common.records.files import read_record, write_record
from common.records.training import Record
from common.sessions import experiment
from common.sessions.experiment import observed_of
from tests import launching
from tests.common.records.test_calibration import make_calibration
from tests.reports.records import mistaken


@pytest.fixture(autouse=True)
def base(declare, catalogue_of):
    """The only strategy of the quick profile that distributes nothing, behind others."""
    base = declare("numpy_alone", work=Work.UNDISTRIBUTED, options=Options, quick=True)
    slow = declare("numpy_slow", work=Work.UNDISTRIBUTED, options=Options)
    catalogue_of(declare(quick=True), slow, base)
    return base


NOISE = random.Random(0)


def left_by(launch):
    """What a launch leaves: a record of a step's seconds, with a little spread."""
    seconds = (0.105 if launch.runner else 0.1) * math.exp(NOISE.gauss(0.0, 0.005))
    return launching.left_by(launch, seconds, host=machine.host_facts(), git_commit="0123456")


def test_without_a_name_the_first_base_of_the_quick_profile_is_launched(base, declare, catalogue_of):
    assert catalogue.first_base() is base
    catalogue_of(declare(), declare("numpy_more"))
    assert catalogue.first_base().name == "numpy_threads"


def test_a_round_launches_what_the_quick_comparison_measures_under_each_name(base):
    made = [*launches(Scope(), 3)]
    assert [(each.folder, each.launch.runner, each.launch.repetition) for each in made] == [
        (name, runner, 3) for name, runner in RUNNERS.items()
    ]
    launch = made[0].launch
    assert (launch.strategy, launch.workers, launch.purpose, launch.task.preset) == (base, 1, "throughput", "pathway")


def test_a_short_calibration_says_what_it_leaves_open_and_is_kept_where_comparisons_look_for_it(
    monkeypatch, tmp_path, run_here, capsys
):
    def run_planned(launch, folder, hosts):
        write_record(folder / f"{launch.name}.json", record := left_by(launch))
        return record

    monkeypatch.setattr(calibrate, "run_planned", run_planned)
    calibration_here = partial(experiment.run, EXPERIMENT)
    assert run_here(calibration_here, tmp_path, "--repetitions", "12", "--order-seed", "5") == 0
    printed = capsys.readouterr().out
    assert "The promises hold: equal launches can't be concluded, busy work can't be concluded." in printed
    assert "36 launches: 36 ok" in printed
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    [path] = tmp_path.glob(f"*-calibration/{calibration.FILE}")
    found = calibration.read(path)
    assert (found.strategy, found.workers, found.rounds, found.blocks, found.order_seed) == ("numpy_alone", 1, 12, 2, 5)
    assert (found.processor, found.cores) == (machine.host_facts().processor, machine.host_facts().usable_cores)
    assert (found.commit, found.date) == ("0123456", "2026-01-01")
    assert found.busy_share == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(("found", "status", "busy_work"), [(18, 0, "yes"), (0, 1, "no")])
def test_a_broken_promise_is_the_exit_status_of_a_whole_calibration(tmp_path, found, status, busy_work):
    gathered = {calibration.KIND: make_calibration(found=found)}
    assert calibrate.keep(tmp_path, gathered) == status
    answer = observed_of(EXPERIMENT, gathered).display.answer
    assert answer == f"The promises hold: equal launches yes, busy work {busy_work}."


def test_only_rounds_count_that_have_every_name_and_too_few_say_nothing(tmp_path):
    placed = [each for number in range(1, 12) for each in launches(Scope(), number)]
    records = {each.name: left_by(each.launch) for each in placed}
    [name] = [each for each in records if each.startswith("busy/") and each.endswith("-07")]
    records[name] = structs.replace(records[name], status="failed", reason="It broke.")
    assert calibrate.calibrated(tmp_path, records)[calibration.KIND].rounds == 10
    assert calibrate.calibrated(tmp_path, {each: records[each] for each in [*records][:9]}) == {}


def test_a_launch_that_measures_nothing_ends_the_calibration_and_counts_as_not_made(monkeypatch, refusal, tmp_path):
    launch, folder = next(launches(Scope(), 2)).launch, tmp_path / "second"

    def make(record):
        monkeypatch.setattr(calibrate, "run_planned", lambda *_: record)
        return calibrate.make(launch, folder, HERE)

    good, beginning = left_by(launch), "Round 2 has no measurement of second, since its launch is failed ("
    failed = structs.replace(good, status="failed", reason="It broke.")
    assert refusal(lambda: make(failed)).startswith(f"{beginning}It broke; log: {folder}/")
    assert refusal(lambda: make(mistaken(good))).startswith(f"{beginning}It trained something else: 0 rows counted")
    assert read_record(folder / f"{launch.name}.json", Record).status == "failed"
    assert make(good) == good
