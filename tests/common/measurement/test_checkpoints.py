"""common/measurement/run.py: a launch saves where it is to, and goes on from there as if it had never ended."""

import dataclasses

import numpy as np
import pytest

from common.contract import dataset, model
from common.contract.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from common.contract.task import Task
from common.measurement import run as run_module

TASK = Task(steps=30, warmup_steps=6, window_steps=10)
MOMENTUM = dataclasses.replace(
    TASK, steps=40, momentum=0.9, weight_decay=1e-3, learning_rate=0.02, final_learning_rate=0.01, decay_steps=30
)


@pytest.mark.parametrize(("every", "due"), [(0, []), (7, [7, 14, 21, 28]), (10, [10, 20]), (30, [])])
def test_a_checkpoint_is_due_every_so_many_steps_and_at_the_end(numpy_launch, tmp_path, every, due):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state", checkpoint_steps=every)
    assert [entry.step for entry in numpy_launch(task).record.accuracies] == [*due, 30]


def test_without_a_file_the_accuracy_is_measured_and_no_state_written(numpy_launch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launched, rows = numpy_launch(TASK), dataset.load(TASK)
    accuracy = model.accuracy(TASK, launched.states[0], rows.test_features, rows.test_labels)
    [entry] = launched.record.accuracies
    assert (entry.step, entry.accuracy) == (30, accuracy)
    assert entry.training_seconds == round(entry.training_seconds, 6)
    assert launched.record.checkpoint is None
    assert not [*tmp_path.rglob("*.safetensors")]


def test_a_checkpoint_that_cannot_be_gone_on_from_is_refused(numpy_launch, tmp_path, refusal):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state")
    write_checkpoint(task.checkpoint, Checkpoint(model.initial_weights(task), 10, 128), task)
    assert "global_batch 128, not 64" in refusal(lambda: numpy_launch(task))


def test_checkpoints_measure_the_accuracy_at_their_steps_and_the_last_state_is_saved(numpy_launch, tmp_path):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state.safetensors", checkpoint_steps=12)
    launched = numpy_launch(task, 2)
    record = launched.record
    assert [entry.step for entry in record.accuracies] == [12, 24, 30]
    assert record.accuracies[-1].accuracy == record.final_accuracy
    seconds = [entry.training_seconds for entry in record.accuracies]
    assert seconds == sorted(seconds)
    rows = dataset.load(task)
    assert record.final_accuracy == model.accuracy(task, launched.states[0], rows.test_features, rows.test_labels)
    saved = read_checkpoint(task.checkpoint, dataclasses.replace(task, steps=100), 64)
    assert saved.step == 30
    assert all(np.array_equal(saved.state[name], value) for name, value in launched.states[0].items())


class KilledError(Exception):
    """The run is stopped from outside."""


def killed_at(step):
    """What kills a run before it updates at `step`, counted from the first step of the launch."""
    done = []

    def kill(run, rank):
        if len(done) == step:
            raise KilledError
        done.append(rank)

    return kill


@pytest.mark.parametrize("optimizer", [TASK, MOMENTUM], ids=["plain", "momentum_and_schedule"])
def test_a_killed_run_goes_on_from_its_checkpoint_on_the_trajectory_of_an_uninterrupted_one(
    numpy_launch, tmp_path, optimizer
):
    whole = numpy_launch(dataclasses.replace(optimizer, steps=40, checkpoint=tmp_path / "whole"))
    task = dataclasses.replace(optimizer, steps=40, checkpoint=tmp_path / "parts", checkpoint_steps=10)
    with pytest.raises(KilledError):
        numpy_launch(task, on_step=killed_at(25))
    assert read_checkpoint(task.checkpoint, task, 64).step == 20
    rest = numpy_launch(task)
    assert rest.record.first_step == 20
    assert rest.record.losses == whole.record.losses[20:]
    assert rest.record.examples_by_rank == [20 * 64]
    assert [np.array_equal(one, other) for one, other in zip(rest.rows[0], whole.rows[0][20:], strict=True)] == [
        True
    ] * 20
    assert set(rest.states[0]) == set(whole.states[0])
    assert all(np.array_equal(rest.states[0][name], value) for name, value in whole.states[0].items())
    # The warm-up is done again, since the processes are new.
    assert [(window.step, window.steps) for window in rest.record.windows] == [(26, 4), (30, 6), (36, 4)]


def test_every_rank_starts_from_rank_0s_checkpoint_and_another_world_size_may_go_on(numpy_launch, tmp_path):
    whole = numpy_launch(MOMENTUM, 4)
    task = dataclasses.replace(MOMENTUM, checkpoint=tmp_path / "state")
    numpy_launch(dataclasses.replace(task, steps=20), 4)
    rest = numpy_launch(task, 2)
    assert [run.first_step for run in rest.runs] == [20, 20]
    assert rest.record.losses == pytest.approx(whole.record.losses[20:], rel=1e-4)
    assert rest.record.examples_by_rank == [20 * 32] * 2


def test_only_rank_0_reads_the_checkpoint(numpy_launch, tmp_path, monkeypatch):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state")
    numpy_launch(dataclasses.replace(task, steps=10), 2)
    readers = []

    def counted(*arguments):
        readers.append(arguments)
        return read_checkpoint(*arguments)

    monkeypatch.setattr(run_module, "read_checkpoint", counted)
    assert numpy_launch(task, 2).record.first_step == 10
    assert len(readers) == 1


def test_a_finished_checkpoint_leaves_nothing_to_train(numpy_launch, tmp_path, refusal):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state")
    numpy_launch(task)
    assert "stands at step 30" in refusal(lambda: numpy_launch(task))
