"""common/sessions/compare.py: a comparison goes on where it stopped, says what it makes, and how it is made again."""

import dataclasses
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas
import psutil
import pytest
from rich.console import Console

from common.declarations import catalogue
from common.errors import UserError
from common.launching import executor
from common.launching.launch import python_for
from common.launching.planned import Hosts
from common.paths import ROOT
from common.records import certificate, manifest
from common.records.files import read_records, write_record
from common.records.training import Record
from common.sessions import chosen_hosts, compare, probes
from common.sessions.comparison_scope import Scope, whole_round
from common.sessions.other_checkout import Against
from common.sessions.session import Session, console_for
from tests.changes import changed
from tests.common.launching.test_executor import launch_of
from tests.launching import made_up, wait_for
from tests.reports.records import make_record, mistaken, named, unfinished

EARLIER = "23154e5"
"""A commit whose records are of an earlier schema version."""

BASE = next(strategy for strategy in catalogue.strategies().values() if strategy.most_workers == 1)
"""A strategy that distributes nothing."""


def processes_of(folder, *words):
    """All processes that have the folder, and each of these words, in their command lines."""
    lines = {process: " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
    return [process for process, line in lines.items() if all(word in line for word in (f"{folder}/", *words))]


def test_a_comparison_that_was_interrupted_and_then_killed_goes_on_where_it_stopped(tmp_path):
    python_for(BASE)
    options = ["--strategies", BASE.name, "--repetitions", "2", "--order-seed", "5"]
    outputs = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.pdf")]
    # A shell that has started these tests in the background has them, and so their children, ignore SIGINT.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "common.sessions.compare", *options, *outputs]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=heed)
    folder = wait_for(lambda: next(iter((tmp_path / "results").glob("*-quick")), None))
    # One that is interrupted before it has been noted is made again.
    wait_for(lambda: any(name.endswith(".json") for name in manifest.read(folder)))
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

    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "seed 5" in " ".join(again.stdout.split())
    records = read_records(folder, Record)
    assert [record.status for record in records.values()] == ["ok"] * 3
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_an_earlier_commit_is_launched_by_its_own_launcher_and_its_record_is_read(tmp_path):
    if subprocess.run(["git", "-C", str(ROOT), "cat-file", "-e", EARLIER], capture_output=True).returncode:
        pytest.skip(f"No commit {EARLIER}: this checkout has no history as long")
    against = compare.find(EARLIER, tolerance=0.05)
    with compare.other_checkout(against, tmp_path) as checkout:
        here, there = compare.regression.run_both(launch_of(BASE), tmp_path, checkout)
    assert (here.status, there.status) == ("ok", "ok"), (here.reason, there.reason)
    assert there.git_commit.startswith(EARLIER)
    assert [row.n for row in compare.regression.changes({"1": here}, {"1": there}, against)] == [1]


@pytest.fixture
def compared(declare, catalogue_of, run_here, monkeypatch, tmp_path):
    """A function that compares made-up launches in the test's folder, as the command line would; returns the session's.

    They train nothing, so that no oracle is computed.
    """
    strategy = declare()
    catalogue_of(strategy)
    monkeypatch.setattr(executor, "start", made_up(strategy))
    monkeypatch.setattr(compare, "report", lambda *_: 0)
    monkeypatch.setattr(certificate, "compare", lambda *_: [])
    monkeypatch.setattr(compare, "compute_oracles", list)

    def run(*options):
        assert run_here(compare.main, tmp_path, "--strategies", strategy.name, "--workers", "1", *options) == 0
        [folder] = tmp_path.glob("*-quick")
        return folder

    return run


# Where launches are made


def test_over_hosts_every_launch_is_made_there_and_the_same_command_repeats_it(compared, monkeypatch):
    hosts, made = SimpleNamespace(spread=Hosts(count=2, slots=2, cores=2), allocation=None), []

    def over_hosts(planned, folder, allocation):
        made.append((planned.hosts, allocation))
        return executor.run_planned(planned, folder)

    monkeypatch.setattr(chosen_hosts.cluster, "find", lambda *_: hosts)
    monkeypatch.setattr(compare, "run_planned", over_hosts)
    folder = compared("--repetitions", "1", "--margin", "0.1", "--hosts", "one:2,two:2")
    assert made == [(1, hosts)] * 2
    assert (folder / "command.txt").read_text() == (
        "nox -s compare -- --strategies numpy_threads --workers 1 --repetitions 1 --margin 0.1 --hosts one:2,two:2 "
        f"--out {folder.parent}/out.pdf --results {folder.parent} "
        f"--order-seed {(folder / 'order_seed.txt').read_text()}\n"
    )


def test_at_an_address_all_launches_go_there_and_nothing_of_this_machine_is_clocked():
    scope = Scope(strategies=("torch_ray",), address="head:6379")
    assert not probes.planned(scope)
    assert {launch.options.address for launch in whole_round(scope, 1, random.Random(0)).launches} == {"head:6379"}


# What is made


def test_a_quick_comparison_ends_in_its_time_and_says_what_it_left_out(compared, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr(compare.probes, "planned", lambda scope: ["a probe that isn't made"])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    folder = compared("--minutes", "1", "--margin", "0.02")
    plan, seconds = pandas.read_csv(folder / "plan.csv"), pandas.read_csv(folder / "durations.csv")
    assert seconds["seconds"].tolist() == [25]
    assert plan[["stage", "margin"]].to_numpy().tolist() == [["round", 0.02]]
    assert pandas.read_csv(folder / "left_out.csv")["strategy"].tolist() == ["numpy_threads"]
    printed = capsys.readouterr().out
    assert "Time didn't suffice for numpy_threads: --minutes " in printed
    assert "Time didn't suffice for the frameworks' ceilings." in printed


@pytest.mark.parametrize(
    ("options", "said", "beside_it"),
    [
        # Two rounds of one worker, and of two with exchange and without; a certificate of each world.
        (["--repetitions", "2"], " 8 launches. The first of 2 rounds", " 14 launches. The first of 2 rounds"),
        # Six rounds of two workers, with exchange and without; the smaller world and certificates only here.
        ([], "Up to 15 launches in 10 minutes", "Up to 27 launches in 10 minutes"),
    ],
)
def test_a_plan_runs_nothing_and_says_what_it_goes_without_and_beside_another_commit_what_counts_twice(
    declare, catalogue_of, run_here, monkeypatch, capsys, tmp_path, options, said, beside_it
):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    family = dataclasses.replace(declare().family, environment="elsewhere", imports="no_such_module")
    catalogue_of(declare(quick=True), declare("numpy_elsewhere", family=family, quick_where_made=True))

    def plan(*more):
        run_here(compare.main, tmp_path / "results", "--plan", "--workers", "1", "2", *options, *more)
        return " ".join(capsys.readouterr().out.split())

    shown = plan()
    assert said in shown
    assert "Not compared: numpy_elsewhere. elsewhere isn't installed: run `nox -s elsewhere` once, which" in shown
    assert shown.count("numpy_elsewhere") == 1
    shown = plan("--against-commit", "[bold]main")
    assert beside_it in shown
    assert "count twice, since they are made with [bold]main as well." in shown
    assert "Not compared" not in plan("--strategies", "numpy_elsewhere")
    assert not (tmp_path / "results").exists()


# What is refused before any launch


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tolerance", "0.1"], "--tolerance 0.1 has no effect without --against-commit: "),
        (["--against-commit", ""], "There is no commit ''"),
        (["--against-commit", "HEAD~1", "--tolerance", "inf"], "--tolerance inf: give a share"),
        (["--against-commit", "HEAD~1", "--hosts", "one,two"], "--against-commit compares on this machine alone"),
        (["--against-commit", "HEAD~1", "--address", "head:6379"], "--against-commit compares on this machine alone"),
        (["--hosts", "one,two", "--address", "head:6379"], "--address names where the launches go"),
        (["--results", "/dev/null/below"], "/dev/null/below"),
        (["--out", "/dev/null/below.pdf"], "/dev/null/below.pdf"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(tmp_path, run_here, refusal, options, said):
    words = ["--strategies", "torch_ray", *options]
    assert said in refusal(lambda: run_here(compare.main, tmp_path / "results", *words))
    assert not (tmp_path / "results").exists()


# What comes of it


def test_a_comparison_with_a_damaged_record_is_not_finished(compared, monkeypatch, tmp_path):
    def damage(launch, _):
        [path] = tmp_path.glob(f"*/{launch.name}.json")
        path.write_text('{"schema_version": ')
        return ""

    monkeypatch.setattr(compare, "_in_words", damage)
    with pytest.raises(UserError, match=r"json isn't a record that can be read.*run the same command again"):
        compared("--repetitions", "1")
    assert not list(tmp_path.glob("*/finished"))


def crashed(**fields):
    return changed(unfinished("failed", "It crashed: see.", "amber_library"), **fields)


def test_a_comparison_fails_where_something_deviates_or_a_configuration_has_no_launch_that_ended_ok(tmp_path):
    good, refused = make_record("amber_library", 2), unfinished("unsupported", "It has no GPU: find one.")
    wrong = mistaken(make_record("cobalt_replicas"), "Summed. Divide.")
    deviates = "he oracle isn't followed by cobalt_replicas with 1 worker, digits (Summed. Divide.)."
    for records, failure in [
        ([refused], None),
        ([good, refused, crashed()], None),
        ([crashed()], "No launch ended ok of amber_library with 2 workers, digits weak."),
        (
            [good, crashed(options={"exchange": False})],
            "No launch ended ok of amber_library with 2 workers without exchange, digits weak.",
        ),
        ([wrong], f"T{deviates}"),
        ([crashed(), wrong], f"No launch ended ok of amber_library with 2 workers, digits weak; t{deviates}"),
    ]:
        assert compare.failure_of(named(*records), certificate.compare(named(*records), tmp_path)) == failure


def test_beside_another_commit_a_certificate_that_fails_shuts_the_gate(tmp_path, monkeypatch):
    monkeypatch.setattr(compare.regression, "conclude", lambda *arguments: None)
    certified = crashed(task=dataclasses.replace(crashed().task, checkpoint_steps=2, checkpoint=Path("state")))
    for record, failure in [
        (crashed(), None),
        (certified, "No launch ended ok of amber_library with 2 workers, digits certificate."),
    ]:
        write_record(tmp_path / "crashed.json", record)
        session, against = Session(Console(quiet=True), tmp_path, 0), Against("main", "0" * 40, "1" * 40, 0.05)
        assert compare._conclude(session, against, []) == failure


def test_the_terminal_has_the_rate_of_the_median_step_as_the_report_does_and_what_failed_as_it_is(capsys):
    records = [make_record("amber_ring", 2, (milliseconds,) * 3) for milliseconds in (1.0, 2.0, 6.0, 9.0)]
    failed = unfinished("failed", "It said [/bold] and :cross_mark: before it went.")
    compare.print_summary(console_for(width=120), [*records, failed])
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")] for line in printed.splitlines()]
    batch = records[0].examples_per_step
    assert [row[3:7] for row in rows if "amber_ring" in row] == [["amber_ring", "2", "4", f"{batch / 4e-3:,.0f}"]]
    assert "5 launches: 4 ok, 0 unsupported, 1 failed." in printed
    assert "failed: amber_ring with 2: It said [/bold] and :cross_mark: before it went." in printed
