"""common/records/certificate.py: what follows, what deviates, what isn't compared, and who may be ranked."""

import dataclasses
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from common.contract import dataset, model, oracle
from common.contract.recipe import Coefficient
from common.errors import UserError
from common.launching.planned import PlannedLaunch
from common.records import certificate
from common.records.certificate import DEVIATES, FOLLOWS, NOT_COMPARED, REASONS, Certificate
from common.sessions.compare import compute_oracles
from tests.changes import changed
from tests.reports.records import (
    STRATEGIES,
    MadeUpOptions,
    make_record,
    mistaken,
    named,
    over_hosts,
    task_of,
    unfinished,
)

SMOOTH = task_of(1, "pathway", steps=20, warmup_steps=5, window_steps=5)
"""A task whose losses are held to the oracle's trajectory."""


def compared(folder, *records, changed=()) -> list[Certificate]:
    return certificate.compare(named(*records), folder, changed)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda record: {"shard_losses": [each[:1] for each in record.shard_losses]}, "and there are 1 of 2."),
        (lambda record: {"shard_losses": record.shard_losses[:1]}, "and there are 60 of 1."),
        (lambda record: {"shard_losses": []}, "Losses of 60 steps and 2 shards are needed, and there are 0 of 0"),
        *[
            (lambda record, rows=rows: {"examples_by_rank": rows}, f"{sum(rows):,} rows counted, 7,680 expected")
            for rows in ([], [60 * 64, 59 * 64], [60 * 64, 61 * 64])
        ],
    ],
)
def test_a_launch_without_all_losses_or_with_other_rows_deviates(tmp_path, change, note):
    record = make_record(workers=2)
    [comparison] = compared(tmp_path, changed(record, **change(record)))
    assert comparison.verdict == DEVIATES
    assert note in comparison.note


def test_without_evidence_or_a_recipe_and_of_other_records_nothing_is_compared(tmp_path):
    records = [make_record(reading=None), make_record(recipe=""), make_record(evidence_sha256="0" * 64)]
    left_none, undeclared, gone = compared(tmp_path, *records)
    assert {each.verdict for each in (left_none, undeclared, gone)} == {NOT_COMPARED}
    assert left_none.note == "it left no evidence of its updates"
    assert undeclared.note == "no recipe is declared for what it computes"
    # Evidence that was kept is read again.
    assert "No such file" in gone.note
    record = make_record()
    [edited, kept] = compared(tmp_path, record, record, changed=["amber_ring-1w-00"])
    assert (edited.verdict, kept.verdict) == (NOT_COMPARED, FOLLOWS)
    assert edited.note == certificate.CHANGED


def test_what_updates_were_made_of_is_told_and_what_made_a_mistake_deviates_with_its_note_and_is_not_trusted(tmp_path):
    right = make_record(workers=2)
    wrong = mistaken(right, "It is wrong. Mend it.")
    [first, second] = compared(tmp_path, right, wrong)
    assert (first.verdict, first.note) == (FOLLOWS, "")
    assert (second.verdict, second.note) == (DEVIATES, "It is wrong. Mend it.")
    assert second.rounding > 1 > first.rounding
    assert [*certificate.trusted(named(right, wrong), tmp_path)] == ["amber_ring-2w-00"]
    # What its updates were made of.
    assert (first.updates, first.least_share, first.largest_share) == (2, 0.5, 0.5)
    assert (first.decay, first.residual) == (0.0, 3e-6)
    assert first.rounding == pytest.approx(1 / 3)
    assert math.isnan(first.velocity)
    assert first.loss == 0.0
    assert not first.oracle_losses.size
    assert first.hosts == 1
    moving = {"velocity": Coefficient(0.5, 0.1), "floor": 0.0}
    steps = [
        dataclasses.replace(
            step, losses=(), tensors={name: dataclasses.replace(each, **moving) for name, each in step.tensors.items()}
        )
        for step in right.reading.steps
    ]
    [told] = compared(tmp_path, changed(right, reading=dataclasses.replace(right.reading, steps=tuple(steps))))
    assert told.velocity == 0.5
    assert math.isnan(told.rounding)
    assert math.isnan(told.loss)


