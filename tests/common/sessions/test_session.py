"""common/sessions/session.py: what is made, in which order, and what is left to make; nothing is launched."""

import contextlib
import io
import re
import shutil
import signal
from dataclasses import dataclass, field
from functools import partial

import pandas
import pytest
from msgspec import structs
from rich.console import Console
from rich.table import Table

from common.errors import UserError
from common.measurement import machine
from common.records import manifest
from common.records.files import read_record
from common.records.header import Allocated
from common.records.presentation import FILE, Presentation, of_catalogue
from common.sessions.session import Options, Schedule, Stage, begin, console_for, counted, rounds_of

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Launch:
    """A made-up launch."""

    name: str


@dataclass(frozen=True)
class Ended:
    """What is kept of one: its status, which is all that its file has."""

    status: str
    reason: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class Arguments:
    """A session's command line."""

    session: Options = field(default_factory=Options)


ROUNDS = [Stage("round", f"round {number} of 2", [Launch(f"a-{number}"), Launch(f"b-{number}")]) for number in (1, 2)]


def read(path):
    return Ended(path.read_text())


def interrupt():
    raise KeyboardInterrupt


def making(made, fail=(), interrupted_at=None, by=interrupt):
    """A function that makes launches and notes them in `made`; it is interrupted at one, once it is as far."""

    def make(launch, folder):
        if launch.name == interrupted_at:
            by()
        made.append(launch.name)
        path = folder / f"{launch.name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("failed" if launch.name in fail else "ok")
        return Ended("failed", "It broke.", "its.log") if launch.name in fail else Ended("ok")

    return make


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A function that runs a session, and returns its folder and what it printed: no launch measures anything, so
    others may meanwhile.
    """
    monkeypatch.setattr(machine, "alone", contextlib.nullcontext)
    # What a session forgets to catch is to fail a test, and not to end all of them.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    # Shells have what they start in the background ignore it.
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    console = Console(file=io.StringIO(), width=200)

    def start(make, rounds=lambda seed, folder: ROUNDS, **options):
        arguments = Arguments(Options(results=tmp_path, order_seed=7))
        with begin(console, "mine", arguments, "two rounds") as session:
            schedule = Schedule(rounds(session.order_seed, session.folder))
            session.run(schedule, make, read, **options)
        return session.folder, console.file.getvalue()

    yield start
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(run, tmp_path, make):
    """The folder of a session that doesn't come to its end, and the status with which it leaves."""
    with pytest.raises(SystemExit) as ending:
        run(make)
    [folder] = tmp_path.glob("*-mine")
    return folder, ending.value.code


