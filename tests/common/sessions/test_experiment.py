"""common/sessions/experiment.py: the journey of every experiment, with one that is made up and launches nothing."""

import dataclasses
import re
from functools import partial
from types import SimpleNamespace

import pandas
import pytest
from msgspec import structs

from common.errors import UserError
from common.laboratory import collectives, matrix_products
from common.launching.hosts.selection import Selection
from common.observations.display import read
from common.observations.table import whole
from common.records import manifest
from common.records.files import read_records, write_record
from common.records.matrix_products import MatrixRecord
from common.sessions import experiment
from common.sessions.experiment import in_rounds, parse
from common.sessions.session import Placed, Stage
from tests.common.records.matrix_records import record
from tests.common.sessions.test_session import Launch


def launches(scope, repetition):
    return [Launch(way, repetition) for way in ("alone", "rows_mpi")]


@pytest.fixture
def run(run_here, monkeypatch, tmp_path):
    """A function that runs an experiment of rounds on one machine, with changes, and these options.

    Returns the exit status, the session's folder, where there is one, the launches that were made, and the reports that
    were written.
    """

    def start(*options, status="ok", interrupted_after=None, **changes):
        made, reports = [], []

        def make(launch, folder, hosts):
            if len(made) == interrupted_after:
                raise KeyboardInterrupt
            made.append(f"{folder.name}/{launch.name}")
            left = structs.replace(
                record(launch.series, {8: 0.5}, launch.repetition), status=status, reason="It broke."
            )
            write_record(folder / f"{launch.name}.json", left)
            return left

        usual = {"name": "made_up", "stages": in_rounds(launches), "make": make}
        monkeypatch.setattr(experiment, "report", lambda *about: reports.append(about) or 0)
        made_up = dataclasses.replace(matrix_products.EXPERIMENT, **usual | changes)
        code = run_here(partial(experiment.run, made_up), tmp_path / "results", "--repetitions", "2", *options)
        folder = max((tmp_path / "results").glob("*"), default=None)
        return SimpleNamespace(code=code, folder=folder, made=made, reports=reports)

    return start


def test_rounds_are_made_told_kept_and_reported(run, tmp_path, capsys):
    ran = run("--order-seed", "3")
    assert ran.code == 0
    assert ran.folder.name.endswith("-made_up")
    names = [f"{ran.folder.name}/{way}-{number}" for number in (1, 2) for way in ("alone", "rows_mpi")]
    assert [sorted(ran.made[:2]), sorted(ran.made[2:])] == [names[:2], names[2:]]
    assert read(ran.folder).display.payload == "matrix products"
    assert whole(read(ran.folder).observed, "seconds")["value"].tolist() == [0.5] * 4
    printed = capsys.readouterr().out
    assert "4 launches: 4 ok, 0 unsupported, 0 failed." in printed
    assert "rows_mpi" in printed
    assert ran.reports == [("reports.experiment", ran.folder, tmp_path / "out.pdf")]
    assert (ran.folder / "command.txt").read_text().startswith("nox -s made_up -- --repetitions 2 --out ")


def test_a_plan_names_each_launch_with_how_often_it_is_made_and_makes_none(run, tmp_path, capsys):
    plans = [
        run("--plan", "--repetitions", "3"),
        run("--plan", plan=lambda scope, results: pandas.DataFrame({"found in": [results]})),
        run("--plan", stages=lambda scope, seed, folder: iter([Stage("first", "first", launches(scope, 1))])),
    ]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1::2] for line in lines[3:5]] == [["alone", "3"], ["rows_mpi", "3"]]
    assert str(tmp_path / "results") in "".join(lines)
    assert re.search(r"rows_mpi .* 1 .*\n.*others .* by what these tell", "\n".join(lines))
    assert [(plan.code, plan.folder, plan.made) for plan in plans] == [(0, None, [])] * 3


