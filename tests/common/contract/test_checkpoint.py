"""common/contract/checkpoint.py: a state comes back bit for bit, or the file is refused with cause and remedy."""

import dataclasses

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from common.contract import model
from common.contract.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from common.contract.rows import Piece
from common.contract.task import Task

TASK = Task(dimensions=(3, 4, 2), momentum=0.9, steps=100, warmup_steps=10)
STATE = model.initial_weights(TASK) | {
    f"{name}.momentum": value / 3 for name, value in model.initial_weights(TASK).items()
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.safetensors"
    write_checkpoint(path, Checkpoint(STATE, 20, 64), TASK)
    return path


def test_weights_momentum_step_and_batch_come_back_bit_for_bit_also_of_transposed_views(path):
    transposed = path.with_name("transposed.safetensors")
    write_checkpoint(transposed, Checkpoint({name: np.asfortranarray(STATE[name]) for name in STATE}, 20, 64), TASK)
    for written in (path, transposed):
        checkpoint = read_checkpoint(written, TASK, 64)
        assert (checkpoint.step, checkpoint.global_batch) == (20, 64)
        assert {value.dtype.name for value in checkpoint.state.values()} == {"float32"}
        assert set(checkpoint.state) == set(STATE)
        assert all(np.array_equal(checkpoint.state[name], STATE[name]) for name in STATE)


def test_training_that_goes_on_with_another_batch_leaves_a_piece_behind_which_is_kept(path):
    first, later = Checkpoint(STATE, 20, 64), Checkpoint(STATE, 30, 128, [Piece(20, 64)])
    assert [*first.earlier_for(64)] == []
    assert [*first.earlier_for(128)] == [Piece(20, 64)]
    assert [*later.earlier_for(128)] == [Piece(20, 64)]
    assert [*later.earlier_for(64)] == [Piece(20, 64), Piece(10, 128)]
    assert [*Checkpoint(STATE, 20, 128, [Piece(20, 64)]).earlier_for(64)] == [Piece(20, 64)]
    pieces = [Piece(5, 128), Piece(5, 192)]
    write_checkpoint(path, Checkpoint(STATE, 20, 64, pieces), TASK)
    assert read_checkpoint(path, TASK, 64).earlier_pieces == pieces


def test_what_is_measured_may_change(path):
    other = dataclasses.replace(TASK, steps=500, window_steps=7, threads=2, workers=4, deadline_seconds=9.0)
    assert read_checkpoint(path, other, 64).step == 20


@pytest.mark.parametrize(
    ("change", "batch", "said"),
    [
        ({"preset": "wide"}, 64, "preset digits, not wide"),
        ({"dimensions": (3, 5, 2)}, 64, "dimensions [3, 4, 2], not [3, 5, 2]"),
        ({"final_learning_rate": 0.05}, 64, "final_learning_rate None, not 0.05"),
        ({}, 128, "global_batch 64, not 128"),
    ],
)
def test_a_checkpoint_of_other_maths_or_batches_is_refused_with_both_values(path, refusal, change, batch, said):
    text = refusal(lambda: read_checkpoint(path, dataclasses.replace(TASK, **change), batch))
    assert str(path) in text
    assert said in text
    assert "delete it" in text


@pytest.mark.parametrize("steps", [20, 30])
def test_a_checkpoint_that_leaves_no_step_to_measure_is_refused(path, refusal, steps):
    text = refusal(lambda: read_checkpoint(path, dataclasses.replace(TASK, steps=steps), 64))
    assert "stands at step 20" in text
    assert "raise --steps" in text


def put_metadata(path, **changed):
    """Write the checkpoint again with other metadata, and without a digest, as files of before there were some."""
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() | changed
    del metadata["sha256"]
    save_file(STATE, path, metadata)


DAMAGES = {
    "without its end": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "of somebody else": lambda path: save_file({"layer0.weight": np.ones((2, 2), np.float32)}, path),
    "with one changed bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "with a step that is no number": lambda path: put_metadata(path, step="2x"),
    "with settings that are a list": lambda path: put_metadata(path, maths="[1]"),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_with_file_and_remedy(path, refusal, damage):
    damage(path)
    text = refusal(lambda: read_checkpoint(path, TASK, 64))
    assert f"{path} can't be read as a checkpoint" in text
    assert "delete it" in text


def test_a_checkpoint_of_before_there_were_digests_is_read(path):
    put_metadata(path)
    assert read_checkpoint(path, TASK, 64).step == 20
