"""common/sessions/faults.py: what a session launches, who is said to have noticed, and one as a user starts it."""

import dataclasses
import sys

import pytest

from common.contract.fault import parse
from common.contract.work import Work
from common.declarations.catalogue import find
from common.declarations.strategy import Options, label
from common.errors import UserError
from common.launching.launch import python_for
from common.launching.planned import Hosts
from common.records.files import read_record, read_records
from common.records.recovery import Recovery, recovery_path
from common.records.recovery_rows import rows, suffered
from common.records.training import Record
from common.sessions import faults
from common.sessions.comparison_scope import certificate_task
from common.sessions.faults import Scope, round_of

FAULT = "kill:rank=1,step=160"

TASK = certificate_task("digits", workers=2)


@pytest.fixture
def known(declare, catalogue_of):
    """Two families: of one a quick strategy, and one that goes on by itself; of the other one a server."""
    other = dataclasses.replace(declare().family, title="Other")
    catalogue_of(
        declare("alone", work=Work.UNDISTRIBUTED, options=Options),
        declare("full", base="alone", recovers_with=({"prefetch": 1},)),
        declare("quick", base="alone", quick=True),
        declare("threads", base="alone", work=Work.REPLICAS_IN_ONE_PROCESS, quick=True),
        declare("server", family=other, base="alone", work=Work.COORDINATED, recovers_with=({},)),
    )


def names(**scope):
    return [strategy.name for strategy in Scope(**scope).chosen]


@pytest.mark.usefixtures("known")
def test_the_quick_profile_has_one_strategy_in_processes_of_each_family_and_the_full_one_all():
    assert names() == ["quick", "server"]
    assert names(profile="full") == ["full", "quick", "server"]
    assert names(strategies=("full",)) == ["full"]


@pytest.mark.usefixtures("known")
def test_a_round_has_each_strategy_undisturbed_started_again_and_in_its_own_ways():
    found = [
        (each.strategy.name, each.task.inject, each.task.restarts, label(each.options))
        for each in round_of(Scope(strategies=("full", "server")), TASK, 1)
    ]
    assert found == [
        ("full", None, 1, ""),
        ("full", FAULT, 1, ""),
        ("full", FAULT, 0, "1 prefetch"),
        ("server", None, 1, ""),
        ("server", FAULT, 1, ""),
        ("server", FAULT, 0, ""),
    ]
    launches = [*round_of(Scope(profile="full"), TASK, 1)]
    assert len({each.name for each in launches}) == len(launches)


def test_over_hosts_are_the_strategies_that_can_be_there_and_the_faults_of_hosts():
    hosts = Hosts(2, slots=2, cores=1, bandwidths_bits_per_second=(1e8,))
    scope = Scope(spread=hosts)
    assert all(each.launcher.across_hosts for each in scope.chosen)
    assert [parse(each).kind for each in scope.suffered] == ["kill", "host", "cable"]
    assert {(each.hosts, each.bandwidth_bits_per_second) for each in round_of(scope, TASK, 1)} == {(2, 1e8)}
    with pytest.raises(UserError, match="tf_mirrored has one process, with which all is lost"):
        Scope(spread=hosts, strategies=("tf_mirrored",))
    with pytest.raises(UserError, match="--workers 3 can't be alike on 2 hosts: give a multiple"):
        Scope(spread=hosts, workers=3)
    with pytest.raises(UserError, match="faults take one at a time"):
        Scope(spread=dataclasses.replace(hosts, bandwidths_bits_per_second=(1e7, 1e8)))


def test_faults_take_virtual_hosts_alone(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["faults", "--hosts", "host1,host2"])
    with pytest.raises(UserError, match="use --virtual-hosts"):
        faults.main()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("scope", "complaint"),
    [
        ({"strategies": ("threads",)}, "threads has one process, with which all is lost"),
        ({"strategies": ("nobody",)}, "nobody"),
        ({"faults": ("burn:rank=1",)}, "begin with one of"),
        ({"workers": 1}, "--workers one above 1"),
        ({"repetitions": 0}, "--repetitions takes a whole number above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(scope, complaint):
    with pytest.raises(UserError, match=complaint):
        Scope(**scope)


def test_a_killed_worker_is_noticed_and_both_ways_go_on_along_the_oracle(tmp_path, monkeypatch, capsys):
    python_for(find("torch_ddp"))
    # Signals would go on ending the tests themselves in this way.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    outputs = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "faults.pdf")]
    # No machine is so slow that an attempt takes as long as this deadline.
    scope = ["--strategies", "torch_ddp", "--repetitions", "1", "--deadline-seconds", "240"]
    monkeypatch.setattr(sys, "argv", ["faults", *scope, *outputs])
    with pytest.raises(SystemExit) as ended:
        faults.main()
    assert ended.value.code == 0
    [folder] = (tmp_path / "results").iterdir()
    found = {row.strategy: row for row in rows(suffered(folder, read_records(folder, Record)))}
    again, own = found["torch_ddp"], found["torch_ddp, 1 max restarts"]
    assert (dict(again.became), dict(own.became)) == ({"started again": 1}, {"went on by itself": 1})
    assert (dict(again.noticed_by), dict(own.noticed_by)) == ({"torchrun": 1}, {})
    assert again.message == "rank 1 ended with signal 9, so all processes were ended."
    for row in (again, own):
        assert dict(row.verdicts) == {"follows": 1}
        assert row.steps_again.median == 10
        # Of one round: on a loaded machine the undisturbed launch may take longer.
        assert row.goodput.median > 0
        [launch] = row.launches
        account = read_record(recovery_path(folder / f"{launch.launch}.json"), Recovery)
        assert account.injected_process in {moment.process for moment in account.moments if moment.rank == 1}
        assert (account.next_step_seconds > 0, launch.record.first_step) == (True, 150)
    assert (tmp_path / "faults.pdf").exists()
    assert "1 launches: 1 ok" in capsys.readouterr().out, "one with a fault that ended for good hasn't failed"