def test_an_interrupted_session_goes_on_in_its_folder_where_the_same_is_asked_for(run, tmp_path):
    interrupted = run(interrupted_after=3)
    assert interrupted.code == 130
    begun = interrupted.folder.rename(tmp_path / "results" / "20260101T000000-made_up")
    other = run("--repetitions", "1")
    assert (len(other.made), other.folder == begun) == (2, False)
    assert [name.partition("/")[0] for name in run().made] == [begun.name]


def test_a_failed_launch_is_the_exit_status_unless_it_may_fail(run):
    assert run(status="unsupported").code == 0
    assert run("--repetitions", "1", status="failed").code == 1
    assert run("--repetitions", "1", status="failed", may_fail=lambda record: True).code == 0


def test_launches_may_lie_below_and_depend_on_what_came_before(run, capsys):
    def stages(scope, seed, folder):
        yield Stage("first", "first", [Placed("below", Launch("alone", 1))])
        seen = [*read_records(folder / "below", MatrixRecord)]
        yield Stage("second", "second", [Launch("rows_mpi", number) for number in range(1, 1 + len(seen))])

    def table(stages, order_seed):
        return pandas.DataFrame({"stage": [each.name for each in stages], "seed": order_seed})

    ran = run("--order-seed", "7", stages=stages, records_below={"below": MatrixRecord}, plan_table=table)
    assert ran.made == ["below/alone-1", f"{ran.folder.name}/rows_mpi-1"]
    assert (ran.folder / "plan.csv").read_text() == "stage,seed\nfirst,7\nsecond,7\n"
    assert {*read(ran.folder).observed["launch"]} == {"below/alone-1", "rows_mpi-1"}
    assert "2 launches: 2 ok" in capsys.readouterr().out
    assert "below/alone-1.json" in manifest.read(ran.folder)


def test_what_shows_nothing_ends_with_another_report_and_what_it_keeps_may_be_the_exit_status(run):
    kept = []
    about = {"results": "made", "show": None, "report": "reports"}
    ran = run("--repetitions", "1", **about, keep=lambda folder, gathered: kept.append((folder, [*gathered])) or 1)
    assert ran.code == 1
    assert ran.folder.name.endswith("-made")
    assert kept == [(ran.folder, ["alone-1", "rows_mpi-1"])]
    assert not (ran.folder / "observations.csv").exists()
    assert ran.reports[0][0] == "reports"
    assert parse(dataclasses.replace(matrix_products.EXPERIMENT, **about), []).output.out.name == "made.pdf"


def test_tables_and_report_of_an_earlier_session_are_made_again(run, tmp_path):
    folder = run().folder
    (folder / "observations.csv").unlink()
    again = run("--again", str(folder))
    assert (again.code, again.made) == (0, [])
    assert len(whole(read(folder).observed, "seconds")) == 4
    with pytest.raises(UserError, match="holds no records of made_up: measure some first"):
        run("--again", str(tmp_path))


def refuse(scope, results):
    raise UserError(f"Nothing is in {results} for {scope.repetitions} rounds.")


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        (["--repetitions", "0"], {}, "--repetitions 0: give a whole number above 0"),
        (["--repetitions", "5"], {"prepare": refuse}, "results for 5 rounds"),
        (["--hosts", "one,two"], {"hosts": "virtual"}, "use --virtual-hosts"),
    ],
)
def test_what_cannot_be_had_is_refused_before_a_session_begins(run, tmp_path, options, changes, said):
    with pytest.raises(UserError, match=said):
        run(*options, **changes)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("hosts", "options"), [("any", ["--virtual-hosts", "2"]), (lambda scope: Selection(virtual_hosts=2), [])]
)
def test_hosts_come_from_the_options_or_by_the_scope_which_learns_of_them(run, hosts, options):
    seen = []
    about = {"scope": collectives.Scope, "hosts": hosts}
    about["plan"] = lambda scope, results: seen.append(scope.spread) or pandas.DataFrame()
    run("--plan", "--workers", "2", "4", *options, **about)
    # Each has the slots for the most ranks.
    assert [(spread.count, spread.slots) for spread in seen] == [(2, 4)]


def test_where_the_scope_chooses_hosts_there_are_no_options_for_them(run):
    assert run("--slurm", hosts=lambda scope: Selection()).code == 2
