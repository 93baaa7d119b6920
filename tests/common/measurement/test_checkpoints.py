"""common/measurement/run.py: a launch saves where it is to, and goes on from there as if it had never ended."""

import dataclasses
from unittest.mock import Mock

import numpy as np
import pytest

from common.contract import dataset, model
from common.contract.checkpoint import read_checkpoint
from common.contract.task import Task
from common.measurement import run as run_module

TASK = Task(steps=30, warmup_steps=6, window_steps=10)
MOMENTUM = dataclasses.replace(
    TASK, steps=40, momentum=0.9, weight_decay=1e-3, learning_rate=0.02, final_learning_rate=0.01, decay_steps=30
)


def test_checkpoints_measure_the_accuracy_at_their_steps_and_the_last_state_is_saved_for_the_same_batch(
    numpy_launch, tmp_path, refusal
):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state.safetensors", checkpoint_steps=12)
    launched = numpy_launch(task, 2)
    accuracies = launched.record.accuracies
    assert [entry.step for entry in accuracies] == [12, 24, 30]
    seconds = [entry.training_seconds for entry in accuracies]
    assert seconds == sorted(round(each, 6) for each in seconds)
    rows = dataset.load(task)
    accuracy = model.accuracy(task, launched.states[0], rows.test_features, rows.test_labels)
    assert accuracies[-1].accuracy == launched.record.final_accuracy == accuracy
    saved = read_checkpoint(task.checkpoint, dataclasses.replace(task, steps=100), 64)
    assert saved.step == 30
    assert "global_batch 64, not 32" in refusal(lambda: numpy_launch(dataclasses.replace(task, batch=32)))
    np.testing.assert_equal(saved.state, launched.states[0])


def test_a_killed_run_goes_on_from_its_checkpoint_on_the_trajectory_of_an_uninterrupted_one(numpy_launch, tmp_path):
    def kill_at_25(run, rank):
        if len(done) == 25:
            raise InterruptedError
        done.append(rank)

    done, whole = [], numpy_launch(dataclasses.replace(MOMENTUM, checkpoint=tmp_path / "whole"))
    task = dataclasses.replace(MOMENTUM, checkpoint=tmp_path / "parts", checkpoint_steps=10)
    with pytest.raises(InterruptedError):
        numpy_launch(task, on_step=kill_at_25)
    assert read_checkpoint(task.checkpoint, task, 64).step == 20
    rest = numpy_launch(task)
    assert rest.record.first_step == 20
    assert rest.record.losses == whole.record.losses[20:]
    assert rest.record.examples_by_rank == [20 * 64]
    assert np.array_equal(rest.rows[0], whole.rows[0][20:])
    np.testing.assert_equal(rest.states[0], whole.states[0])
    # The warm-up is done again, since the processes are new.
    assert [(window.step, window.steps) for window in rest.record.windows] == [(26, 4), (30, 6), (36, 4)]


def test_every_rank_starts_from_what_rank_0_alone_reads_and_another_world_size_may_go_on(
    numpy_launch, tmp_path, monkeypatch
):
    whole, reading = numpy_launch(MOMENTUM, 4), Mock(wraps=read_checkpoint)
    monkeypatch.setattr(run_module, "read_checkpoint", reading)
    task = dataclasses.replace(MOMENTUM, checkpoint=tmp_path / "state")
    numpy_launch(dataclasses.replace(task, steps=20), 4)
    rest = numpy_launch(task, 2)
    assert [run.first_step for run in rest.runs] == [20, 20]
    assert rest.record.losses == pytest.approx(whole.record.losses[20:], rel=1e-4)
    assert rest.record.examples_by_rank == [20 * 32] * 2
    reading.assert_called_once()
