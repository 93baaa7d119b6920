"""common/laboratory/faults.py: what a session launches, what made-up launches tell, and one as a user starts it."""

import dataclasses
from functools import partial

import pytest
from msgspec import structs

from common.contract import fault
from common.declarations.catalogue import find
from common.declarations.strategy import label
from common.laboratory import faults
from common.laboratory.faults import EXPERIMENT, Scope, launches
from common.launching.executor import HERE
from common.launching.launch import python_for
from common.launching.planned import Hosts
from common.observations.display import answer, read, tables
from common.observations.numbers import DASH
from common.records.accounted_launch import accounted_launches
from common.records.certificate import DEVIATES
from common.records.files import read_record, read_records, write_record
from common.records.recovery import Recovery, recovery_path
from common.records.training import Record
from common.sessions.experiment import observed_of, run
from tests.common.records.recoveries import RESTARTED, attempt, write_session

FAULT = "kill:rank=1,step=160"
HOSTS = Hosts(2, slots=2, cores=1, bandwidths_bits_per_second=(1e8,))


def names(**scope):
    return [strategy.name for strategy in Scope(**scope).chosen]


@pytest.mark.usefixtures("strategies_of_each_kind")
def test_the_quick_profile_has_one_strategy_in_processes_of_each_family_and_the_full_one_all():
    assert names() == ["one_threads", "two_servers"]
    assert names(profile="full") == ["one_threads", "one_hand", "one_pieces", "one_met", "two_servers"]
    assert names(strategies=("one_hand",)) == ["one_hand"]


@pytest.mark.usefixtures("strategies_of_each_kind")
def test_a_round_has_each_strategy_undisturbed_started_again_and_in_its_own_ways():
    found = [
        (each.strategy.name, each.task.inject, each.task.restarts, label(each.options))
        for each in launches(Scope(strategies=("one_hand", "two_servers")), 1)
    ]
    assert found == [
        ("one_hand", None, 1, ""),
        ("one_hand", FAULT, 1, ""),
        ("one_hand", FAULT, 0, "1 prefetch"),
        ("two_servers", None, 1, "synchronous updates"),
        ("two_servers", FAULT, 1, "synchronous updates"),
        ("two_servers", FAULT, 0, ""),
    ]
    found = [each.name for each in launches(Scope(profile="full"), 1)]
    assert len(set(found)) == len(found)


def test_over_hosts_are_the_strategies_that_can_be_there_and_the_faults_of_hosts():
    scope = Scope(spread=HOSTS)
    assert all(each.launcher.across_hosts for each in scope.chosen)
    assert [fault.parse(each).kind for each in scope.suffered] == ["kill", "host", "cable"]
    assert {(each.hosts, each.bandwidth_bits_per_second) for each in launches(scope, 1)} == {(2, 1e8)}


@pytest.mark.usefixtures("strategies_of_each_kind")
def test_a_launch_that_was_refused_has_an_account_with_its_round(monkeypatch, tmp_path):
    monkeypatch.setattr(faults, "run_planned", lambda *_: None)
    [_, planned] = launches(Scope(strategies=("one_threads",)), 3)
    faults.make(planned, tmp_path, HERE)
    account = read_record(recovery_path(tmp_path / f"{planned.name}.json"), Recovery)
    assert account == Recovery(fault=FAULT, repetition=3)


def told(folder, deviating=()):
    """The answer, and by title the rows of each table, on the launches in a folder, of which some deviate."""
    launches = accounted_launches(folder, read_records(folder, Record))
    for name in deviating:
        launches[name] = dataclasses.replace(launches[name], verdict=DEVIATES)
    found = observed_of(EXPERIMENT, launches)
    return answer(found), {table.title: table.rows for table in tables(found)}


MATHS = "What went on, held to the oracle: "
OTHER_MATHS = f"{MATHS}1 deviates, 1 follows; amber_ring with restart trained something else."


