"""common/records/certificate.py: what follows its oracle, what deviates, what isn't compared, and who may be ranked."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from common.contract import mlp, oracle
from common.contract.oracle import run_alone
from common.contract.task import PRESETS
from common.contract.work import Alone
from common.launching.planned import PlannedLaunch
from common.records import certificate
from common.records.certificate import (
    ALL_REASONS,
    DEVIATES,
    FOLLOWS,
    FOLLOWS_UP_TO,
    MOSTLY_FAILED,
    NO_CERTIFICATE,
    NOT_COMPARED,
    REASONS,
    Comparison,
    compare,
    deviating,
    reasons_not_ranked,
)
from common.sessions.compare import compute_oracles
from tests.changes import changed
from tests.reports.records import (
    STRATEGIES,
    MadeUpOptions,
    make_record,
    named,
    over_hosts,
    unfinished,
    varied,
    write_weights,
)

TASK = dataclasses.replace(
    PRESETS["digits"], scaling="weak", seed=3, workers=2, steps=60, warmup_steps=20, window_steps=10
)


def compared(folder, *records, changed=()) -> list[Comparison]:
    return compare(named(*records), folder, changed)


def alone_record(alone: Alone, workers: int = 2, factor: float = 1.0, **fields):
    """The record of a launch without exchange that follows its oracle in float64, but for a factor of its losses."""
    task = dataclasses.replace(TASK, workers=workers)
    trajectory = run_alone(task, 64 * workers, 60, workers, alone)
    shard_losses = (factor * trajectory.shard_losses(workers)).tolist()
    losses = (factor * np.array(trajectory.losses)).tolist()
    record = varied("amber_ring", workers, exchange=False)
    return changed(record, **{"alone": alone.name, "losses": losses, "shard_losses": shard_losses} | fields)


# Missing evidence


def test_two_workers_that_hand_on_the_loss_of_step_0_alone_deviate(tmp_path):
    record = make_record(workers=2)
    first = {"losses": record.losses[:1], "shard_losses": [losses[:1] for losses in record.shard_losses]}
    [comparison] = compared(tmp_path, changed(record, **first))
    assert comparison.verdict == DEVIATES
    assert comparison.note == "losses of 60 steps and 2 shards are needed, and there are 1 of 2"


@pytest.mark.parametrize("loss", [99.0, None])
def test_wrong_losses_after_the_hundredth_step_deviate(tmp_path, loss):
    task = dataclasses.replace(TASK, steps=120)
    record = make_record(workers=2, task=task)
    late = {
        "losses": record.losses[:100] + [loss] * 20,
        "shard_losses": [losses[:100] + [loss] * 20 for losses in record.shard_losses],
    }
    [whole, spoiled] = compared(tmp_path, record, changed(record, **late))
    assert (whole.verdict, spoiled.verdict) == (FOLLOWS, DEVIATES)
    assert spoiled.note.startswith("losses leave the tolerance at step 100")


@pytest.mark.parametrize("fields", [{"losses": []}, {"shard_losses": []}, {"losses": [], "shard_losses": []}])
def test_a_launch_without_losses_is_compared_and_deviates(tmp_path, fields):
    [comparison] = compared(tmp_path, make_record(**fields))
    assert comparison.verdict == DEVIATES


def test_records_that_launches_did_not_leave_are_not_compared(tmp_path):
    write_weights(tmp_path / "w.safetensors", seed=3, batch=64, steps=60)
    record = make_record(checkpoint="w.safetensors")
    [edited, kept] = compared(tmp_path, record, record, changed=["amber_ring-1w-00"])
    assert (edited.verdict, kept.verdict) == (NOT_COMPARED, FOLLOWS)
    assert edited.note == certificate.CHANGED
    assert math.isnan(edited.weights)


# Kinks


@pytest.fixture
def kink_at_step_30(monkeypatch, tmp_path):
    """Every oracle meets a kink at step 30."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kinks = mlp.kinks

    def with_one(task, step, pre_activations):
        return [
            dataclasses.replace(kink, distance=0.0 if step == 30 else 1.0)
            for kink in kinks(task, step, pre_activations)
        ]

    monkeypatch.setattr(mlp, "kinks", with_one)


