"""common/records/evidence.py: who started a launch reads what it left, and keeps that in the record."""

import dataclasses

import numpy as np
import pytest

from common.contract import model
from common.contract.evidence import EvidenceFile, evidence_path
from common.contract.task import Task
from common.records import evidence
from common.records.files import read_record, write_record
from common.records.training import Record
from tests.changes import changed
from tests.reports.records import make_record

TASK = Task(steps=60, warmup_steps=20, window_steps=10, workers=1)


def left(folder, factor=1.0, spoil=lambda state: state, again_at=None):
    """The path of a record whose launch left evidence of its first step, in which a gradient counted so often."""
    path, record = folder / "launch.json", make_record("torch_like", task=TASK)
    before = model.initial_weights(TASK)
    data = evidence.dataset.load(TASK)
    rows = np.random.default_rng([TASK.seed, 1, 0]).permutation(len(data.train_labels))[:64]
    computed = model.loss_and_gradients(TASK, before, data.train_features[rows], data.train_labels[rows])
    after = dict(before)
    model.update(TASK, after, {name: np.float32(factor) * value for name, value in computed.gradients.items()}, 0)
    file = EvidenceFile(evidence_path(path))
    file.add(0, [before], [0])
    file.add(1, [spoil(after)], [0])
    for step in (again_at, again_at + 1, again_at + 2) if again_at else ():
        file.add(step, [after], [0])
    write_record(path, changed(record, evidence_sha256=file.close(), reading=None, data_sha256=data.sha256))
    return path


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_read_is_in_the_record_and_the_evidence_gone_unless_it_is_kept(tmp_path, keep):
    path = left(tmp_path)
    record = evidence.note_reading(path, keep=keep)
    assert read_record(path, Record) == record
    assert [(step.step, step.replica) for step in record.reading.steps] == [(0, 0)]
    assert record.reading.mistakes == ()
    assert bool(record.evidence_sha256) is evidence_path(path).exists() is keep
    assert evidence.in_words(record).startswith("Updates read: 1. Each worker's gradient counted 1.0000 times")
    assert evidence.in_words(record).endswith(": as declared.")


def test_of_a_launch_for_its_speed_alone_the_first_steps_are_not_read_where_there_are_others(tmp_path):
    for again_at, late_alone, steps in ((30, True, [31]), (30, False, [0, 31]), (None, True, [0])):
        path = left(tmp_path, again_at=again_at)
        record = evidence.note_reading(path, keep=False, late_alone=late_alone)
        assert [step.step for step in record.reading.steps] == steps


def test_a_mistake_is_in_the_record_and_in_words_with_the_remedy_in_its_frameworks(tmp_path, monkeypatch):
    record = evidence.note_reading(left(tmp_path, factor=0.3), keep=False)
    [said] = record.reading.mistakes
    assert said.startswith("Each worker's gradient counted 0.30 instead of 1.00")
    assert evidence.in_words(record).endswith(f": not as declared. {said}")
    asked_for = changed(record, other_maths=["local_steps", "outer_momentum"])
    said = "an update: other maths, by local steps and outer momentum."
    assert evidence.in_words(asked_for).endswith(said)
    found = evidence.catalogue.find("torch_ddp")
    family = dataclasses.replace(found.family, remedies={"factor": "Do it as the framework does."})
    strategy = dataclasses.replace(found, name="torch_like", family=family)
    monkeypatch.setattr(evidence.catalogue, "strategies", lambda: {"torch_like": strategy})
    [said] = evidence.note_reading(left(tmp_path, factor=0.3), keep=False).reading.mistakes
    assert said.endswith("Do it as the framework does.")


def test_states_of_another_training_are_none_and_say_why(tmp_path):
    path = left(tmp_path, spoil=lambda state: state | {"layer0.bias": np.zeros(3)})
    record = evidence.note_reading(path, keep=False)
    assert record.reading.steps == ()
    assert record.reading.reason.endswith("is none of this training: layer0.bias has the shape (3,), not (128,)")
    assert evidence.in_words(record) == f"What its updates were made of can't be told: {record.reading.reason}."


def test_evidence_of_other_rows_or_of_a_launch_that_failed_is_not_read(tmp_path):
    path = left(tmp_path)
    record = read_record(path, Record)
    others = evidence.reading_of(changed(record, data_sha256="0" * 64), path)
    assert others.reason == "the rows of this launch aren't those of the data set on this machine"
    others = evidence.reading_of(changed(record, recipe="OTHER"), path)
    assert others.reason == "its evidence is none of this training: no recipe is declared for it"
    evidence_path(path).write_bytes(b"")
    assert "it isn't what the launch left" in evidence.reading_of(record, path).reason
    path = left(tmp_path)
    write_record(path, changed(read_record(path, Record), status="failed", reason="It crashed."))
    assert evidence.note_reading(path, keep=False).reading is None
    assert not evidence_path(path).exists()
