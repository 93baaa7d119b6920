"""common/contract/checkpoint.py: a state comes back bit for bit, or the file is refused with cause and remedy."""

import dataclasses
import json

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
    checkpoint = read_checkpoint(path, TASK, 64)
    assert (checkpoint.step, checkpoint.global_batch) == (20, 64)
    assert set(checkpoint.state) == set(STATE)
    for name, value in STATE.items():
        assert checkpoint.state[name].dtype == np.float32
        assert np.array_equal(checkpoint.state[name], value)
    transposed = {name: np.asfortranarray(value) for name, value in STATE.items()}
    write_checkpoint(path, Checkpoint(transposed, 20, 64), TASK)
    restored = read_checkpoint(path, TASK, 64).state
    assert all(np.array_equal(restored[name], value) for name, value in STATE.items())


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


def test_a_checkpoint_of_another_global_batch_is_refused_and_only_what_is_measured_may_change(path, refusal):
    other = dataclasses.replace(TASK, steps=500, window_steps=7, threads=2, workers=4, deadline_seconds=9.0)
    assert read_checkpoint(path, other, 64).step == 20
    assert "global_batch 64, not 128" in refusal(lambda: read_checkpoint(path, TASK, 128))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"preset": "wide"}, "preset digits, not wide"),
        ({"dimensions": (3, 5, 2)}, "dimensions [3, 4, 2], not [3, 5, 2]"),
        ({"activation": "tanh"}, "activation relu, not tanh"),
        ({"bias": False}, "bias True, not False"),
        ({"learning_rate": 0.2}, "learning_rate 0.1, not 0.2"),
        ({"final_learning_rate": 0.05}, "final_learning_rate None, not 0.05"),
        ({"decay_steps": 7}, "decay_steps 1000, not 7"),
        ({"momentum": 0.8}, "momentum 0.9, not 0.8"),
        ({"weight_decay": 0.01}, "weight_decay 0.0, not 0.01"),
        ({"seed": 1}, "seed 0, not 1"),
    ],
)
def test_a_checkpoint_of_other_maths_is_refused_with_both_values(path, refusal, change, said):
    text = refusal(lambda: read_checkpoint(path, dataclasses.replace(TASK, **change), 64))
    assert str(path) in text
    assert said in text
    assert "delete it" in text


@pytest.mark.parametrize("steps", [20, 29, 30])
def test_a_checkpoint_that_leaves_no_step_to_measure_is_refused(path, refusal, steps):
    text = refusal(lambda: read_checkpoint(path, dataclasses.replace(TASK, steps=steps), 64))
    assert "stands at step 20" in text
    assert "raise --steps" in text


def replace_maths(content, maths):
    """The checkpoint with other settings in its header, whose length comes first."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["maths"] = maths
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded + content[8 + length :]


DAMAGES = {
    "empty": lambda content: b"",
    "only its beginning": lambda content: content[:4],
    "without its end": lambda content: content[:-10],
    "not safetensors": lambda content: b"not safetensors at all",
    "a step that is no number": lambda content: content.replace(b'"step":"20"', b'"step":"2x"'),
    "settings that are no JSON": lambda content: replace_maths(content, "{"),
    "settings that are a list": lambda content: replace_maths(content, "[]"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_with_file_and_remedy(path, refusal, damage):
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert path.read_bytes() != content
    text = refusal(lambda: read_checkpoint(path, TASK, 64))
    assert str(path) in text
    assert "delete it" in text


@pytest.mark.parametrize("place", [-1, -40])
def test_one_changed_bit_of_a_weight_is_told_by_the_digest(path, refusal, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert "its digest is of another content" in refusal(lambda: read_checkpoint(path, TASK, 64))


def test_a_checkpoint_of_before_there_were_digests_is_read(path):
    with safe_open(path, framework="numpy") as file:
        metadata = {name: value for name, value in file.metadata().items() if name != "sha256"}
    save_file(STATE, path, metadata)
    assert read_checkpoint(path, TASK, 64).step == 20


def test_a_checkpoint_that_cannot_be_written_leaves_nothing_behind(tmp_path, refusal):
    (tmp_path / "file").touch()
    below_a_file = tmp_path / "file" / "state.safetensors"
    assert str(below_a_file) in refusal(lambda: write_checkpoint(below_a_file, Checkpoint(STATE, 20, 64), TASK))
    taken = tmp_path / "taken"
    taken.mkdir()
    refusal(lambda: write_checkpoint(taken, Checkpoint(STATE, 20, 64), TASK))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken"]


def test_what_is_no_checkpoint_is_refused(path, tmp_path, refusal):
    save_file({"layer0.weight": np.ones((2, 2), np.float32)}, path)
    assert "can't be read as a checkpoint" in refusal(lambda: read_checkpoint(path, TASK, 64))
    for other in (tmp_path / "missing", tmp_path):
        assert str(other) in refusal(lambda other=other: read_checkpoint(other, TASK, 64))
