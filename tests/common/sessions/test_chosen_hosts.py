"""common/sessions/chosen_hosts.py: where a session's launches are made; no host is asked and none is made."""

import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
from msgspec import structs
from rich.console import Console

from common.errors import UserError
from common.laboratory import collectives, matrix_products
from common.launching.hosts.selection import Selection
from common.launching.hosts.slurm import SlurmOptions
from common.launching.planned import Hosts
from common.records.header import Allocated
from common.sessions import chosen_hosts, compare, experiment
from tests.common.launching.hosts.test_cluster import cluster_of, member
from tests.common.launching.hosts.test_slurm import OTHER_TYPES

SPREAD = Hosts(count=2, slots=2, cores=2)
FOUND = SimpleNamespace(spread=SPREAD)
NAMED, VIRTUAL = Selection(hosts="one,two"), Selection(virtual_hosts=2)


@pytest.fixture
def asked(monkeypatch):
    """What hosts were found or made by, which is played."""
    asked = []

    @contextmanager
    def virtual_hosts(*about):
        asked.append(about)
        yield SimpleNamespace(run=lambda *about: asked.append(about) or 3)

    monkeypatch.setattr(chosen_hosts.cluster.machine, "alone", lambda: nullcontext(7))
    monkeypatch.setattr(chosen_hosts.cluster, "find", lambda console, *about: asked.append(about) or FOUND)
    monkeypatch.setattr(chosen_hosts.cluster, "spread_of", lambda *about: SPREAD)
    monkeypatch.setattr(chosen_hosts.cluster, "described", lambda: None)
    monkeypatch.setattr(chosen_hosts.cluster, "virtual_hosts", virtual_hosts)
    monkeypatch.setattr(sys, "argv", ["compare", "--virtual-hosts", "2"])
    return asked


def find(selection, is_plan=False):
    return chosen_hosts.find(Console(), "some.module", selection, (1, 4), is_plan)


@pytest.mark.parametrize(
    ("selection", "is_plan", "found", "is_asked"),
    [
        (Selection(), False, (None, None), []),
        (NAMED, False, (FOUND, SPREAD), [(NAMED, (1, 4))]),
        (NAMED, True, (FOUND, SPREAD), [(NAMED, (1, 4))]),
        (VIRTUAL, True, (None, SPREAD), []),
        (SlurmOptions(), False, (None, None), []),
        (SlurmOptions(slurm=True), True, (None, None), []),
        # What one machine has all of is launched on a node of the allocation.
        (SlurmOptions(slurm=True), False, (FOUND, None), [(Selection(slurm=True), (1,))]),
    ],
)
def test_hosts_are_asked_where_they_are_named_and_for_a_plan_as_far_as_it_needs_them(
    asked, selection, is_plan, found, is_asked
):
    assert (find(selection, is_plan), asked) == (found, is_asked)


def test_on_virtual_hosts_the_session_runs_on_their_head_and_this_program_ends_as_it_does(asked, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        find(VIRTUAL)
    assert ended.value.code == 3
    command = [sys.executable, "-m", "some.module", "--virtual-hosts", "2"]
    assert asked == [(2, VIRTUAL.first_cable, None), (command, 7)]
    # There they are found like any others.
    monkeypatch.setattr(chosen_hosts.cluster, "described", lambda: "what makes them up")
    assert find(VIRTUAL) == (FOUND, SPREAD)
    assert asked[2:] == [(VIRTUAL, (1, 4))]


def test_a_session_goes_on_over_the_same_hosts_and_in_slurm_on_nodes_of_the_same_type_alone():
    def identity(number, allocation=None, **changes):
        hosts = cluster_of(1, members=[structs.replace(member(number), **changes)], allocation=allocation)
        return chosen_hosts.identity("what is asked for", NAMED, hosts)

    assert chosen_hosts.identity("what is asked for", Selection(), None) == "'what is asked for'"
    assert identity(0) == identity(1) == f"'what is asked for'\n{NAMED}"
    jobs = [Allocated(job=str(number)) for number in range(2)]
    assert identity(0, jobs[0]) == identity(1, jobs[1])
    assert len({identity(0, jobs[0], **changes) for changes in ({}, *OTHER_TYPES)}) == 1 + len(OTHER_TYPES)


@pytest.mark.parametrize(
    "main",
    [compare.main, *(partial(experiment.run, each) for each in (collectives.EXPERIMENT, matrix_products.EXPERIMENT))],
    ids=["a comparison", "an experiment over hosts", "an experiment on one"],
)
def test_a_session_is_told_its_job_and_its_hosts(main, run_here, tmp_path, monkeypatch):
    begun = []

    def begin(console, name, arguments, identity, kind=None, job=None):
        begun.append((identity.partition("\n")[2], job))
        raise UserError("It is only looked at.")

    monkeypatch.setattr(compare, "begin", begin)
    monkeypatch.setattr(experiment, "begin", begin)
    hosts = cluster_of(1, members=[member(0)], allocation=Allocated(job="7"))
    monkeypatch.setattr(chosen_hosts.cluster, "find", lambda *_: hosts)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(UserError, match="only looked at"):
        run_here(main, tmp_path, "--slurm")
    [(about, job)] = begun
    assert hosts.kind in about
    assert job == "7"
