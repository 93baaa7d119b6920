"""common/contract/oracle_cache.py: what is read back is what was computed, and what is damaged is computed anew."""

import dataclasses

import numpy as np
import pytest

from common.contract import oracle, oracle_cache
from common.contract.oracle import run_oracle
from common.contract.rows import Piece
from common.contract.task import Task

TASK = Task(steps=10, warmup_steps=5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lockstep" / "oracles"


@pytest.fixture
def computed(monkeypatch):
    """The arguments of each oracle that was computed and not read, in order."""
    calls = []

    def run(*arguments, **named):
        calls.append((arguments, named))
        return run_oracle(*arguments, **named)

    monkeypatch.setattr(oracle, "run_oracle", run)
    return calls


def losses_of(task=TASK, global_batch=64, steps=10, with_state=False, **named):
    return oracle_cache.of_batch(task, global_batch, steps, with_state, **named).losses


@pytest.mark.parametrize("pieces", [[], [Piece(4, 128)]], ids=["batches alike", "batches of another size before"])
def test_an_oracle_is_read_back_in_every_digit(folder, computed, pieces):
    expected = run_oracle(TASK, 64, 10, earlier_pieces=pieces)
    for _ in range(2):
        found = oracle_cache.of_batch(TASK, 64, 10, with_state=True, earlier_pieces=pieces)
        assert np.array_equal(found.losses, expected.losses, equal_nan=True)
        assert np.array_equal(found.shard_losses(2), expected.shard_losses(2), equal_nan=True)
        assert set(found.state) == set(expected.state)
        assert all(np.array_equal(found.state[name], value) for name, value in expected.state.items())
    assert len(computed) == 1
    assert oracle_cache.of_batch(TASK, 64, 10, with_state=False, earlier_pieces=pieces).state == {}


def test_what_decides_an_oracle_makes_another_file(folder, computed, monkeypatch):
    changes = [
        *({}, {"task": dataclasses.replace(TASK, seed=1)}, {"global_batch": 32}, {"steps": 9}, {"with_state": True}),
        {"earlier_pieces": [Piece(4, 128)]},
    ]
    for change in changes:
        losses_of(**change)
    monkeypatch.setattr(oracle_cache, "_code_digest", lambda: "other code")
    losses_of()
    monkeypatch.setattr(oracle_cache, "data_digest", lambda maths: "other rows")
    losses_of()
    assert len(computed) == len([*folder.iterdir()]) == len(changes) + 2


@pytest.mark.parametrize("position", [0, 64, 70, -1])
def test_a_damaged_file_is_computed_anew_and_mended(folder, computed, position):
    expected = losses_of()
    [path] = folder.iterdir()
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert losses_of() == losses_of() == expected
    assert len(computed) == 2


def test_where_the_cache_cannot_be_written_an_oracle_is_computed_all_the_same(folder, computed):
    oracle_cache.data_digest(TASK)
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file where the folder would be")
    assert losses_of() == losses_of()
    assert len(computed) == 2