def test_a_launch_that_went_on_needs_the_losses_of_its_own_steps_alone(tmp_path):
    record = make_record(workers=2)
    own = {"losses": record.losses[9:], "shard_losses": [each[9:] for each in record.shard_losses]}
    went_on = changed(record, first_step=9, examples_by_rank=[51 * 64] * 2, **own)
    [comparison] = compared(tmp_path, went_on)
    assert (comparison.verdict, comparison.note) == (FOLLOWS, "")


def test_one_worker_of_an_asynchronous_strategy_is_compared_as_any_other(tmp_path):
    [comparison] = compared(tmp_path, make_record("cobalt_servers", 1))
    assert comparison.verdict == FOLLOWS


def test_every_loss_of_a_smooth_network_is_held_to_the_oracles_of_its_shard(tmp_path):
    record = make_record(task=SMOOTH)
    losses = [loss * (1.001 if step >= 15 else 1) for step, loss in enumerate(record.losses)]
    [right, wrong] = compared(tmp_path, record, changed(record, losses=losses, shard_losses=[losses]))
    assert (right.verdict, wrong.verdict) == (FOLLOWS, DEVIATES)
    assert wrong.note == "losses leave the oracle's at step 15"
    assert wrong.loss == pytest.approx(1e-3, rel=0.01)
    assert len(right.oracle_losses) == 20
    # A loss of another shard, though the mean over all is the oracle's.
    record = make_record(workers=2, task=dataclasses.replace(SMOOTH, workers=2))
    [swapped] = compared(tmp_path, changed(record, shard_losses=record.shard_losses[::-1]))
    assert swapped.loss > 0.01
    assert swapped.verdict == DEVIATES


@pytest.mark.parametrize("task", [task_of(1), SMOOTH])
def test_a_loss_that_is_not_finite_deviates_in_any_step(tmp_path, task):
    record = make_record(task=task)
    losses = [[*of_shard[:17], None, *of_shard[18:]] for of_shard in record.shard_losses]
    [comparison] = compared(tmp_path, changed(record, shard_losses=losses))
    assert (comparison.verdict, comparison.note) == (DEVIATES, "The loss of step 17 isn't finite.")


@pytest.mark.parametrize("mistake", [True, False])
def test_other_maths_neither_follows_nor_deviates_whatever_its_updates(tmp_path, mistake):
    rounded = make_record(workers=2, options=MadeUpOptions(rounding="fp16"))
    [comparison] = compared(tmp_path, mistaken(rounded) if mistake else rounded)
    assert comparison.verdict == "other maths"
    assert comparison.other_maths == "rounding"
    assert comparison.residual == (0.3 if mistake else 3e-6)
    assert comparison.note == ""


def test_what_no_oracle_can_follow_is_not_compared_and_says_why(tmp_path):
    record = make_record(task=SMOOTH)
    wide = dataclasses.replace(record.task, dimensions=(1024, 10_000_000, 32))
    [comparison] = compared(tmp_path, changed(record, task=wide))
    assert comparison.verdict == NOT_COMPARED
    assert comparison.note.startswith("Its oracle would take ")
    [comparison] = compared(tmp_path, make_record("cobalt_servers", 2, synchronous=False))
    assert comparison.verdict == certificate.ASYNCHRONOUS
    assert comparison.note.startswith("workers don't wait for each other: the weights between one update and the next")


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
    assert comparison.note == "3,100 rows counted, 6,400 expected."
    assert len(comparison.losses) == 50
    assert math.isnan(comparison.losses[0])


