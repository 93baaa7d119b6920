"""common/sessions/session.py: what is made, in which order, and what is left to make; nothing is launched."""

import contextlib
import io
import re
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pandas
import pytest
from msgspec import structs
from rich.console import Console

from common.errors import UserError
from common.measurement import machine
from common.paths import ROOT
from common.records import manifest
from common.records.files import read_record, write_record
from common.records.matrix_products import MatrixRecord
from common.records.presentation import FILE, Presentation, of_catalogue
from common.sessions import compare
from common.sessions.session import Options, Placed, Schedule, Stage, begin, console_for, in_words, report, rounds_of
from tests.common.records.matrix_records import record

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@dataclass(frozen=True)
class Launch:
    """A made-up launch of a round."""

    series: str
    repetition: int = 1

    @property
    def name(self):
        return f"{self.series}-{self.repetition}"


ROUNDS = [Stage("round", f"round {number} of 2", [Launch("a", number), Launch("b", number)]) for number in (1, 2)]


def making(made, fail=(), interrupted_at=None, by=signal.SIGINT, job=None):
    """A function that makes launches and notes them in `made`; it is interrupted at one, once it is as far."""

    def make(launch, folder):
        if launch.name == interrupted_at:
            signal.raise_signal(by)
        made.append(launch.name)
        failed = {"status": "failed", "reason": "It broke [/].", "log": "its.log"}
        left = record("alone", {8: 0.5}, allocation=job and {"job": job}, **failed if launch.name in fail else {})
        write_record(folder / f"{launch.name}.json", left)
        return left

    return make


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A function that runs a session of stages or of a schedule, and returns what became of it.

    The status is None where it came to its end. Others may run meanwhile: no launch measures anything.
    """
    monkeypatch.setattr(machine, "alone", contextlib.nullcontext)
    # What a session forgets to catch is to fail a test, and not to end all of them.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    # Shells have what they start in the background ignore it.
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(make, stages=ROUNDS, job=None, **options):
        console, status, made = Console(file=io.StringIO(), width=200), None, []
        arguments = compare.Arguments(session=Options(results=tmp_path, order_seed=7))
        try:
            with begin(console, "mine", arguments, "two rounds", job=job) as session:
                schedule = stages if isinstance(stages, Schedule) else Schedule(stages)
                made = session.run(schedule, make, partial(read_record, kind=MatrixRecord), **options)
        except SystemExit as ending:
            status = ending.code
        launches = [launch.name for stage in made for launch in stage.launches]
        about = {"folder": session.folder, "order_seed": session.order_seed, "printed": console.file.getvalue()}
        return SimpleNamespace(status=status, launches=launches, **about)

    yield start
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_round_has_each_launch_once_in_an_order_of_its_own_which_the_seed_decides():
    rounds = [rounds_of(4, seed, lambda number: range(8 * number, 8 * number + 8)) for seed in (1, 1, 2)]
    assert rounds[0] == rounds[1] != rounds[2]
    orders = [[each - 8 * number for each in stage.launches] for number, stage in enumerate(rounds[0], 1)]
    assert [sorted(order) for order in orders] == [[*range(8)]] * 4
    assert len({tuple(order) for order in orders}) > 1
    assert [(stage.name, stage.title) for stage in rounds[0]][2:] == [("round", f"round {n} of 4") for n in (3, 4)]


def test_every_launch_of_every_round_is_made_and_said_as_it_is_and_the_session_is_finished(run, monkeypatch):
    clock, made = iter(range(0, 1000, 5)), []
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    ran = run(
        making(made, fail=["b-1"]),
        [ROUNDS[0], Stage("round", "[/round] 2", ROUNDS[1].launches)],
        words=lambda launch, record: in_words(launch, record) or f"({launch.name})",
    )
    assert made == ["a-1", "b-1", "a-2", "b-2"]
    assert (ran.folder / "finished").exists()
    assert read_record(ran.folder / FILE, Presentation) == of_catalogue()
    assert [re.sub(r"\s+", " ", line).strip() for line in ran.printed.splitlines() if line][-6:] == [
        "round 1 of 2:",
        "ok a-1 (a-1) 5.0 s",
        "failed b-1: It broke [/]. (log: its.log) 5.0 s",
        "[/round] 2, about 10 s left:",
        "ok a-2 (a-2) 5.0 s",
        "ok b-2 (b-2) 5.0 s",
    ]


def test_what_a_launch_leaves_and_the_tables_are_noted_below_the_sessions_folder(run):
    stages = [Stage("round", "the only round", [Placed("ceilings", Launch("a")), Launch("b")])]
    folder = run(
        making([]), stages, plan_table=lambda stages: pandas.DataFrame({"launch": [each.title for each in stages]})
    ).folder
    assert {*manifest.read(folder)} == {"ceilings/a-1.json", "b-1.json", "durations.csv", "plan.csv"}
    assert (folder / "plan.csv").read_text() == "launch\nthe only round\n"


def test_a_second_session_in_the_same_folder_is_refused_while_the_first_one_fills_it(run):
    def make(launch, folder):
        with pytest.raises(UserError, match=f"^Another session fills {folder}: "):
            run(making([]))
        return record("alone", {8: 0.5})

    assert run(make).status is None


# Interruptions


# SIGUSR1 lets the launch end.
@pytest.mark.parametrize(
    ("by", "after"),
    [(signal.SIGINT, []), (signal.SIGTERM, []), (signal.SIGHUP, []), (signal.SIGUSR1, ["a-2"])],
)
def test_an_interrupted_session_leaves_with_a_status_of_its_own_and_is_not_finished(run, by, after):
    made = []
    ran = run(making(made, interrupted_at="a-2", by=by))
    assert (ran.status, made) == (130, ["a-1", "b-1", *after])
    assert not (ran.folder / "finished").exists()


def test_a_session_that_goes_on_makes_what_is_missing_or_failed_in_the_order_in_which_it_was_begun(run):
    made = []
    first = run(making([], fail=["b-1"], interrupted_at="a-2"))
    (first.folder / "order_seed.txt").write_text("11")
    again = run(making(made))
    assert (again.folder, again.status) == (first.folder, None)
    assert made == ["b-1", "a-2", "b-2"]
    assert (first.order_seed, again.order_seed) == (7, 11)
    results = again.folder.parent
    assert (again.folder / "command.txt").read_text() == f"nox -s mine -- --results {results} --order-seed 11\n"
    # By the remedy that damaged files are told with.
    for name in ("b-2.json", "finished"):
        (again.folder / name).unlink()
    assert run(making(made)).folder == first.folder
    assert made == ["b-1", "a-2", "b-2", "b-2"]


def lose(folder, name):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    manifest.note(folder, [path])
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "again"),
    [
        (lambda folder: (folder / "b-1.json").write_bytes((folder / "a-1.json").read_bytes()), ["b-1"]),
        (lambda folder: (folder / "a-1.json").write_text("damaged"), ["a-1", "b-1"]),
        (lambda folder: (folder / "a-1.json").open("a").write("\n"), ["a-1", "b-1"]),
        (lambda folder: (folder / "a-1.json").unlink(), ["a-1", "b-1"]),
        (partial(lose, name="a-1.safetensors"), ["a-1", "b-1"]),
        (partial(lose, name="other/a-1.json"), ["a-1", "b-1"]),
        (partial(lose, name="aa-1.json"), ["b-1"]),
    ],
    ids=["not noted", "damaged", "edited", "gone", "weights are gone", "another commit's is gone", "another's is gone"],
)
def test_a_launch_of_which_not_all_is_known_to_be_whole_is_made_again(run, spoil, again):
    spoil(run(making([], interrupted_at="b-1")).folder)
    made = []
    run(making(made))
    assert made == [*again, "a-2", "b-2"]


def test_a_launch_that_left_its_record_when_it_was_interrupted_is_not_made_again(run):
    make, made = making([]), []

    def interrupted_late(launch, folder):
        ended = make(launch, folder)
        if launch.name == "b-1":
            signal.raise_signal(signal.SIGINT)
        return ended

    folder = run(interrupted_late).folder
    run(making(made))
    assert made == ["a-2", "b-2"]
    assert manifest.check(folder).unnoted == ()


# How long it takes


def test_a_schedule_is_told_of_each_launch_and_of_those_before_an_interruption_with_the_time_they_took(
    run, monkeypatch
):
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    durations = run(making([], fail=["a-1"], interrupted_at="a-2")).folder / "durations.csv"
    assert durations.read_text() == "launch,seconds\na-1,5\nb-1,5\n"
    # The seconds of the next one aren't noted: it took as long as the others on average.
    run(making([], fail=["a-1"], interrupted_at="b-2"))
    durations.write_text("launch,seconds\na-1,5\nb-1,7.5\n")
    schedule = Schedule([Stage("round", "round 1 of 1", [Launch("a"), Launch("b"), Launch("a", 2)])])
    noted, note = [], schedule.note
    schedule.note = lambda *about: noted.append(about) or note(*about)
    run(making([], fail=["a-1"]), schedule)
    assert [(launch.name, seconds, record.status) for launch, seconds, record in noted] == [
        ("a-1", 5, "failed"),
        ("b-1", 7.5, "ok"),
        ("a-2", 6.25, "ok"),
    ]
    assert schedule.seconds_left() == 0


def test_launches_whose_times_are_gone_count_as_taking_none(run, monkeypatch):
    (run(making([], interrupted_at="b-1")).folder / "durations.csv").unlink()
    schedule = Schedule(ROUNDS)
    seconds, note = [], schedule.note
    monkeypatch.setattr(schedule, "note", lambda *about: seconds.append(about[1]) or note(*about))
    run(making([]), schedule)
    assert seconds[0] == 0 < seconds[1]


def test_damaged_durations_are_refused_in_one_line(run, refusal):
    durations = run(making([], interrupted_at="b-2")).folder / "durations.csv"
    durations.write_text("launch,seconds\na-1,soon\n")
    assert refusal(lambda: run(making([]))).startswith(f"{durations} can't be read (")


def test_stages_that_are_known_say_how_long_those_to_come_will_take():
    known, unknown = Schedule(ROUNDS), Schedule(iter(ROUNDS))
    assert known.seconds_left() is None
    for schedule in (known, unknown):
        schedule.note(Launch("a"), 10.0, record("alone", {8: 0.5}))
        schedule.note(Launch("b"), 20.0, record("alone", {8: 0.5}))
    assert known.seconds_left() == 30.0
    assert unknown.seconds_left() is None


def test_the_plan_has_every_stage_so_far_when_one_is_interrupted(run):
    def names(stages):
        return pandas.DataFrame({"launch": [launch.name for stage in stages for launch in stage.launches]})

    stages = [Stage("probe", name, [Launch(name)]) for name in "abc"]
    ran = run(making([], interrupted_at="c-1"), iter(stages), plan_table=names)
    assert pandas.read_csv(ran.folder / "plan.csv")["launch"].tolist() == ["a-1", "b-1", "c-1"]


# What a session says and ends with


def test_words_are_printed_as_they_are_in_lines_of_a_width_of_their_own_where_nobody_looks(monkeypatch, capsys):
    console = console_for(30)
    console.print("[/] :smile:")
    assert (console.width, capsys.readouterr().out) == (30, "[/] :smile:\n")
    monkeypatch.setenv("COLUMNS", "41")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert console_for(30).width == 41


def test_a_report_is_made_by_a_program_of_its_own_or_it_is_said_how_to_make_it_elsewhere(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    ran = Mock(return_value=SimpleNamespace(returncode=3))
    monkeypatch.setattr("subprocess.run", ran)
    found = Mock(return_value=object())
    monkeypatch.setattr("importlib.util.find_spec", found)
    assert report("reports", Path("here"), Path("out.pdf")) == 3
    paths = ["--results", str(tmp_path / "here"), "--out", str(tmp_path / "out.pdf")]
    assert ran.call_args == call([sys.executable, "-m", "reports", *paths], cwd=ROOT)
    assert found.call_args == call("typst")
    found.return_value = None
    assert report("reports", Path("here"), Path("out.pdf")) == 0
    assert capsys.readouterr().out.startswith("typst isn't installed: `nox -s report -- --results here` writes")


# Allocations of Slurm's


@dataclass(frozen=True)
class Certificate:
    """A made-up launch that belongs to no round."""

    repetition: int = 1
    name: str = "certificate"


NUMBERED = [
    Stage("round", "round", [Launch("a"), Certificate(), Launch("b")]),
    Stage("round", "round", [Launch(name, 2) for name in "abc"]),
]


@pytest.fixture
def in_allocation(run, monkeypatch):
    """A function that begins or goes on in a job's allocation, where b-1 fails: what is made there, and in all."""
    facts = machine.host_facts()

    def start(job, interrupted_at=None, stages=NUMBERED):
        made = []
        # On another machine of the same kind.
        monkeypatch.setattr(machine, "host_facts", lambda: structs.replace(facts, name=f"node{job}"))
        ran = run(making(made, fail=["b-1"], interrupted_at=interrupted_at, job=job), stages, job=job)
        return made, ran.launches

    return start


def test_a_round_that_another_allocation_began_is_made_anew_under_another_number(in_allocation):
    assert in_allocation("7", interrupted_at="c-2")[0] == ["a-1", "certificate", "b-1", "a-2", "b-2"]
    assert in_allocation("8", interrupted_at="c-102")[0] == ["a-102", "b-102"]
    assert in_allocation("9") == (
        ["a-202", "b-202", "c-202"],
        ["a-1", "certificate", "b-1", "a-202", "b-202", "c-202"],
    )


def test_in_the_same_allocation_a_round_goes_on_and_what_failed_is_made_again(in_allocation):
    in_allocation("7", interrupted_at="b-2")
    assert in_allocation("7")[0] == ["b-1", "b-2", "c-2"]


def test_a_round_has_launches_in_folders_too_and_none_that_has_no_round(in_allocation):
    launches = [Placed("", Launch("a", 2)), Certificate(2), SimpleNamespace(name="probe"), Placed("", Launch("b", 2))]
    stages = [Stage("round", "round", launches)]
    in_allocation("7", interrupted_at="b-2", stages=stages)
    assert in_allocation("8", stages=stages)[0] == ["a-102", "b-102"]