@pytest.mark.parametrize(
    ("task", "rows"),
    [({"steps": 10_000_000}, 1024), ({"dimensions": (64, 10_000_000, 10)}, 64), ({}, 2**53)],
    ids=["steps", "widths", "rows"],
)
def test_a_record_whose_oracle_would_not_end_is_not_compared(tmp_path, task, rows):
    record = make_record()
    hostile = changed(record, task=dataclasses.replace(record.task, **task), examples_per_step=rows)
    [comparison] = compared(tmp_path, hostile)
    assert comparison.verdict == NOT_COMPARED
    assert comparison.note.startswith("Its oracle would take ")


@pytest.mark.parametrize(
    ("step", "factor", "verdict", "note"),
    [
        (31, 1.001, FOLLOWS_UP_TO, "left after a kink at step 30, layer"),
        (30, 1.001, DEVIATES, "losses leave the tolerance at step 30"),
        (31, 1.1, DEVIATES, "losses leave the tolerance at step 31; by more than the kink at step 30 explains"),
        (60, 1.0, FOLLOWS, ""),
    ],
)
def test_what_leaves_the_oracle_after_a_kink_follows_up_to_it(tmp_path, kink_at_step_30, step, factor, verdict, note):
    record = make_record()
    losses = [loss * factor if place >= step else loss for place, loss in enumerate(record.losses)]
    [comparison] = compared(tmp_path, changed(record, losses=losses, shard_losses=[losses]))
    assert comparison.verdict == verdict
    assert comparison.note.startswith(note) if verdict == FOLLOWS_UP_TO else comparison.note == note
    assert comparison.followed_up_to == (30 if verdict == FOLLOWS_UP_TO else None)
    assert comparison.is_followed is (verdict != DEVIATES)


def test_what_goes_on_after_a_kink_and_is_apart_from_the_oracle_is_not_compared(tmp_path, kink_at_step_30):
    record = make_record()
    losses = [1.001 * loss for loss in record.losses[40:]]
    facts = {"first_step": 40, "losses": losses, "shard_losses": [losses], "examples_by_rank": [20 * 64]}
    [comparison] = compared(tmp_path, changed(record, **facts))
    assert comparison.verdict == NOT_COMPARED
    assert "it goes on after a kink at step 30" in comparison.note


def test_what_goes_on_at_the_step_of_a_kink_may_leave_the_oracle_after_it(tmp_path, kink_at_step_30):
    record = make_record()
    losses = [loss if step == 30 else 1.001 * loss for step, loss in enumerate(record.losses) if step >= 30]
    facts = {"first_step": 30, "losses": losses, "shard_losses": [losses], "examples_by_rank": [30 * 64]}
    [comparison] = compared(tmp_path, changed(record, **facts))
    assert comparison.verdict == FOLLOWS_UP_TO


def test_what_goes_on_and_deviates_says_at_which_step(tmp_path):
    record = make_record()
    losses = [1.5 * loss for loss in record.losses[40:]]
    facts = {"first_step": 40, "losses": losses, "shard_losses": [losses], "examples_by_rank": [20 * 64]}
    [comparison] = compared(tmp_path, changed(record, **facts))
    assert (comparison.verdict, comparison.note) == (DEVIATES, "losses leave the tolerance at step 40")


# What a comparison says of its launch


def test_a_comparison_says_what_was_launched_and_holds_its_losses_beside_the_oracles(tmp_path):
    record = over_hosts(options=MadeUpOptions(compiled=True))
    losses = [None, *record.losses[11:]]
    shard_losses = [[None, *each[11:]] for each in record.shard_losses]
    facts = {"losses": losses, "shard_losses": shard_losses, "examples_by_rank": [1600, 1500]}
    facts |= {"first_step": 10, "other_maths": ["rounding", "half_precision"]}
    [comparison] = compared(tmp_path, changed(record, **facts))
    assert comparison.strategy == record.name != "amber_ring, compiled"
    assert (comparison.without_hosts, comparison.hosts, comparison.workers) == ("amber_ring, compiled", 2, 2)
    assert (comparison.maths, comparison.other_maths) == ("--preset digits --seed 3", "rounding, half_precision")
    assert (comparison.first_step, comparison.examples, comparison.expected_examples) == (10, 3100, 50 * 128)
    assert comparison.note == "3,100 rows counted, 6,400 expected"
    assert len(comparison.losses) == len(comparison.oracle_losses) == 50
    assert math.isnan(comparison.losses[0])
    assert comparison.losses[1:] == pytest.approx(comparison.oracle_losses[1:], rel=1e-5)


