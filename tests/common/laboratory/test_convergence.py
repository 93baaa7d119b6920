"""common/laboratory/convergence.py: the launches, and what they tell; nothing trains."""

import dataclasses
import math

import numpy as np
import pytest

from common.laboratory.convergence import EXPERIMENT, Scope, launches
from common.launching.planned import Hosts
from common.sessions.experiment import observed_of
from tests.launching import left_by

SCOPE = Scope(strategies=("torch_local_sgd",), steps=200)


def record_of(planned, seconds, sent_bytes, fall):
    """What a launch leaves whose steps take so long, and whose loss falls to 1 - `fall` of itself in each step."""
    losses = [2.0 * (1 - fall) ** step for step in range(planned.task.steps)]
    return left_by(planned, seconds, losses=losses, wire_bytes_per_step=sent_bytes)


def test_a_round_has_each_strategy_with_and_without_each_way_from_the_same_seed_and_over_all_hosts():
    for repetition in (1, 2):
        planned = [*launches(SCOPE, repetition)]
        ways = [(each.options.local_steps, each.options.outer_momentum) for each in planned]
        assert ways == [(1, 0.0), (8, 0.0), (8, 0.9)]
        trained = {(each.task.seed, each.task.steps, each.task.scaling) for each in planned}
        assert trained == {(repetition, 200, "strong")}
    spread = Hosts(count=2, slots=2, cores=1, bandwidths_bits_per_second=(1e8,))
    planned = [*launches(dataclasses.replace(SCOPE, spread=spread), 1)]
    assert {(each.hosts, each.bandwidth_bits_per_second) for each in planned} == {(2, 1e8)}


def test_ways_that_compute_the_same_maths_send_no_less_and_are_left_out():
    assert {each.strategy.name for each in launches(Scope(), 1)} >= {"torch_ddp", "torch_local_sgd", "horovod_torch"}
    assert all(getattr(each.options, "backend", "auto") != "mpi" for each in launches(Scope(), 1))


def test_a_loss_counts_as_lowered_when_its_mean_over_twenty_steps_is_and_costs_the_steps_until_then():
    """A loss that is 0.98 of itself after each step, and a way in which steps take half as long and send an eighth."""
    records = {}
    for number in range(1, 7):
        whole, local, _ = launches(SCOPE, number)
        records[whole.name] = record_of(whole, 0.01, 800.0, 0.02)
        records[local.name] = record_of(local, 0.005, 100.0, 0.02)
    found = observed_of(EXPERIMENT, records)
    # The mean of 20 terms of a geometric series, against half of its first one.
    mean = (1 - 0.98**20) / (20 * 0.02)
    steps = 20 + math.ceil(math.log(0.5 / mean) / math.log(0.98))
    of_half = found.observed[(found.observed["x"] == 50) & found.observed["measure"].isin(["seconds", "bytes"])]
    for (series, measure), values in of_half.groupby(["series", "measure"])["value"]:
        costs = {"seconds": 0.01, "bytes": 800.0} if series == "torch_local_sgd" else {"seconds": 0.005, "bytes": 100.0}
        assert np.allclose(values, steps * costs[measure])
    judged = found.judged
    assert set(judged["series"]) == {"torch_local_sgd, 8 local steps"}
    assert np.allclose(judged["ratio"], 2.0)
    courses = found.observed[found.observed["measure"] == "loss over bytes"]
    assert courses.groupby("series")["x"].max().to_dict() == pytest.approx(
        {"torch_local_sgd": 0.16, "torch_local_sgd, 8 local steps": 0.02}
    )


def test_a_loss_that_does_not_fall_so_far_is_missing_with_its_reason():
    whole, *_ = launches(SCOPE, 1)
    found = observed_of(EXPERIMENT, {whole.name: record_of(whole, 0.01, 800.0, 0.004)})
    assert found.missing["reason"].unique().tolist() == ["The loss didn't fall so far."]
    assert found.missing["x"].tolist() == [70, 80, 90]
