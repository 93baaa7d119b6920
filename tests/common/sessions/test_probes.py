"""common/sessions/probes.py: which probes a comparison makes, how they are started, and that none of them ends it."""

import dataclasses
import io
import random
from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.parametrize(
    ("probe", "scope", "names"),
    [
        ({}, {}, ["pathway-64r-2w", "pathway-64r-1w-NUMPY_KERNELS_fast"]),
        ({"tried": ()}, {"preset": ("digits", "wide")}, ["digits-64r-2w", "wide-512r-2w"]),
        ({"tried": (), "products": False}, {}, ["pathway-64r-2w"]),
        ({"tried": (), "products": False}, {"workers": (1,)}, []),
        ({"tried": (), "cores": 1}, {}, ["pathway-64r-1w"]),
        (
            {"tried": ()},
            {"profile": "full", "preset": ("pathway", "wide")},
            # Weak scaling keeps a worker's rows, strong scaling halves them.
            ["pathway-64r-2w", "pathway-32r-2w", "wide-512r-2w", "wide-256r-2w"],
        ),
    ],
    ids=[
        "one in the largest world, and one alone for each thing that is tried",
        "one for each preset",
        "without products in several workers alone",
        "which there aren't",
        "none in an oversubscribed world",
        "one for each number of rows of the rounds",
    ],
)
def test_a_family_has_a_probe_for_what_its_rounds_have(probed, probe, scope, names):
    probed(**probe)
    planned = probes.planned(Scope(**scope))
    assert [each.name for each in planned] == [f"{FOLDER}/numpy-alone-{name}" for name in names]
    assert {each.task.deadline_seconds for each in planned} <= {60.0}


def test_a_family_without_a_probe_has_none(declare, catalogue_of):
    catalogue_of(declare(quick=True))
    assert probes.planned(Scope()) == []


@pytest.mark.parametrize("family", PROBED, ids=lambda family: family.environment)
def test_every_declared_probe_is_a_script_that_is_started_like_a_strategy_of_its_family(family):
    assert (ROOT / family.probe.script).is_file()
    assert Path(family.probe.script).parent == Path(catalogue.find(family.probe.like).script).parent
    assert catalogue.find(family.probe.like).family is family


# How they are made


@pytest.fixture
def made(probed, monkeypatch, tmp_path):
    """A function that makes the probes of a comparison, which end with a status: what it printed, and what it started.

    Of each that was started it has the task and the variables.
    """
    strategy = probed()

    def run(status=0, log=""):
        started = []

        def start(arguments, root, log_path, deadline_seconds, variables):
            assert arguments[:3] == ["-m", "common.launching.launch", "numpy-alone_ceiling"]
            assert (root, deadline_seconds) == (ROOT, 60.0)
            task, _ = parse_command_line(strategy, "help", arguments[3:])
            started.append((task.workers, task.batch, variables))
            log_path.write_text(log)
            if status == 0:
                known = declared(strategy, task) | {"started_at": "2026-01-01T00:00:00.000+00:00"}
                write_record(task.record, Ceiling(**known, status="ok", elapsed_seconds=30.0))
            return status

        monkeypatch.setattr(executor, "start", start)
        console, stage = Console(file=io.StringIO(), width=200), Stage("", "the ceilings", probes.planned(Scope()))
        session = Session(console, tmp_path, order_seed=0)
        session.run(Schedule([stage]), executor.run_planned, probes.read, compare._in_words)
        return console.file.getvalue(), started

    return run


def test_each_probe_leaves_a_file_in_a_folder_of_its_own_and_is_not_made_again(made, tmp_path):
    printed, started = made()
    assert "ok  ceilings/numpy-alone-pathway-64r-2w" in printed
    assert started == [(2, 64, {}), (1, 64, TRIED)]
    assert {path.suffix for path in (tmp_path / FOLDER).iterdir()} == {".json", ".log"}
    assert len(read_ceilings(tmp_path)) == 2
    assert len(manifest.read(tmp_path)) == 2 + len(["durations.csv"])
    assert made()[1] == []


def test_a_probe_that_failed_leaves_a_sentence_and_is_tried_again(made, tmp_path):
    made(status=1, log="lockstep: failed: It said nothing.")
    failed, tried = sorted(read_ceilings(tmp_path), key=lambda found: len(found.variables))
    assert (failed.status, failed.reason, failed.variables) == ("failed", "It said nothing.", {})
    assert tried.variables == TRIED
    assert (tmp_path / FOLDER / failed.log).read_text() == "lockstep: failed: It said nothing."
    made()
    assert [found.status for found in read_ceilings(tmp_path)] == ["ok", "ok"]


def test_a_probe_is_started_like_its_strategy_with_its_own_script(probed, monkeypatch):
    monkeypatch.setattr(machine, "gpu_names", list)
    numpyrun = Launcher(name="numpyrun", command=lambda launch: ["numpyrun", str(launch.workers), *launch.script])
    probed(launcher=numpyrun)
    _, _, command = launch.prepare(["numpy-alone_ceiling", "--preset", "digits"])
    assert command == ["numpyrun", "2", PROBE.script, "--preset", "digits", "--workers", "2"]


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
            schedule.note(each, 10.0, SimpleNamespace(status="ok"))
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
            schedule.note(each, 20.0, SimpleNamespace(status="ok"))
    # Two launches in each of six rounds, two certificates, two probes and the report: 240 + 40 + 40 + 30 seconds.
    assert (stage.name == "ceilings") == schedule.has_time_for_probes == has_time