def test_asynchronous_updates_of_several_workers_are_not_compared_and_say_why(tmp_path):
    [comparison] = compared(tmp_path, make_record("cobalt_servers", 2, synchronous=False))
    assert comparison.verdict == certificate.ASYNCHRONOUS
    assert comparison.note == "workers don't wait for each other, so no step by step comparison exists"


def test_a_launch_of_one_row_per_step_is_compared(tmp_path):
    [comparison] = compared(tmp_path, make_record(task=dataclasses.replace(TASK, workers=1, batch=1)))
    assert comparison.verdict == FOLLOWS


def test_weights_are_found_where_the_record_says_or_else_beside_it(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "w.safetensors").touch()
    record = make_record(checkpoint="kept/w.safetensors", replica_checkpoints=["gone/a.safetensors", "b.safetensors"])
    found = certificate.with_weights_found(record, tmp_path)
    assert found.checkpoint == "kept/w.safetensors"
    assert found.replica_checkpoints == ["a.safetensors", "b.safetensors"]
    moved = certificate.with_weights_found(make_record(checkpoint="gone/w.safetensors"), tmp_path)
    assert moved.checkpoint == "w.safetensors"


@pytest.mark.parametrize(
    ("limit", "exact"), [("MOST_OPERATIONS", 6 * 17_226 * 64 * 60), ("MOST_PARAMETER_BYTES", 4 * 17_226)]
)
def test_an_oracle_is_computed_up_to_a_limit(tmp_path, monkeypatch, limit, exact):
    # Digits has 64 x 128 + 128, 128 x 64 + 64 and 64 x 10 + 10 parameters.
    for allowed, verdict in ((exact, FOLLOWS), (exact - 1, NOT_COMPARED)):
        monkeypatch.setattr(certificate, limit, allowed)
        [comparison] = compared(tmp_path, make_record())
        assert comparison.verdict == verdict


# Without exchange


@pytest.mark.parametrize("alone", Alone)
def test_launches_without_exchange_follow_what_their_declaration_says(tmp_path, alone):
    [right, wrong] = compared(tmp_path, alone_record(alone), alone_record(alone, factor=1.0001))
    assert (right.verdict, wrong.verdict) == (FOLLOWS, DEVIATES)
    assert right.note == "by losses, shards and rows alone, since no weights were kept"
    assert not right.exchange


def test_weights_that_were_kept_without_exchange_are_held_to_those_of_every_worker(tmp_path):
    task = dataclasses.replace(TASK, workers=2)
    for number, state in enumerate(run_alone(task, 128, 60, 2, Alone.OWN_SHARD).states):
        weights = {name: np.float32(state[name]) for name in mlp.parameter_names(task)}
        save_file(weights, tmp_path / f"w{number}.safetensors")
    kept = {"checkpoint": "w0.safetensors", "replica_checkpoints": ["w1.safetensors"]}
    [comparison] = compared(tmp_path, alone_record(Alone.OWN_SHARD, **kept))
    assert (comparison.verdict, comparison.note) == (FOLLOWS, "")
    assert 0 < comparison.weights < oracle.WEIGHT_TOLERANCE
    assert len(comparison.oracle_losses) == 60


def test_a_launch_that_exchanges_although_it_was_told_not_to_deviates(tmp_path):
    exchanged = make_record(workers=2)
    lost = alone_record(Alone.OWN_SHARD, losses=exchanged.losses, shard_losses=exchanged.shard_losses)
    [comparison] = compared(tmp_path, lost)
    assert comparison.verdict == DEVIATES


def test_a_launch_without_exchange_that_one_replica_skips_deviates(tmp_path):
    record = alone_record(Alone.OWN_SHARD)
    same = [record.shard_losses[0], record.shard_losses[0]]
    [comparison] = compared(tmp_path, changed(record, shard_losses=same))
    assert comparison.verdict == DEVIATES


@pytest.mark.parametrize(("alone", "note"), [("", "no oracle computes"), ("OTHERS", "doesn't know (OTHERS)")])
def test_without_a_known_oracle_a_launch_without_exchange_is_not_compared(tmp_path, alone, note):
    [comparison] = compared(tmp_path, changed(alone_record(Alone.OWN_SHARD), alone=alone))
    assert comparison.verdict == NOT_COMPARED
    assert note in comparison.note


# Who may be ranked


def comparison(strategy: str = "a", workers: int = 2, **fields) -> Comparison:
    [one] = compare(named(make_record()), None)
    known = {"strategy": strategy, "without_hosts": strategy, "workers": workers, "weights": math.nan}
    return dataclasses.replace(one, **known | fields)