def test_an_oracle_is_of_the_same_rows_and_takes_no_more_than_is_tried(monkeypatch):
    record, rows = make_record(task=SMOOTH), dataset.load(SMOOTH).sha256
    assert len(certificate.trajectory_of(changed(record, data_sha256=rows)).losses) == 20
    with pytest.raises(UserError, match="aren't those of the data set on this machine"):
        certificate.trajectory_of(changed(record, data_sha256="0" * 64))
    operations = model.operations(SMOOTH) * 64 * 20
    for most, is_tried in ((operations, True), (operations - 1, False)):
        monkeypatch.setattr(certificate, "MOST_OPERATIONS", most)
        with nullcontext() if is_tried else pytest.raises(UserError, match="launch less"):
            certificate.trajectory_of(record)


def test_final_weights_are_found_where_the_record_says_or_else_beside_it(tmp_path):
    (tmp_path / "kept").mkdir()
    for name, value in (("kept/w.safetensors", 1.0), ("moved.safetensors", 2.0)):
        save_file({"a": np.float32([value]), "a.momentum": np.float32([0.0])}, tmp_path / name)
    for name, value in (("kept/w.safetensors", 1.0), ("/gone/moved.safetensors", 2.0)):
        assert certificate.final_weights(make_record(checkpoint=name), tmp_path) == {"a": np.float32([value])}


def comparison(strategy: str = "a", workers: int = 2, **fields) -> Certificate:
    [one] = certificate.compare(named(make_record()), Path())
    return dataclasses.replace(one, **{"strategy": strategy, "without_hosts": strategy, "workers": workers} | fields)


def reasons(*comparisons: Certificate, records=()) -> dict:
    return certificate.reasons_not_ranked(comparisons, named(*records))


def test_ranked_is_what_follows_with_exchange_and_else_the_gravest_reason_is_given():
    assert reasons(comparison(), comparison(preset="other")) == {("a", 2): ""}
    for verdict, reason in REASONS.items():
        assert reasons(comparison(), comparison(verdict=verdict), comparison()) == {("a", 2): reason}
    assert reasons(comparison(exchange=False, verdict=DEVIATES), comparison()) == {("a", 2): ""}
    every = [comparison(verdict=verdict) for verdict in REASONS]
    assert reasons(*reversed(every)) == {("a", 2): REASONS[DEVIATES]}
    assert certificate.ALL_REASONS[0] == REASONS[DEVIATES]
    wrong = comparison(verdict=DEVIATES, note="wrong")
    found = certificate.deviating([wrong, wrong, comparison(), dataclasses.replace(wrong, exchange=False, workers=1)])
    assert found == ["a with 2 workers, digits (wrong)", "a with 1 worker without exchange, digits (wrong)"]


def test_launches_that_mostly_fail_are_not_ranked():
    records = [make_record("amber_ring", 2), unfinished("failed", "It crashed.")]
    for added, reason in (([], ""), (records[1:], certificate.MOSTLY_FAILED)):
        assert reasons(comparison("amber_ring"), records=[*records, *added]) == {("amber_ring", 2): reason}


def test_every_oracle_that_a_report_needs_is_computed_before_and_not_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ring, servers = STRATEGIES["amber_ring"], STRATEGIES["cobalt_servers"]

    def planned(task=SMOOTH, strategy=ring, workers=2, exchange=True, **fields):
        task = dataclasses.replace(task, workers=workers, **fields)
        return PlannedLaunch(strategy, workers, "throughput", 1, task, MadeUpOptions(exchange=exchange))

    asynchronous = planned(task_of(2), servers, checkpoint=Path("w.safetensors"))
    launches = [planned(), planned(), planned(exchange=False), planned(task_of(2)), asynchronous]
    without_data = planned(preset="mnist", dimensions=(784, 10), data_dir=tmp_path)
    compute_oracles([*launches, without_data, planned(scaling="strong", batch=63)])
    # Of pathway with exchange, and of the weights of what is asynchronous.
    assert len([*(tmp_path / "lockstep" / "oracles").iterdir()]) == 2
    records = [make_record(workers=2, task=dataclasses.replace(SMOOTH, workers=2)), make_record(workers=2)]
    monkeypatch.setattr(oracle, "run_oracle", None)
    compute_oracles(launches)
    assert [each.verdict for each in compared(tmp_path, *records)] == [FOLLOWS] * 2
