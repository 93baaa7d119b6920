"""common/sessions/experiment.py: the journey of every experiment, with one that is made up and launches nothing."""

import contextlib
import dataclasses
import re
import sys
from dataclasses import dataclass

import pandas
import pytest
import tyro
from msgspec import structs

from common.errors import UserError
from common.laboratory import matrix_products
from common.launching.hosts.selection import Selection
from common.launching.planned import Hosts
from common.measurement import machine
from common.observations.display import read
from common.observations.table import whole
from common.records import manifest
from common.records.collective_times import CollectivesRecord
from common.records.files import read_records, write_record
from common.records.matrix_products import MatrixRecord
from common.sessions import chosen_hosts, experiment
from common.sessions.experiment import in_rounds, parse
from common.sessions.session import Placed, Stage
from tests.common.records.matrix_records import record


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What can be asked for."""

    repetitions: int = 2
    """How many."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    ranks = (1, 2)


@dataclass(frozen=True)
class Launch:
    """A made-up launch, whose name has its round."""

    way: str
    repetition: int

    @property
    def name(self):
        return f"{self.way}-{self.repetition:02d}"


def launches(scope, repetition):
    return [Launch(way, repetition) for way in ("alone", "rows_mpi")]


@pytest.fixture
def made():
    """The names of launches that were made, with their folders."""
    return []


@pytest.fixture
def usual(made):
    """An experiment of rounds on one machine."""

    def make(launch, folder, hosts):
        made.append(f"{folder.name}/{launch.name}")
        left = record(launch.way, {8: 0.5}, launch.repetition)
        write_record(folder / f"{launch.name}.json", left)
        return left

    return dataclasses.replace(
        matrix_products.EXPERIMENT, name="made_up", scope=Scope, stages=in_rounds(launches), make=make
    )


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A function that runs an experiment with these options; returns the exit status, None for a plan."""
    reports = []
    monkeypatch.setattr(experiment, "report", lambda module, folder, out: reports.append((module, folder, out)) or 0)
    monkeypatch.setattr(machine, "alone", contextlib.nullcontext)
    # Signals would go on ending the tests themselves in this way.
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def start(what, *options):
        command = ["made_up", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out.pdf"), *options]
        monkeypatch.setattr(sys, "argv", command)
        try:
            return experiment.run(what)
        except SystemExit as ending:
            return ending.code

    start.reports = reports
    return start


@pytest.fixture
def folder_of(tmp_path):
    """A function that returns the only session's folder."""

    def find():
        [folder] = (tmp_path / "results").iterdir()
        return folder

    return find


def test_rounds_are_made_told_kept_and_reported(usual, run, made, folder_of, tmp_path, capsys):
    assert run(usual, "--order-seed", "3") == 0
    folder = folder_of()
    assert folder.name.endswith("-made_up")
    assert sorted(made) == sorted(
        f"{folder.name}/{way}-{number:02d}" for way in ("alone", "rows_mpi") for number in (1, 2)
    )
    assert [each.rpartition("-")[2] for each in made] == ["01", "01", "02", "02"]
    assert read(folder).display.payload == "matrix products"
    assert whole(read(folder).observed, "seconds")["value"].tolist() == [0.5] * 4
    printed = capsys.readouterr().out
    assert "4 launches: 4 ok, 0 unsupported, 0 failed." in printed
    assert "rows_mpi" in printed
    assert run.reports == [("reports.experiment", folder, tmp_path / "out.pdf")]
    assert (folder / "command.txt").read_text().startswith("nox -s made_up -- --out ")


def test_a_plan_names_each_launch_with_how_often_it_is_made_and_makes_none(usual, run, made, tmp_path, capsys):
    assert run(usual, "--plan", "--repetitions", "3") is None
    assert [line.split()[1::2] for line in capsys.readouterr().out.splitlines()[3:5]] == [
        ["alone", "3"],
        ["rows_mpi", "3"],
    ]
    own = dataclasses.replace(usual, plan=lambda scope, results: pandas.DataFrame({"found in": [results]}))
    assert run(own, "--plan") is None
    assert str(tmp_path / "results") in capsys.readouterr().out.replace("\n", "")
    assert made == []
    assert not (tmp_path / "results").exists()


def test_an_interrupted_session_goes_on_in_its_folder_where_the_same_is_asked_for(
    usual, run, made, folder_of, tmp_path
):
    def interrupted(launch, folder, hosts):
        if len(made) == 3:
            raise KeyboardInterrupt
        return usual.make(launch, folder, hosts)

    assert run(dataclasses.replace(usual, make=interrupted)) == 130
    folder_of().rename(tmp_path / "results" / "20260101T000000-made_up")
    assert run(usual, "--repetitions", "1") == 0
    assert len(made) == 3 + 2
    assert run(usual) == 0
    assert made[-1].startswith("20260101T000000-made_up/")
    assert len(made) == 3 + 2 + 1


