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
from common.launching.executor import HERE
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
        (Selection(), False, (None, None), False),
        (Selection(), True, (None, None), False),
        (NAMED, False, (FOUND, SPREAD), True),
        (NAMED, True, (FOUND, SPREAD), True),
        (VIRTUAL, True, (None, SPREAD), False),
    ],
)
def test_hosts_that_are_named_are_asked_for_a_plan_as_well_and_virtual_ones_are_not_made_for_it(
    asked, selection, is_plan, found, is_asked
):
    assert find(selection, is_plan) == found
    assert asked == ([(selection, (1, 4))] if is_asked else [])


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


@pytest.mark.usefixtures("asked")
def test_what_one_machine_has_all_of_is_launched_here_or_on_a_node_of_the_allocation():
    assert chosen_hosts.on_one_host(Console(), SlurmOptions()) is HERE
    assert chosen_hosts.on_one_host(Console(), SlurmOptions(slurm=True)) is FOUND


@pytest.mark.parametrize(
    "main",
    [compare.main, *(partial(experiment.run, each) for each in (collectives.EXPERIMENT, matrix_products.EXPERIMENT))],
    ids=["a comparison", "an experiment over hosts", "an experiment on one"],
)
def test_a_session_is_told_its_job_and_goes_on_on_other_nodes_of_the_same_type_alone(main, tmp_path, monkeypatch):
    identities, jobs = [], []

    def begin(console, name, arguments, identity, kind=None, job=None):
        identities.append(identity)
        jobs.append(job)
        raise UserError("It is only looked at.")

    monkeypatch.setattr(compare, "begin", begin)
    monkeypatch.setattr(experiment, "begin", begin)
    monkeypatch.setattr(sys, "argv", ["session", "--slurm", "--results", str(tmp_path), "--out", f"{tmp_path}/a.pdf"])
    for number, changes in enumerate([{}, {}, *OTHER_TYPES]):
        nodes, allocation = [structs.replace(member(number), **changes)], Allocated(job=str(number))
        hosts = cluster_of(1, members=nodes, allocation=allocation)
        monkeypatch.setattr(chosen_hosts.cluster, "find", lambda *_, hosts=hosts: hosts)
        monkeypatch.setenv("SLURM_JOB_ID", allocation.job)
        with pytest.raises(UserError, match="only looked at"):
            main()
    assert jobs == ["0", "1", "2", "3", "4"]
    assert identities[0] == identities[1]
    assert len({*identities}) == 1 + len(OTHER_TYPES)
