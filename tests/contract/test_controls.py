"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time."""

import dataclasses
from functools import cache

import numpy as np
import pytest

from common.catalogue import ROOT, strategies
from common.contract.checkpoint import Checkpoint, write_checkpoint
from common.contract.oracle import run_oracle
from common.measurement.record import read_record
from common.strategy import ReplicaOptions
from tests.conftest import Launched
from tests.contract.worlds import (
    Case,
    contract_task,
    has_copies,
    largest_worlds,
    optimizers,
    own_controls,
    train_all,
)
from tests.controls.generic import controls_of

WORLDS = dict(largest_worlds("digits"))
UNBROKEN = ("first", "resumed", "replicas_alike", "last")
"""Cases in which nothing is broken: if one of them didn't follow, what the others prove would be in doubt."""
CHECKED = [name for name, strategy in strategies().items() if issubclass(strategy.options, ReplicaOptions)]
OVER_MPI = "sum_over_mpi"


def following(name):
    """Names of the strategy's cases that have to follow the oracle."""
    return [
        *("first", "resumed", "last"),
        *(["replicas_alike"] if name in CHECKED else []),
        *(["apart_then_broadcast"] if has_copies(name) else []),
    ]


def broken(name):
    """Names of the strategy's controls, each of which must be caught."""
    return [control for control in (*controls_of(strategies()[name]), *own_controls(name)) if control != OVER_MPI]


def stopped(name):
    """Names of the strategy's cases that the comparison of all replicas has to stop."""
    return ["replicas_apart"] if name in CHECKED and "skipped_broadcast" in own_controls(name) else []


def case_of(name, case, folder, **options):
    """The case, with files of its own in the folder."""
    strategy, workers = strategies()[name], WORLDS[name]
    optimizer = next(each for each in optimizers(strategy, workers) if not goes_on(case) or "momentum" in each)
    task = contract_task("digits", workers, folder, activation="tanh", **optimizer)
    files = {"record": folder / f"{case}.json", "checkpoint": folder / f"{case}.safetensors"}
    control = "skipped_broadcast" if case == "replicas_apart" else "" if case in UNBROKEN else case
    compared = {"check_replicas": True} if case.startswith("replicas_") else {}
    return Case(dataclasses.replace(task, deadline_seconds=900, **files), control, options | compared)


def goes_on(case):
    """Whether the case begins with a checkpoint of another run."""
    return case in ("lost_momentum", "resumed")


def leave_checkpoint(task):
    """Save what the oracle has after 60 of the task's steps where a launch of the task goes on from it."""
    state = {name: value.astype(np.float32) for name, value in run_oracle(task, task.batch, 60).state.items()}
    write_checkpoint(task.checkpoint, Checkpoint(state, 60, task.batch), task)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that trains all cases of a strategy, joining its world once: their folder, and what it printed."""

    @cache
    def train(name):
        folder, end = tmp_path_factory.mktemp(name), {"first": -1, "last": 1}
        names = sorted((*following(name), *broken(name), *stopped(name)), key=lambda case: end.get(case, 0))
        cases = [case_of(name, case, folder) for case in names]
        for case in filter(goes_on, names):
            leave_checkpoint(cases[names.index(case)].task)
        status, output = train_all(strategies()[name], cases)
        assert status == 0, output
        return folder, output

    return train


@pytest.fixture
def deviation_in(trained, deviation_of):
    """A function that compares a case of a strategy with the oracle of the task that it should have trained."""

    def compare(name, case):
        folder, output = trained(name)
        launched = Launched(0, output, read_record(folder / f"{case}.json"), folder)
        return deviation_of(launched, case_of(name, case, folder).task)

    return compare


def test_every_module_of_controls_belongs_to_a_strategy():
    shared = {"generic", "several", "broken_torch", "broken_tensorflow"}
    assert {path.stem for path in (ROOT / "tests" / "controls").glob("*.py")} <= set(strategies()) | shared


@pytest.mark.parametrize(("strategy", "case"), [(name, case) for name in WORLDS for case in following(name)])
def test_what_is_not_broken_follows_the_oracle(strategy, case, deviation_in):
    """That what starts apart follows after the broadcast proves that it is the broadcast that mends it."""
    deviation = deviation_in(strategy, case)
    assert deviation.follows, deviation


@pytest.mark.parametrize(("strategy", "case"), [(name, control) for name in WORLDS for control in broken(name)])
def test_what_is_broken_is_caught(strategy, case, deviation_in):
    assert not deviation_in(strategy, case).follows


@pytest.mark.parametrize("strategy", [name for name in WORLDS if stopped(name)])
def test_replicas_that_start_apart_stop_the_run_after_its_first_step(strategy, trained):
    folder, output = trained(strategy)
    said = (folder / "replicas_apart.failed").read_text()
    assert said.startswith("After step 0 the parameter layer0.weight of rank 1 differs from rank 0's: "), output
    assert not (folder / "replicas_apart.json").exists()


def test_a_sum_over_mpi_is_caught_too(deviation_of, tmp_path):
    options = {"backend": "mpi"}
    cases = [case_of("torch_sync_sgd", name, tmp_path, **options) for name in ("first", OVER_MPI, "last")]
    status, output = train_all(strategies()["torch_sync_sgd"], cases)
    assert status == 0, output
    for case, follows in zip(cases, (True, False, True), strict=True):
        record = read_record(case.task.record)
        assert record.backend == "mpi, shared memory"
        assert deviation_of(Launched(0, output, record, tmp_path), case.task).follows is follows