def reasons(*comparisons: Comparison, records=()) -> dict:
    return reasons_not_ranked(comparisons, named(*records))


def test_ranked_is_what_follows_and_has_weights_that_followed_at_as_many_workers():
    assert reasons(comparison(), comparison(weights=1e-7, preset="other")) == {("a", 2): ""}
    assert reasons(comparison(), comparison(weights=1e-7, workers=1))["a", 2] == NO_CERTIFICATE
    assert reasons(comparison())["a", 2] == NO_CERTIFICATE
    assert reasons(comparison(), comparison(weights=1e-7, exchange=False))["a", 2] == NO_CERTIFICATE


def test_a_certificate_holds_on_as_many_hosts_and_for_the_same_options():
    over_two = comparison("a, 2 hosts", without_hosts="a", hosts=2)
    assert reasons(over_two, comparison(weights=1e-7))["a, 2 hosts", 2] == NO_CERTIFICATE
    assert (
        reasons(over_two, comparison("a, 2 hosts, 10 Mbit/s", without_hosts="a", hosts=2, weights=1e-7))[
            "a, 2 hosts", 2
        ]
        == ""
    )
    assert reasons(comparison("a, compiled"), comparison(weights=1e-7))["a, compiled", 2] == NO_CERTIFICATE


@pytest.mark.parametrize("verdict", REASONS)
def test_one_launch_that_does_not_follow_is_reason_enough(verdict):
    certified = comparison(weights=1e-7)
    for others in ([certified, comparison(verdict=verdict)], [comparison(verdict=verdict), certified]):
        assert reasons(*others) == {("a", 2): REASONS[verdict]}
    uncertified = comparison(weights=1e-7, verdict=verdict)
    assert reasons(comparison(), uncertified)["a", 2] == REASONS[verdict]


def test_of_several_reasons_the_gravest_is_given():
    every = [comparison(verdict=verdict) for verdict in REASONS]
    assert reasons(*reversed(every)) == {("a", 2): REASONS[DEVIATES]}
    assert ALL_REASONS[0] == REASONS[DEVIATES]


def test_what_follows_up_to_a_kink_is_ranked():
    assert reasons(comparison(verdict=FOLLOWS_UP_TO), comparison(weights=1e-7)) == {("a", 2): ""}


@pytest.mark.parametrize(("failed", "reason"), [(1, ""), (2, MOSTLY_FAILED)])
def test_launches_that_mostly_fail_are_not_ranked(failed, reason):
    records = [make_record("amber_ring", 2), *(unfinished("failed", "It crashed.") for _ in range(failed))]
    ranked = comparison("amber_ring", weights=1e-7)
    assert reasons(ranked, records=records) == {("amber_ring", 2): reason}


def test_what_deviates_is_named_once_for_each_strategy_workers_and_preset():
    wrong = comparison(verdict=DEVIATES, note="wrong")
    found = deviating([wrong, wrong, comparison(), dataclasses.replace(wrong, exchange=False, workers=1)])
    assert found == ["a with 2 workers, digits (wrong)", "a with 1 worker without exchange, digits (wrong)"]


def test_every_oracle_that_a_report_needs_is_computed_before_and_not_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    strategy = dataclasses.replace(STRATEGIES["amber_ring"], alone=Alone.OWN_SHARD)

    def planned(exchange=True, **fields):
        task = dataclasses.replace(TASK, **fields)
        return PlannedLaunch(strategy, 2, "throughput", 1, task, MadeUpOptions(exchange=exchange))

    write_weights(tmp_path / "w.safetensors", seed=3, batch=128, steps=60)
    launches = [planned(), planned(), planned(exchange=False), planned(checkpoint=Path("w.safetensors"))]
    without_data = planned(preset="mnist", dimensions=(784, 10), data_dir=tmp_path)
    compute_oracles([*launches, without_data, planned(scaling="strong", batch=63)])
    assert len([*(tmp_path / "lockstep" / "oracles").iterdir()]) == 3
    records = [
        make_record(workers=2),
        make_record(workers=2, checkpoint="w.safetensors"),
        alone_record(Alone.OWN_SHARD),
    ]
    for name in ("run_oracle", "run_alone"):
        monkeypatch.setattr(oracle, name, None)
    compute_oracles(launches)
    assert [each.verdict for each in compared(tmp_path, *records)] == [FOLLOWS] * 3