@pytest.mark.parametrize(
    ("gone", "deviating", "percent", "maths"),
    [
        ("", (), 54, f"{MATHS}follows."),
        ("", ("some-kill-01",), 29, OTHER_MATHS),
        ("some-plain-*", (), None, f"{MATHS}follows."),
        ("some-kill-0[12].*", (), None, "No launch went on after its fault."),
    ],
)
def test_the_answer_says_who_lost_least_and_whether_the_maths_is_right(tmp_path, gone, deviating, percent, maths):
    folder = write_session(tmp_path)
    for path in folder.glob(gone) if gone else ():
        path.unlink()
    kept = (
        f"With rank 1 killed at step 160, amber_ring with restart kept most by the medians: {percent} % of the steps "
        "per second of an undisturbed launch. "
    )
    assert told(folder, deviating)[0] == (kept if percent else "") + maths


def test_each_way_has_a_row_of_numbers_and_one_of_words_what_lost_least_first(tmp_path):
    path = recovery_path(write_session(tmp_path) / "some-kill-02.json")
    write_record(path, structs.replace(RESTARTED, attempts=[attempt(0, 9, 9)], repetition=2, message="closed."))
    rows, restarted = told(tmp_path)[1], "amber_ring with restart"
    # Its launches ended after 12 s and after 9, where the undisturbed ones of their rounds took 6 and 7.
    assert rows["rank 1 killed at step 160, 2 workers"] == [
        [restarted, "2", "0.5", "5.0", "10", "64"],
        ["amber_ring", "1", "0.5", DASH, DASH, "0"],
    ]
    by, then = "1 torchrun, 1 nobody", "1 started again, 1 went on by itself"
    assert rows["What became of them"] == [
        [restarted, "rank 1 killed at step 160", by, then, "follows", f"1 {DASH}, 1 closed.", "2"],
        ["amber_ring", "rank 1 killed at step 160", "torchrun", "ended for good", DASH, DASH, "1"],
    ]


def test_what_was_refused_and_an_undisturbed_launch_that_failed_are_not_there(tmp_path):
    recovery_path(write_session(tmp_path) / "some-kill-01.json").unlink()
    plain = read_records(tmp_path, Record)["some-plain-02"]
    write_record(tmp_path / "some-plain-02.json", structs.replace(plain, status="failed", reason="It ended."))
    assert told(tmp_path)[1]["What isn't there"] == [
        ["amber_ring with restart", "rank 1 killed at step 160", "2 workers", "ok", "1", "It left no account."],
        ["amber_ring", "undisturbed", "2 workers", "failed", "1", "It ended."],
    ]


@pytest.mark.grid
def test_a_killed_worker_is_noticed_and_both_ways_go_on_along_the_oracle(tmp_path, run_here, capsys):
    python_for(find("torch_ddp"))
    # No machine is so slow that an attempt takes as long as this deadline.
    scope = ["--strategies", "torch_ddp", "--repetitions", "1", "--deadline-seconds", "240"]
    assert run_here(partial(run, EXPERIMENT), tmp_path / "results", *scope) == 0
    [folder] = (tmp_path / "results").iterdir()
    [again, own] = sorted(read(folder).display.tables[0].rows)
    fault, words = "rank 1 killed at step 160", "rank 1 ended with signal 9, so all processes were ended."
    assert own == ["torch_ddp, 1 max restarts", fault, "nobody", "went on by itself", "follows", DASH, "1"]
    assert again == ["torch_ddp with restart", fault, "torchrun", "started again", "follows", words, "1"]
    made = accounted_launches(folder, read_records(folder, Record)).values()
    accounts = [(each.account, each.record) for each in made if each.account.fault]
    assert [(account.steps_again, record.first_step) for account, record in accounts] == [(10, 150)] * 2
    assert min(account.next_step_seconds for account, _ in accounts) > 0
    assert (tmp_path / "out.pdf").exists()
    printed = capsys.readouterr().out
    assert "a checkpoint, ms" in printed
    assert "1 launches: 1 ok" in printed, "one with a fault that ended for good hasn't failed"