def test_a_failed_launch_is_the_exit_status_unless_it_may_fail(usual, run):
    def fail(launch, folder, hosts):
        left = structs.replace(usual.make(launch, folder, hosts), status="failed", reason="It broke.")
        write_record(folder / f"{launch.name}.json", left)
        return left

    failing = dataclasses.replace(usual, make=fail)
    assert run(failing) == 1
    assert run(dataclasses.replace(failing, may_fail=lambda record: True)) == 0


def test_launches_may_lie_below_and_depend_on_what_came_before(usual, run, made, folder_of, capsys):
    def stages(scope, seed, folder):
        yield Stage("first", "first", [Placed("below", Launch("alone", 1))])
        seen = [*read_records(folder / "below", MatrixRecord)]
        yield Stage("second", "second", [Launch("rows_mpi", number) for number in range(1, 1 + len(seen))])

    def table(stages, order_seed):
        return pandas.DataFrame({"stage": [each.name for each in stages], "seed": order_seed})

    placed = dataclasses.replace(usual, stages=stages, records_below={"below": MatrixRecord}, plan_table=table)
    assert run(placed, "--order-seed", "7") == 0
    folder = folder_of()
    assert made == ["below/alone-01", f"{folder.name}/rows_mpi-01"]
    assert (folder / "plan.csv").read_text() == "stage,seed\nfirst,7\nsecond,7\n"
    assert {*read(folder).observed["launch"]} == {"below/alone-01", "rows_mpi-01"}
    assert "2 launches: 2 ok" in capsys.readouterr().out
    run(placed, "--plan")
    assert re.search(r"below/alone .* 1 .*\n.*others .* by what these tell", capsys.readouterr().out)
    assert "below/alone-01.json" in manifest.read(folder)


def test_what_shows_nothing_ends_with_another_report_and_what_it_keeps_may_be_the_exit_status(usual, run, folder_of):
    kept = []
    own = dataclasses.replace(
        usual,
        results="made",
        show=None,
        report="reports",
        keep=lambda folder, gathered: kept.append((folder, [*gathered])) or 1,
    )
    assert run(own, "--repetitions", "1") == 1
    folder = folder_of()
    assert folder.name.endswith("-made")
    assert kept == [(folder, ["alone-01", "rows_mpi-01"])]
    assert not (folder / "observations.csv").exists()
    assert run.reports[0][0] == "reports"
    assert parse(own, []).output.out.name == "made.pdf"


def test_tables_and_report_of_an_earlier_session_are_made_again(usual, run, made, folder_of, tmp_path):
    run(usual)
    folder, _ = folder_of(), made.clear()
    (folder / "observations.csv").unlink()
    assert run(usual, "--again", str(folder)) == 0
    assert len(whole(read(folder).observed, "seconds")) == 4
    assert made == []
    with pytest.raises(UserError, match="holds no records of made_up: measure some first"):
        run(dataclasses.replace(usual, record=CollectivesRecord), "--again", str(tmp_path))


def test_what_cannot_be_had_is_refused_before_a_session_begins(usual, run, tmp_path):
    def refuse(scope, results):
        raise UserError(f"Nothing is in {results} for {scope.repetitions} rounds.")

    with pytest.raises(UserError, match="--repetitions 0: give a whole number above 0"):
        run(usual, "--repetitions", "0")
    with pytest.raises(UserError, match="results for 5 rounds"):
        run(dataclasses.replace(usual, prepare=refuse), "--repetitions", "5")
    assert not (tmp_path / "results").exists()


def test_virtual_hosts_alone_can_be_lost(usual):
    virtual = dataclasses.replace(usual, hosts="virtual")
    with pytest.raises(UserError, match="use --virtual-hosts"):
        parse(virtual, ["--hosts", "host1,host2"])
    assert parse(virtual, ["--virtual-hosts", "2"]).selection.virtual_hosts == 2


@pytest.mark.parametrize(
    ("hosts", "options"), [("any", ["--virtual-hosts", "2"]), (lambda scope: Selection(virtual_hosts=2), [])]
)
def test_hosts_come_from_the_options_or_by_the_scope_which_learns_of_them(usual, run, monkeypatch, hosts, options):
    spread, seen = Hosts(2, slots=1, cores=1), []

    def find(console, module, selection, workers, is_plan):
        seen.append((module, selection.virtual_hosts, workers, is_plan))
        return None, spread

    monkeypatch.setattr(chosen_hosts, "find", find)
    own = dataclasses.replace(
        usual, hosts=hosts, plan=lambda scope, results: seen.append(scope.spread) or pandas.DataFrame()
    )
    run(own, "--plan", *options)
    assert seen == [("common.laboratory.made_up", 2, (1, 2), True), spread]


def test_where_the_scope_chooses_hosts_there_are_no_options_for_them(usual):
    with pytest.raises(SystemExit):
        parse(dataclasses.replace(usual, hosts=lambda scope: Selection()), ["--slurm"])