def test_a_round_has_each_launch_once_in_an_order_of_its_own_which_the_seed_decides():
    orders = [[stage.launches for stage in rounds_of(4, seed, lambda number: range(8))] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert [sorted(order) for order in orders[0]] == [[*range(8)]] * 4
    assert len({tuple(order) for order in orders[0]}) > 1


def test_every_launch_of_every_round_is_made_and_said_and_the_session_is_finished(run):
    made = []
    folder, printed = run(making(made, fail=["b-1"]))
    assert made == ["a-1", "b-1", "a-2", "b-2"]
    assert (folder / "finished").exists()
    assert read_record(folder / FILE, Presentation) == of_catalogue()
    lines = [re.sub(r"\s+\d+\.\d s$", "", line).strip() for line in printed.splitlines() if line]
    assert lines[-6:] == [
        "round 1 of 2:",
        "ok  a-1",
        "failed  b-1: It broke. (log: its.log)",
        "round 2 of 2, about 0 s left:",
        "ok  a-2",
        "ok  b-2",
    ]


@pytest.mark.parametrize(
    "by",
    [interrupt, *(partial(signal.raise_signal, number) for number in SIGNALS)],
    ids=["the keyboard", "SIGTERM", "SIGHUP"],
)
def test_an_interrupted_session_leaves_with_a_status_of_its_own_and_is_not_finished(run, tmp_path, by):
    made = []
    folder, status = interrupted(run, tmp_path, making(made, interrupted_at="a-2", by=by))
    assert (status, made) == (130, ["a-1", "b-1"])
    assert not (folder / "finished").exists()


def test_a_session_that_goes_on_makes_what_is_missing_or_failed(run, tmp_path):
    before, after = [], []
    first, _ = interrupted(run, tmp_path, making(before, fail=["b-1"], interrupted_at="a-2"))
    folder, _ = run(making(after))
    assert folder == first
    assert (before, after) == (["a-1", "b-1"], ["b-1", "a-2", "b-2"])
    assert (folder / "finished").exists()


def test_a_session_that_goes_on_keeps_its_order(run, tmp_path):
    seeds = []

    def rounds(seed, folder):
        seeds.append((seed, folder))
        return ROUNDS

    with pytest.raises(SystemExit):
        run(making([], interrupted_at="a-1"), rounds)
    [folder] = tmp_path.glob("*-mine")
    (folder / "order_seed.txt").write_text("11")
    run(making([]), rounds)
    assert seeds == [(7, folder), (11, folder)]
    assert (folder / "command.txt").read_text() == f"nox -s mine -- --results {tmp_path} --order-seed 11\n"


def test_a_round_is_asked_for_when_the_one_before_has_been_made(run):
    events = []

    def rounds(seed, folder):
        for stage in ROUNDS:
            events.append(stage.title)
            yield stage

    run(making(events), rounds)
    assert events == ["round 1 of 2", "a-1", "b-1", "round 2 of 2", "a-2", "b-2"]


@pytest.mark.parametrize(("has_manifest", "again"), [(True, ["b-1"]), (False, ["a-1", "b-1"])])
def test_what_was_interrupted_before_its_record_was_noted_is_made_again(run, tmp_path, has_manifest, again):
    """As where the session is killed: nobody knows whether the record is whole."""
    folder, _ = interrupted(run, tmp_path, making([], interrupted_at="b-1"))
    (folder / "b-1.json").write_text("ok")
    if not has_manifest:
        (folder / manifest.FILE).unlink()
    made = []
    run(making(made))
    assert made == [*again, "a-2", "b-2"]


def test_a_launch_that_left_its_record_when_it_was_interrupted_is_not_made_again(run, tmp_path):
    make = making([])

    def interrupted_late(launch, folder):
        make(launch, folder)
        if launch.name == "b-1":
            interrupt()
        return Ended("ok")

    folder, _ = interrupted(run, tmp_path, interrupted_late)
    made = []
    run(making(made))
    assert made == ["a-2", "b-2"]
    assert manifest.check(folder).unnoted == ()


class Clocked(Schedule):
    """A schedule that keeps what it is told of each launch."""

    def __init__(self, launches):
        super().__init__([Stage("round", "round 1 of 1", launches)])
        self.noted = []

    def note(self, launch, seconds, record):
        super().note(launch, seconds, record)
        self.noted.append((launch.name, seconds, record.status))


def test_a_schedule_is_told_of_each_launch_and_of_those_before_an_interruption_with_the_time_they_took(
    run, tmp_path, monkeypatch
):
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    folder, _ = interrupted(run, tmp_path, making([], fail=["a-1"], interrupted_at="a-2"))
    assert (folder / "durations.csv").read_text() == "launch,seconds\na-1,5\nb-1,5\n"
    (folder / "durations.csv").write_text("launch,seconds\na-1,5\nb-1,7.5\n")
    schedule = Clocked([Launch("a-1"), Launch("b-1"), Launch("a-2")])
    with begin(Console(quiet=True), "mine", Arguments(Options(results=tmp_path)), "two rounds") as session:
        session.run(schedule, making([], fail=["a-2"]), read)
    assert schedule.noted == [("a-1", 5, "ok"), ("b-1", 7.5, "ok"), ("a-2", 5, "failed")]
    assert schedule.seconds_left() == 0


def test_one_that_was_interrupted_before_its_seconds_were_noted_took_as_long_as_the_others_on_average(run, tmp_path):
    folder, _ = interrupted(run, tmp_path, making([], interrupted_at="b-2"))
    (folder / "durations.csv").write_text("launch,seconds\na-1,5\nb-1,7\n")
    schedule = Clocked([Launch("a-1"), Launch("b-1"), Launch("a-2")])
    with begin(Console(quiet=True), "mine", Arguments(Options(results=tmp_path)), "two rounds") as session:
        session.run(schedule, making([]), read)
    assert schedule.noted == [("a-1", 5, "ok"), ("b-1", 7, "ok"), ("a-2", 6, "ok")]


@pytest.mark.parametrize("damage", ["", "launch\na-1\n", "launch,seconds\na-1,soon\n", "launch,seconds\na-1\n"])
def test_damaged_durations_are_refused_in_one_line(run, tmp_path, refusal, damage):
    folder, _ = interrupted(run, tmp_path, making([], interrupted_at="b-2"))
    (folder / "durations.csv").write_text(damage)
    assert refusal(lambda: run(making([]))).startswith(f"{folder / 'durations.csv'} can't be read (")


def test_what_a_launch_leaves_and_the_tables_are_noted_below_the_sessions_folder(run):
    rounds = [Stage("round", "the only round", [Launch("ceilings/a"), Launch("b")])]
    tables = {"plan_table": lambda stages: pandas.DataFrame({"launch": [each.title for each in stages]})}
    folder, _ = run(making([]), lambda seed, folder: rounds, **tables)
    assert {*manifest.read(folder)} == {"ceilings/a.json", "b.json", "durations.csv", "plan.csv"}
    assert (folder / "plan.csv").read_text() == "launch\nthe only round\n"


@pytest.mark.parametrize("doing", ["files_of", "note"])
def test_signals_wait_while_digests_are_noted(run, tmp_path, monkeypatch, doing):
    """One that ended the session in the middle of it would leave a launch that counts as not made."""
    do = getattr(manifest, doing)

    def interrupted_meanwhile(*arguments):
        signal.raise_signal(signal.SIGINT)
        return do(*arguments)

    monkeypatch.setattr(manifest, doing, interrupted_meanwhile)
    folder, _ = interrupted(run, tmp_path, making([]))
    assert {*manifest.read(folder)} == {"a-1.json", "durations.csv"}


def test_the_rounds_say_how_long_those_to_come_will_take():
    rounds = Schedule(ROUNDS)
    assert rounds.seconds_left() is None
    rounds.note(Launch("a-1"), 10.0, Ended("ok"))
    rounds.note(Launch("b-1"), 20.0, Ended("ok"))
    assert rounds.seconds_left() == 30.0
    unknown = Schedule(iter(ROUNDS))
    unknown.note(Launch("a-1"), 10.0, Ended("ok"))
    assert unknown.seconds_left() is None


@pytest.mark.parametrize(
    ("seconds", "said"), [(119.4, "about 119 s left"), (150, "about 2 minutes left"), (9000, "about 2.5 hours left")]
)
def test_a_round_begins_with_the_time_that_is_left(run, monkeypatch, seconds, said):
    monkeypatch.setattr(Schedule, "seconds_left", lambda self: seconds)
    assert f"round 1 of 2, {said}:" in run(making([]))[1]


def test_what_a_record_or_a_title_says_is_printed_as_it_is(run, monkeypatch):
    rounds = [Stage("round", "[/round] 1", [Launch("b-[/1]")])]
    make = making([], fail=["b-[/1]"])
    _, printed = run(make, lambda seed, folder: rounds)
    assert "[/round] 1:" in printed
    assert "failed  b-[/1]: It broke." in printed


def test_the_sessions_own_console_takes_nothing_for_markup(capsys):
    console = console_for(width=80)
    table = Table("reason")
    table.add_row("[/...] :x:")
    console.print(table)
    console.print("[/...] :x:")
    assert capsys.readouterr().out.count("[/...] :x:") == 2


def test_a_second_session_in_the_same_folder_is_refused_while_the_first_one_fills_it(run):
    refused = []

    def make(launch, folder):
        with pytest.raises(UserError, match="Another session fills") as refusal:
            run(making([]))
        refused.append(str(refusal.value))
        return Ended("ok")

    folder, _ = run(make)
    assert refused == 4 * [f"Another session fills {folder}: wait for its end, or name another folder with --results."]


@pytest.mark.parametrize(
    ("statuses", "said", "status"),
    [
        ([], "0 launches: 0 ok, 0 unsupported, 0 failed.", 0),
        (["ok", "unsupported", "ok"], "3 launches: 2 ok, 1 unsupported, 0 failed.", 0),
        (["ok", "failed"], "2 launches: 1 ok, 0 unsupported, 1 failed.", 1),
    ],
)
def test_its_end_says_how_many_launches_ended_how(statuses, said, status):
    console = Console(file=io.StringIO(), width=200)
    assert counted(console, map(Ended, statuses)) == status
    assert console.file.getvalue() == f"{said}\n"


@dataclass(frozen=True)
class InRound:
    """A made-up launch of a round."""

    strategy: str
    repetition: int

    @property
    def name(self):
        return f"{self.strategy}-{self.repetition:02d}"


@dataclass(frozen=True)
class Certificate:
    """A made-up launch that belongs to no round."""

    repetition: int = 1
    name: str = "certificate"


NUMBERED = [Stage("round", "round", [InRound("a", 1), Certificate(), InRound("b", 1)])]
NUMBERED += [Stage("round", "round", [InRound(name, 2) for name in "abc"])]


def in_allocation(folder, job, made, interrupted_at=None):
    """The names of the launches of a session that goes on in the allocation of this job."""

    def make(launch, where):
        if launch.name == interrupted_at:
            raise KeyboardInterrupt
        made.append((job, launch.name))
        (where / f"{launch.name}.json").write_text(f"{job} {'failed' if launch.name == 'b-01' else 'ok'}")
        return read_job(where / f"{launch.name}.json")

    def read_job(path):
        job, status = path.read_text().split()
        ended = Ended(status)
        object.__setattr__(ended, "allocation", Allocated(job=job))
        return ended

    with (
        contextlib.suppress(SystemExit),
        begin(Console(file=io.StringIO()), "some", Arguments(Options(results=folder)), "same", job=job) as session,
    ):
        return [each.name for stage in session.run(Schedule(NUMBERED), make, read_job) for each in stage.launches]


def test_a_round_that_another_allocation_began_is_made_anew_under_another_number(tmp_path):
    made = []
    in_allocation(tmp_path, "7", made, interrupted_at="c-02")
    assert in_allocation(tmp_path, "8", made) == [
        "a-01",
        "certificate",
        "b-01",
        "a-102",
        "b-102",
        "c-102",
    ]
    first = [("7", name) for name in ("a-01", "certificate", "b-01", "a-02", "b-02")]
    assert made == [*first, *(("8", name) for name in ("a-102", "b-102", "c-102"))]


def test_a_third_allocation_goes_on_with_the_newest_number(tmp_path):
    made = []
    in_allocation(tmp_path, "7", made, interrupted_at="b-02")
    in_allocation(tmp_path, "8", made, interrupted_at="c-102")
    in_allocation(tmp_path, "9", made)
    assert [name for job, name in made if job == "9"] == ["a-202", "b-202", "c-202"]


def test_in_the_same_allocation_a_round_goes_on_and_what_failed_is_made_again(tmp_path):
    made = []
    in_allocation(tmp_path, "7", made, interrupted_at="b-02")
    del made[:]
    in_allocation(tmp_path, "7", made)
    assert [name for _, name in made] == ["b-01", "b-02", "c-02"]


@pytest.mark.parametrize(("job", "goes_on"), [(None, False), ("7", True)])
def test_only_in_an_allocation_a_session_goes_on_on_a_machine_with_another_name(tmp_path, monkeypatch, job, goes_on):
    facts, begun = machine.host_facts(), tmp_path / "20260101T000000-some"
    for name in ("here", "there"):
        monkeypatch.setattr(machine, "host_facts", lambda name=name: structs.replace(facts, name=name))
        arguments = Arguments(Options(results=tmp_path))
        with pytest.raises(SystemExit), begin(Console(quiet=True), "some", arguments, "same", job=job) as session:
            interrupt()
        if name == "here":
            session.folder.rename(begun)
    assert (session.folder == begun) == goes_on


def test_a_session_that_is_asked_to_stops_between_two_launches(tmp_path):
    made = []

    def make(launch, folder):
        made.append(launch.name)
        signal.raise_signal(signal.SIGUSR1)
        (folder / f"{launch.name}.json").write_text("ok")
        return Ended("ok")

    with (
        pytest.raises(SystemExit) as left,
        begin(Console(file=io.StringIO()), "some", Arguments(Options(results=tmp_path)), "same") as session,
    ):
        session.run(Schedule(ROUNDS), make, read)
    assert left.value.code == 130
    assert made == ["a-1"]
    assert (session.folder / "a-1.json").exists()


def test_a_results_folder_that_is_deleted_meanwhile_loses_what_was_in_it_and_nothing_else(run, tmp_path):
    made = []
    make = making(made)

    def deleting(launch, folder):
        if launch.name == "a-2":
            shutil.rmtree(folder)
        return make(launch, folder)

    folder, _ = run(deleting)
    assert made == ["a-1", "b-1", "a-2", "b-2"]
    assert {path.stem for path in folder.glob("*.json")} == {"a-2", "b-2"}
