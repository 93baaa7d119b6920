"""common/sessions/probes.py: which probes a comparison makes, how they are started, and that none of them ends it."""

import dataclasses
import io
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.arguments import parse_command_line
from common.declarations.strategy import PROCESS, Launcher, Probe
from common.launching import executor, launch
from common.measurement import machine
from common.measurement.probing import declared
from common.paths import ROOT
from common.records import manifest
from common.records.ceiling import FOLDER, Ceiling, read_ceilings
from common.records.files import write_record
from common.sessions import compare, probes
from common.sessions.comparison_schedule import ComparisonSchedule
from common.sessions.comparison_scope import Scope
from common.sessions.session import Schedule, Session, Stage


@dataclass(frozen=True)
class Ended:
    """What a schedule must know of a record."""

    status: str


PROBED = [family for family in catalogue.families().values() if family.probe]
TRIED = {"NUMPY_KERNELS": "fast"}
PROBE = Probe(script="numpy_impl/ceiling.py", like="numpy_threads", operation="a sum", tried=(TRIED,))


@pytest.fixture
def probed(declare, catalogue_of, monkeypatch):
    """A function that makes a base and a strategy, whose family has a probe, all there are, on so many cores."""

    def have(cores=2, launcher=PROCESS, **changes):
        monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)))
        family = dataclasses.replace(declare().family, probe=dataclasses.replace(PROBE, **changes))
        base = declare("numpy_alone", work=Work.UNDISTRIBUTED, family=family, quick=True)
        strategy = declare(family=family, base="numpy_alone", launcher=launcher, quick=True)
        catalogue_of(base, strategy)
        return strategy

    return have


def names(scope):
    assert {str(Path(probe.name).parent) for probe in probes.planned(scope)} <= {FOLDER}
    return [Path(probe.name).name for probe in probes.planned(scope)]


# Which there are


def test_a_family_has_one_probe_in_its_largest_world_and_one_alone_for_each_thing_that_is_tried(probed):
    probed()
    assert names(Scope()) == [
        "numpy-alone-pathway-64r-2w",
        "numpy-alone-pathway-64r-1w-NUMPY_KERNELS_fast",
    ]


def test_every_preset_and_every_number_of_rows_of_the_rounds_is_probed(probed):
    probed(tried=())
    assert names(Scope(preset=("digits", "wide"))) == [
        "numpy-alone-digits-64r-2w",
        "numpy-alone-wide-512r-2w",
    ]
    full = names(Scope(profile="full"))
    # Weak scaling keeps a worker's rows, strong scaling halves them.
    assert {"numpy-alone-wide-512r-2w", "numpy-alone-wide-256r-2w"} < {*full}
    assert len(full) == 6


def test_a_family_that_clocks_no_products_has_nothing_to_clock_with_one_worker(probed):
    probed(products=False, tried=())
    assert names(Scope()) == ["numpy-alone-pathway-64r-2w"]
    assert names(Scope(workers=(1,))) == []


def test_a_world_that_is_oversubscribed_is_not_probed(probed):
    probed(cores=1, tried=())
    assert names(Scope()) == ["numpy-alone-pathway-64r-1w"]


def test_a_family_without_a_probe_has_none(declare, catalogue_of):
    catalogue_of(declare(quick=True))
    assert probes.planned(Scope()) == []


def test_a_probe_trains_nobody_longer_than_its_deadline(probed):
    probed()
    assert {probe.task.deadline_seconds for probe in probes.planned(Scope())} == {60.0}


@pytest.mark.parametrize("family", PROBED, ids=lambda family: family.environment)
def test_every_declared_probe_is_a_script_that_is_started_like_a_strategy_of_its_family(family):
    assert (ROOT / family.probe.script).is_file()
    assert Path(family.probe.script).parent == Path(catalogue.find(family.probe.like).script).parent
    assert catalogue.find(family.probe.like).family is family


# How they are made


@pytest.fixture
def started():
    """What was started: the options and the variables of each probe."""
    return []


@pytest.fixture
def made(probed, started, monkeypatch, tmp_path):
    """A function that makes the probes of a comparison, which end with a status; returns what it printed."""
    strategy = probed()

    def run(status=0, log=""):
        def start(arguments, root, log_path, deadline_seconds, variables):
            assert arguments[:3] == ["-m", "common.launching.launch", "numpy-alone_ceiling"]
            assert (root, deadline_seconds) == (ROOT, 60.0)
            task, _ = parse_command_line(strategy, "help", arguments[3:])
            started.append((task, variables))
            log_path.write_text(log)
            if status == 0:
                known = declared(strategy, task) | {"started_at": "2026-01-01T00:00:00.000+00:00"}
                write_record(task.record, Ceiling(**known, status="ok", elapsed_seconds=30.0))
            return status

        monkeypatch.setattr(executor, "start", start)
        console, planned = Console(file=io.StringIO(), width=200), probes.planned(Scope())
        session = Session(console, tmp_path, order_seed=0)
        session.run(
            Schedule([Stage("ceilings", "the ceilings", planned)]),
            executor.run_planned,
            probes.read,
            compare._in_words,
        )
        return console.file.getvalue()

    return run


