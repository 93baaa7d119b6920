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
    """The names of the oracles' functions that were called, in order."""
    calls = []

    def counted(name, function):
        def call(*arguments, **named):
            calls.append(name)
            return function(*arguments, **named)

        return call

    monkeypatch.setattr(oracle, "run_oracle", counted("run_oracle", run_oracle))
    return calls


def assert_same_states(states, expected):
    for state, other in zip(states, expected, strict=True):
        assert all(np.array_equal(state[name], other[name]) for name in other)


def test_an_oracle_with_batches_of_other_sizes_before_is_kept_apart(folder, computed):
    pieces = [Piece(4, 128)]
    expected = run_oracle(TASK, 64, 10, earlier_pieces=pieces)
    for _ in range(2):
        read = oracle_cache.of_batch(TASK, 64, 10, with_state=True, earlier_pieces=pieces)
        assert np.array_equal(read.losses, expected.losses, equal_nan=True)
        assert_same_states([read.state], [expected.state])
    assert oracle_cache.of_batch(TASK, 64, 10, with_state=True).losses != expected.losses
    assert computed == ["run_oracle"] * 2


def test_an_oracle_is_read_back_in_every_digit(folder, computed):
    expected = run_oracle(TASK, 64, 10)
    for _ in range(2):
        found = oracle_cache.of_batch(TASK, 64, 10, with_state=True)
        assert found.losses == expected.losses
        assert np.array_equal(found.shard_losses(2), expected.shard_losses(2))
        assert_same_states([found.state], [expected.state])
    assert computed == ["run_oracle"]
    assert oracle_cache.of_batch(TASK, 64, 10, with_state=False).state == {}


def test_what_decides_an_oracle_makes_another_file(folder, computed, monkeypatch):
    oracle_cache.of_batch(TASK, 64, 10, with_state=False)
    oracle_cache.of_batch(dataclasses.replace(TASK, seed=1), 64, 10, with_state=False)
    oracle_cache.of_batch(TASK, 32, 10, with_state=False)
    oracle_cache.of_batch(TASK, 64, 9, with_state=False)
    oracle_cache.of_batch(TASK, 64, 10, with_state=True)
    monkeypatch.setattr(oracle_cache, "_code_digest", lambda: "other code")
    oracle_cache.of_batch(TASK, 64, 10, with_state=False)
    monkeypatch.setattr(oracle_cache, "data_digest", lambda maths: "other rows")
    oracle_cache.of_batch(TASK, 64, 10, with_state=False)
    assert computed == ["run_oracle"] * 7
    assert len([*folder.iterdir()]) == 7


@pytest.mark.parametrize("position", [0, 64, 70, -1])
def test_a_damaged_file_is_computed_anew_and_mended(folder, computed, position):
    expected = oracle_cache.of_batch(TASK, 64, 10, with_state=False)
    [path] = folder.iterdir()
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        assert oracle_cache.of_batch(TASK, 64, 10, with_state=False).losses == expected.losses
    assert computed == ["run_oracle"] * 2


def test_a_file_of_another_oracle_under_this_ones_name_is_not_read(folder, computed):
    oracle_cache.of_batch(TASK, 64, 10, with_state=False)
    [path] = folder.iterdir()
    oracle_cache.of_batch(TASK, 32, 10, with_state=False)
    [other] = set(folder.iterdir()) - {path}
    path.write_bytes(other.read_bytes())
    oracle_cache.of_batch(TASK, 64, 10, with_state=False)
    assert computed == ["run_oracle"] * 3


def test_where_the_cache_cannot_be_written_an_oracle_is_computed_all_the_same(folder, computed):
    oracle_cache.data_digest(TASK)
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file where the folder would be")
    for _ in range(2):
        assert len(oracle_cache.of_batch(TASK, 64, 10, with_state=False).losses) == 10
    assert computed == ["run_oracle"] * 2
