"""common/sessions/probes.py: which probes a comparison makes, how they are started, and that none of them ends it."""

import dataclasses
from pathlib import Path

import pytest

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.arguments import parse_command_line
from common.declarations.strategy import PROCESS, Launcher, Probe
from common.launching import executor, launch
from common.measurement import machine
from common.measurement.probing import declared
from common.paths import ROOT
from common.records.ceiling import FOLDER, Ceiling
from common.records.files import write_record
from common.sessions import compare, probes
from common.sessions.comparison_scope import Scope
from tests.common.sessions.test_comparison_schedule import Comparison

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


@pytest.mark.parametrize("family", PROBED, ids=lambda family: family.environment)
def test_every_declared_probe_is_a_script_that_is_started_like_a_strategy_of_its_family(family):
    assert (ROOT / family.probe.script).is_file()
    assert Path(family.probe.script).parent == Path(catalogue.find(family.probe.like).script).parent
    assert catalogue.find(family.probe.like).family is family


def test_each_probe_leaves_a_record_in_a_folder_of_its_own_also_where_it_fails(probed, monkeypatch, tmp_path):
    strategy, started = probed(), []

    def start(arguments, root, log_path, deadline_seconds, variables):
        assert arguments[:3] == ["-m", "common.launching.launch", "numpy-alone_ceiling"]
        assert (root, deadline_seconds) == (ROOT, 60.0)
        task, _ = parse_command_line(strategy, "help", arguments[3:])
        started.append((task.workers, task.batch, variables))
        if variables:
            log_path.write_text("lockstep: failed: It said nothing.")
            return 1
        log_path.touch()
        known = declared(strategy, task) | {"started_at": "2026-01-01T00:00:00.000+00:00"}
        write_record(task.record, Ceiling(**known, status="ok", elapsed_seconds=30.0))
        return 0

    monkeypatch.setattr(executor, "start", start)
    planned = probes.planned(Scope())
    whole, failed = (executor.run_planned(each, tmp_path) for each in planned)
    assert started == [(2, 64, {}), (1, 64, TRIED)]
    assert {path.parent for path in tmp_path.rglob("*.*")} == {tmp_path / FOLDER}
    assert [probes.read(tmp_path / f"{each.name}.json") for each in planned] == [whole, failed]
    assert compare._in_words(planned[0], whole) == "nothing to clock"
    assert (failed.status, failed.reason, failed.variables) == ("failed", "It said nothing.", TRIED)
    assert (tmp_path / FOLDER / failed.log).read_text() == "lockstep: failed: It said nothing."


def test_a_probe_is_started_like_its_strategy_with_its_own_script(probed, monkeypatch):
    monkeypatch.setattr(machine, "gpu_names", list)
    numpyrun = Launcher(name="numpyrun", command=lambda launch: ["numpyrun", str(launch.workers), *launch.script])
    probed(launcher=numpyrun)
    _, _, command = launch.prepare(["numpy-alone_ceiling", "--preset", "digits"])
    assert command == ["numpyrun", "2", PROBE.script, "--preset", "digits", "--workers", "2"]


@pytest.mark.parametrize("scope", [Scope(), Scope(repetitions=2), Scope(repetitions=1)])
def test_they_come_once_after_the_first_round_and_before_anything_else_is_decided(probed, scope):
    probed()
    prepared = []
    found = Comparison(scope, lambda launch: 10.0, probes=probes.planned(scope), prepare=prepared.append)
    titles = [stage.title for stage in found.stages]
    place = titles.index("the frameworks' ceilings")
    assert [title.startswith("round 1 of") for title in titles] == [number < place for number in range(len(titles))]
    assert titles.count("the frameworks' ceilings") == len(prepared) == 1
    assert found.durations.spent() == pytest.approx(20.0 + 10.0 * len(found.durations.seconds), abs=1.0)


@pytest.mark.parametrize(
    ("limit", "has_time"), [({"minutes": 5.9}, True), ({"minutes": 5.8}, False), ({"repetitions": 3}, True)]
)
def test_they_are_left_out_where_the_time_does_not_suffice_for_them(probed, limit, has_time):
    probed()
    found = Comparison(Scope(workers=(1,), **limit), lambda launch: 20.0, probes=2 * probes.planned(Scope())[:1])
    # Two launches in each of six rounds, two certificates, two probes and the report: 240 + 40 + 40 + 30 seconds.
    assert bool(found.launches("ceilings")) == found.schedule.has_time_for_probes == has_time