def test_each_probe_leaves_a_file_in_a_folder_of_its_own(made, started, tmp_path):
    assert "ok  ceilings/numpy-alone-pathway-64r-2w" in made()
    assert [(task.workers, task.batch, variables) for task, variables in started] == [(2, 64, {}), (1, 64, TRIED)]
    assert {path.suffix for path in (tmp_path / FOLDER).iterdir()} == {".json", ".log"}
    assert len(read_ceilings(tmp_path)) == 2
    assert not list(tmp_path.glob("*.json"))


def test_what_was_made_before_an_interruption_counts_with_its_time_and_is_not_made_again(made, started, tmp_path):
    made()
    taken = (tmp_path / "durations.csv").read_text()
    made()
    assert (tmp_path / "durations.csv").read_text() == taken
    assert len(started) == 2


def test_what_a_probe_left_is_noted_once_and_an_edit_before_the_comparison_goes_on_is_not(made, tmp_path):
    made()
    assert len(manifest.read(tmp_path)) == 2 + len(["durations.csv"])
    edited, _ = sorted((tmp_path / FOLDER).glob("*.json"))
    edited.write_text(edited.read_text().replace("30.0", "40.0"))
    made()
    assert manifest.check(tmp_path).changed == (f"{FOLDER}/{edited.name}",)


def test_a_probe_that_failed_leaves_a_sentence_and_is_tried_again(made, started, tmp_path):
    made(status=1, log="lockstep: failed: It said nothing.")
    failed, tried = sorted(read_ceilings(tmp_path), key=lambda found: len(found.variables))
    assert (failed.status, failed.reason, failed.variables) == ("failed", "It said nothing.", {})
    assert tried.variables == TRIED
    assert (tmp_path / FOLDER / failed.log).read_text() == "lockstep: failed: It said nothing."
    made()
    assert [found.status for found in read_ceilings(tmp_path)] == ["ok", "ok"]


def test_a_framework_that_is_not_installed_is_a_sentence_too(made, probed, started, tmp_path, monkeypatch):
    def missing(strategy):
        raise launch.NotInstalledError("numpy isn't installed.")

    monkeypatch.setattr(executor, "python_for", missing)
    made()
    assert started == []
    assert {found.status for found in read_ceilings(tmp_path)} == {"unsupported"}


def test_a_probe_is_started_like_its_strategy_with_its_own_script(probed, monkeypatch):
    monkeypatch.setattr(machine, "gpu_names", list)
    numpyrun = Launcher(name="numpyrun", command=lambda launch: ["numpyrun", str(launch.workers), *launch.script])
    probed(launcher=numpyrun)
    _, _, command = launch.prepare(["numpy-alone_ceiling", "--preset", "digits"])
    assert command == ["numpyrun", "2", PROBE.script, "--preset", "digits", "--workers", "2"]


def test_a_probe_that_is_started_like_no_strategy_is_refused(probed, refusal):
    probed(like="numpy_others")
    said = refusal(lambda: launch.prepare(["numpy-alone_ceiling"]))
    assert said.startswith("There is no strategy named 'numpy_others': choose one of")


# When they are made


@pytest.mark.parametrize("scope", [Scope(), Scope(repetitions=2), Scope(repetitions=1)])
def test_they_come_once_after_the_first_round_and_before_anything_else_is_decided(probed, scope):
    probed()
    planned, prepared = probes.planned(Scope()), []
    schedule = ComparisonSchedule(scope, random.Random(0), planned, lambda launches: prepared.append(len(launches)))
    happened = []
    while stage := schedule.next_stage():
        happened.append(stage.title)
        for each in stage.launches:
            schedule.note(each, 10.0, Ended("ok"))
    first = [title for title in happened if title.startswith("round 1 of")]
    assert happened[: len(first) + 1] == [*first, "the frameworks' ceilings"]
    assert happened.count("the frameworks' ceilings") == len(prepared) == 1
    assert schedule.has_time_for_probes
    assert schedule.durations.spent() == pytest.approx(20.0 + 10.0 * len(schedule.durations.seconds), abs=1.0)


@pytest.mark.parametrize(
    ("limit", "has_time"), [({"minutes": 5.9}, True), ({"minutes": 5.8}, False), ({"repetitions": 3}, True)]
)
def test_they_are_left_out_where_the_time_does_not_suffice_for_them(probed, limit, has_time):
    probed()
    schedule = ComparisonSchedule(Scope(workers=(1,), **limit), random.Random(0), 2 * probes.planned(Scope())[:1])
    while (stage := schedule.next_stage()) and schedule.durations.spent() < 40:
        for each in stage.launches:
            schedule.note(each, 20.0, Ended("ok"))
    # Two launches in each of six rounds, two certificates, two probes and the report: 240 + 40 + 40 + 30 seconds.
    assert (stage.name == "ceilings") == schedule.has_time_for_probes == has_time
