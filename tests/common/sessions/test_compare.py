"""common/sessions/compare.py: a comparison goes on where it stopped, says what it makes, and how it is made again."""

import dataclasses
import random
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas
import psutil
import pytest
import tyro
from msgspec import structs
from rich.console import Console

from common.declarations import catalogue
from common.errors import UserError
from common.files import locked
from common.launching import executor
from common.launching.hosts.selection import Selection
from common.launching.launch import python_for
from common.launching.planned import Hosts
from common.measurement import machine
from common.paths import ROOT
from common.records import certificate
from common.records.files import read_record, read_records, write_record
from common.records.training import Record
from common.sessions import chosen_hosts, compare, probes
from common.sessions.comparison_scope import Scope, whole_round
from common.sessions.other_checkout import Against
from common.sessions.session import Options, Output, Session
from tests.changes import changed
from tests.launching import made_up, wait_for
from tests.reports.records import make_record, named, reading, unfinished

BASE = next(strategy for strategy in catalogue.strategies().values() if strategy.most_workers == 1)
"""A strategy that distributes nothing."""


def compare_command(tmp_path, *options):
    outputs = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.pdf")]
    return [sys.executable, "-m", "common.sessions.compare", *options, *outputs]


def test_a_comparison_that_was_interrupted_and_then_killed_goes_on_where_it_stopped(tmp_path):
    python_for(BASE)
    options = ["--strategies", BASE.name, "--repetitions", "2", "--order-seed", "5"]
    # A shell that has started these tests in the background has them, and so their children, ignore SIGINT.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = compare_command(tmp_path, *options)
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=heed)
    folder = wait_for(lambda: next(iter((tmp_path / "results").glob("*-quick")), None))
    wait_for(lambda: list(folder.glob("*.json")))
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert 0 < len(done) < 3

    second = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: processes_of(folder, BASE.script))
    beside = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    second.kill()
    assert beside.returncode == 2
    assert beside.stderr.startswith("lockstep: Another comparison or benchmark runs on this machine")
    second.wait()
    wait_for(lambda: not processes_of(folder), seconds=20)

    again = subprocess.run(compare_command(tmp_path, *options), cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "seed 5" in " ".join(again.stdout.split())
    records = read_records(folder, Record)
    assert [record.status for record in records.values()] == ["ok"] * 3
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


@pytest.fixture
def launched(declare, monkeypatch):
    """The made-up strategy, whose launches are made up as well."""
    strategy = declare()
    monkeypatch.setattr(executor, "start", made_up(strategy))
    return strategy


def processes_of(folder, *words):
    """All processes that have the folder, and each of these words, in their command lines."""
    lines = {process: " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
    return [process for process, line in lines.items() if all(word in line for word in (f"{folder}/", *words))]


@pytest.fixture
def compared(launched, catalogue_of, monkeypatch, tmp_path):
    """A function that compares made-up launches of one round in the test's folder, as the command line would."""
    catalogue_of(launched)
    monkeypatch.setattr(compare, "report", lambda *_: 0)
    # Launches that are made up train nothing.
    monkeypatch.setattr(certificate, "compare", lambda *_: [])
    monkeypatch.setattr(compare, "compute_oracles", list)

    def run(*options, repetitions="1"):
        rounds = ["--repetitions", repetitions] if repetitions else []
        arguments = ["compare", "--strategies", launched.name, "--workers", "1", *rounds, *options]
        outputs = ["--results", str(tmp_path), "--out", str(tmp_path / "report.pdf")]
        monkeypatch.setattr(sys, "argv", [*arguments, *outputs])
        with pytest.raises(SystemExit) as ended:
            compare.main()
        assert ended.value.code == 0
        return max(tmp_path.glob("*-quick"))

    return run


def test_over_hosts_every_launch_is_made_there_and_the_same_command_repeats_it(compared, monkeypatch):
    hosts = SimpleNamespace(spread=Hosts(count=2, slots=2, cores=2))
    asked, made = [], []

    def find(console, selection, workers):
        asked.append((selection.hosts, workers))
        return hosts

    def over_hosts(planned, folder, allocation):
        made.append((planned.hosts, allocation))
        return executor.run_planned(planned, folder)

    monkeypatch.setattr(chosen_hosts.cluster, "find", find)
    monkeypatch.setattr(compare, "run_planned", over_hosts)
    folder = compared("--hosts", "one:2,two:2")
    assert asked == [("one:2,two:2", (1,))]
    assert made
    assert all(each == (1, hosts) for each in made)
    assert "--hosts one:2,two:2" in (folder / "command.txt").read_text()
    assert set(pandas.read_csv(folder / "plan.csv")["hosts"]) == {1}


def test_a_comparison_has_one_way_to_say_where_its_launches_go():
    here, hosts = Selection(), Selection(hosts="one,two")
    at_address = Scope(strategies=("torch_ray",), address="head:6379")
    for scope, selection, commit in [
        (Scope(), hosts, "HEAD~1"),
        (at_address, here, "HEAD~1"),
        (at_address, hosts, None),
    ]:
        with pytest.raises(UserError, match="leave out the options that name hosts"):
            compare.Arguments(scope=scope, selection=selection, against_commit=commit)


def test_at_an_address_all_launches_go_there_and_nothing_of_this_machine_is_clocked():
    at_address = Scope(strategies=("torch_ray",), address="head:6379")
    assert not probes.planned(at_address)
    assert {launch.options.address for launch in whole_round(at_address, 1, random.Random(0)).launches} == {"head:6379"}


def test_a_launch_that_failed_is_tried_again_once_the_comparison_goes_on(compared, tmp_path):
    folder = compared()
    first, *others = sorted(folder.glob("*.json"))
    failed = changed(read_record(first, Record), status="failed", reason="The machine was switched off.")
    write_record(first, failed)
    written = {path: path.stat().st_mtime_ns for path in others}
    (folder / "finished").unlink()
    assert compared() == folder
    assert [record.status for record in read_records(folder, Record).values()] == ["ok"] * (1 + len(others))
    assert {path: path.stat().st_mtime_ns for path in others} == written


def test_a_record_that_a_power_failure_cut_short_is_made_again(compared):
    folder = compared()
    first, *_ = sorted(folder.glob("*.json"))
    first.write_bytes(first.read_bytes()[:100])
    (folder / "finished").unlink()
    assert compared() == folder
    assert read_record(first, Record).status == "ok"


def test_a_comparison_with_a_damaged_record_is_not_finished(compared, monkeypatch, tmp_path):
    def damage(launch, _):
        [path] = tmp_path.glob(f"*/{launch.name}.json")
        path.write_text('{"schema_version": ')
        return ""

    monkeypatch.setattr(compare, "_in_words", damage)
    with pytest.raises(UserError, match=r"json isn't a record that can be read.*run its launch again"):
        compared()
    assert not list(tmp_path.glob("*/finished"))


def test_the_time_before_an_interruption_counts(compared, monkeypatch):
    folder = compared()
    whole = pandas.read_csv(folder / "durations.csv")
    first, second = whole["launch"]
    (folder / "finished").unlink()
    (folder / f"{second}.json").unlink()
    whole.assign(seconds=[1000.5, 2000.5]).to_csv(folder / "durations.csv", index=False)
    compared()
    seconds = dict(pandas.read_csv(folder / "durations.csv").itertuples(index=False))
    assert seconds[first] == 1000.5
    assert 0 < seconds[second] < 100


def test_a_launch_that_was_interrupted_before_its_seconds_were_noted_is_not_made_again(compared):
    folder = compared()
    whole = pandas.read_csv(folder / "durations.csv")
    (folder / "finished").unlink()
    whole.assign(seconds=1000.5).head(1).to_csv(folder / "durations.csv", index=False)
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    compared()
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.json")} == written
    assert set(pandas.read_csv(folder / "durations.csv")["seconds"]) == {1000.5}


def test_a_quick_comparison_ends_in_its_time_and_says_what_it_left_out(compared, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr(compare.probes, "planned", lambda scope: ["a probe that isn't made"])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    folder = compared("--minutes", "1", repetitions=None)
    plan, seconds = pandas.read_csv(folder / "plan.csv"), pandas.read_csv(folder / "durations.csv")
    assert set(seconds["seconds"]) == {25}
    assert len(seconds) == len(plan) == 1
    assert pandas.read_csv(folder / "left_out.csv")["strategy"].tolist() == ["numpy_threads"]
    printed = capsys.readouterr().out
    assert "Time didn't suffice for numpy_threads: --minutes " in printed
    assert "Time didn't suffice for the frameworks' ceilings." in printed


def test_the_plan_names_the_stage_and_the_margin_of_every_launch(compared):
    folder = compared("--margin", "0.02", "--minutes", "0.01", repetitions=None)
    plan = pandas.read_csv(folder / "plan.csv")
    assert {*plan["margin"]} == {0.02}
    assert plan["stage"].iloc[0] == "round"


def test_only_one_comparison_runs_on_a_machine_and_in_a_folder(compared, refusal, tmp_path):
    with machine.alone():
        assert refusal(compared).startswith("Another comparison or benchmark runs on this machine")
    folder = compared()
    (folder / "finished").unlink()
    with locked(folder / "lock"):
        assert refusal(compared).startswith(f"Another session fills {folder}: ")
    assert compared() == folder


def test_a_plan_runs_nothing(tmp_path):
    command = compare_command(tmp_path, "--plan", "--profile", "full")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "launches. The first of 10 rounds will tell how long they take." in result.stdout
    assert not list(tmp_path.iterdir())


def plan_of(capsys, monkeypatch, *options):
    """What `--plan` says, in one line."""
    monkeypatch.setattr(sys, "argv", ["compare", "--plan", *options])
    compare.main()
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "said", "beside_it"),
    [
        # Two rounds of one worker, and of two with exchange and without; a certificate of each world.
        (["--repetitions", "2"], " 8 launches. The first of 2 rounds", " 14 launches. The first of 2 rounds"),
        # Six rounds of two workers, with exchange and without; the smaller world and certificates only here.
        ([], "Up to 15 launches in 10 minutes", "Up to 27 launches in 10 minutes"),
    ],
)
def test_a_plan_beside_another_commit_counts_the_rounds_launches_twice(
    declare, catalogue_of, monkeypatch, capsys, options, said, beside_it
):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    catalogue_of(declare(quick=True))
    scope = ["--workers", "1", "2", *options]
    assert said in plan_of(capsys, monkeypatch, *scope)
    shown = plan_of(capsys, monkeypatch, *scope, "--against-commit", "[bold]main")
    assert beside_it in shown
    assert "count twice, since they are made with [bold]main as well." in shown


def test_a_plan_says_what_it_goes_without_and_how_to_have_it(declare, catalogue_of, monkeypatch, capsys):
    family = dataclasses.replace(declare().family, environment="elsewhere", imports="no_such_module")
    catalogue_of(declare(quick=True), declare("numpy_elsewhere", family=family, quick_where_made=True))
    shown = plan_of(capsys, monkeypatch)
    assert "Not compared: numpy_elsewhere. elsewhere isn't installed: run `nox -s elsewhere` once, which" in shown
    assert shown.count("numpy_elsewhere") == 1
    assert "Not compared" not in plan_of(capsys, monkeypatch, "--strategies", "numpy_elsewhere")


def test_a_tolerance_without_a_commit_is_refused_in_one_line(tmp_path, monkeypatch, refusal):
    monkeypatch.setattr(sys, "argv", compare_command(tmp_path, "--tolerance", "0.1")[2:])
    assert refusal(compare.main).startswith("--tolerance 0.1 has no effect without --against-commit: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("options", "tolerance"), [([], 0.05), (["--tolerance", "0"], 0.0)])
def test_a_comparison_with_a_commit_has_the_tolerance_that_is_asked_for_or_five_per_cent(
    tmp_path, monkeypatch, options, tolerance
):
    asked = []

    def find(*arguments):
        asked.append(arguments)
        raise UserError("That is enough.")

    monkeypatch.setattr(compare, "find", find)
    monkeypatch.setattr(sys, "argv", compare_command(tmp_path, "--against-commit", "main", *options)[2:])
    with pytest.raises(UserError, match="enough"):
        compare.main()
    assert asked == [("main", tolerance)]


def test_an_empty_name_of_a_commit_is_refused(tmp_path, monkeypatch, refusal):
    monkeypatch.setattr(sys, "argv", compare_command(tmp_path, "--against-commit", "")[2:])
    assert refusal(compare.main).startswith("There is no commit ''")


def test_what_a_record_says_is_printed_as_it_is_whatever_markup_it_looks_like(launched, compared, monkeypatch, capsys):
    def start(arguments, root, log_path, deadline_seconds, variables):
        log_path.write_text("lockstep: failed: It said [/bold] and :cross_mark: before it went.\n")
        return 1

    monkeypatch.setattr(executor, "start", start)
    with pytest.raises(AssertionError):
        compared()
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("It said [/bold] and :cross_mark: before it went.") == 4
    assert "2 launches: 0 ok, 0 unsupported, 2 failed." in printed


# The command that makes it again


def test_the_folder_has_the_command_that_makes_the_comparison_again(compared, tmp_path):
    folder = compared("--margin", "0.1", "--order-seed", "7")
    [line] = (folder / "command.txt").read_text().splitlines()
    assert line.startswith("nox -s compare -- --strategies numpy_threads --workers 1 ")
    assert "--minutes" not in line
    asked = compare.Arguments(
        scope=Scope(strategies=("numpy_threads",), workers=(1,), repetitions=1, margin=0.1),
        output=Output(out=tmp_path / "report.pdf"),
        session=Options(results=tmp_path, order_seed=7),
    )
    assert tyro.cli(compare.Arguments, args=shlex.split(line)[4:]) == asked


def test_the_command_names_the_seed_that_nobody_asked_for_and_is_the_same_after_an_interruption(compared):
    folder = compared()
    command = (folder / "command.txt").read_text()
    assert command.endswith(f" --order-seed {(folder / 'order_seed.txt').read_text()}\n")
    (folder / "finished").unlink()
    assert compared("--order-seed", "1") == folder
    assert (folder / "command.txt").read_text() == command


@pytest.mark.parametrize("option", ["--results", "--out"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_launch(tmp_path, option, monkeypatch):
    (tmp_path / "file").write_text("")
    command = compare_command(tmp_path, "--strategies", BASE.name)
    command[command.index(option) + 1] = str(tmp_path / "file" / "below")
    monkeypatch.setattr(sys, "argv", command[2:])
    with pytest.raises(UserError, match="can't be written"):
        compare.main()


def test_a_comparison_fails_where_something_deviates_or_a_configuration_has_no_launch_that_ended_ok(tmp_path):
    follows, fails = make_record("amber_ring", 2), unfinished("failed", "It crashed: see.", "amber_library", 2)
    others = [unfinished("unsupported", "It has no GPU: find one."), unfinished("failed", "It crashed once.")]
    wrong = make_record("cobalt_replicas")
    wrong = changed(wrong, reading=reading(wrong.task, "AVERAGE", 1, wrong.shard_losses, "Summed. Divide."))

    def failure(*records):
        return compare.failure_of(named(*records), certificate.compare(named(*records), tmp_path))

    assert failure(follows, *others) is None
    assert failure(others[0]) is None
    assert failure(follows, fails) == "No launch ended ok of amber_library with 2 workers, digits weak."
    alone = changed(fails, options={"exchange": False})
    assert "amber_library with 2 workers without exchange, digits weak" in failure(follows, alone)
    assert failure(follows, wrong) == (
        "The oracle isn't followed by cobalt_replicas with 1 worker, digits (Summed. Divide.)."
    )
    assert failure(wrong, fails).startswith(
        "No launch ended ok of amber_library with 2 workers, digits weak; the oracle"
    )


def test_a_certificate_that_fails_shuts_the_gate(tmp_path, monkeypatch):
    monkeypatch.setattr(compare.regression, "conclude", lambda *arguments: None)
    against = Against("main", "0" * 40, "1" * 40, 0.05)
    failing = unfinished("failed", "It crashed: see.", "amber_ring", 2)
    certified = structs.replace(
        failing, task=dataclasses.replace(failing.task, checkpoint_steps=2, checkpoint=Path("state"))
    )

    def failure(*records):
        for name, record in named(*records).items():
            write_record(tmp_path / f"{name}.json", record)
        return compare._conclude(Session(Console(), tmp_path, 0), against, [])

    assert failure(make_record("amber_ring", 2), failing) is None
    assert failure(make_record("amber_ring", 2), certified) == (
        "No launch ended ok of amber_ring with 2 workers, digits certificate."
    )


def test_the_terminal_has_the_rate_of_the_median_step_as_the_report_does(capsys):
    records = [make_record("amber_ring", 2, (milliseconds,) * 3) for milliseconds in (1.0, 4.0)]
    compare.print_summary(Console(width=120), records)
    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    batch = records[0].examples_per_step
    assert [row[3:7] for row in rows if "amber_ring" in row] == [["amber_ring", "2", "2", f"{batch / 2.5e-3:,.0f}"]]
