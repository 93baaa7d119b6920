"""common/contract/rows.py: which rows each worker gets in every step, for any number of workers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import dataset
from common.contract.rows import Batch, Piece, RowOrder, Share, global_batch, share_of
from common.contract.task import Task
from common.contract.work import Work
from common.errors import UserError

ROWS, LOCAL_ROWS, WORLD_SIZES = st.integers(1, 60), st.integers(1, 20), st.integers(1, 8)
SEEDS, STEPS = st.integers(0, 2**32), st.integers(1, 12)


def global_batches(rows, batch, steps, seed):
    order = RowOrder(rows, seed)
    return [order.cut(step * batch, (step + 1) * batch) for step in range(steps)]


def sharded_batches(rows, local_rows, world_size, steps, seed):
    """Every step's shards, each rank with a row order of its own, as in processes of their own."""
    task = Task(batch=local_rows * world_size)
    shares = [share_of(task, Work.DATA_PARALLEL, True, rank, world_size) for rank in range(world_size)]
    return list(zip(*(share.rows(rows, seed, 0, steps) for share in shares), strict=True))


@given(ROWS, LOCAL_ROWS, WORLD_SIZES, STEPS, SEEDS)
def test_the_shards_of_all_ranks_laid_end_to_end_are_the_global_batch(rows, local_rows, world_size, steps, seed):
    expected = global_batches(rows, local_rows * world_size, steps, seed)
    for batch, shards in zip(expected, sharded_batches(rows, local_rows, world_size, steps, seed), strict=True):
        assert [len(shard) for shard in shards] == [local_rows] * world_size
        assert np.array_equal(np.concatenate(shards), batch)


@given(ROWS, st.integers(1, 90), st.integers(1, 5), SEEDS)
def test_every_row_comes_once_per_epoch_even_where_batches_straddle_epochs(rows, batch, epochs, seed):
    steps = -(-rows * epochs // batch)
    sequence = np.concatenate(global_batches(rows, batch, steps, seed))
    assert len(sequence) == steps * batch
    for epoch in sequence[: rows * epochs].reshape(epochs, rows):
        assert np.array_equal(np.sort(epoch), np.arange(rows))


@given(ROWS, st.lists(st.builds(Piece, STEPS, LOCAL_ROWS), max_size=4), LOCAL_ROWS, STEPS, SEEDS)
def test_batches_of_other_sizes_before_leave_no_row_out_and_take_none_twice(rows, pieces, batch, steps, seed):
    sequence, earlier = [], []
    for piece in [*pieces, Piece(steps, batch)]:
        first = sum(each.steps for each in earlier)
        share = Share(piece.global_batch, 0, piece.global_batch, earlier)
        sequence += share.rows(rows, seed, first, first + piece.steps)
        earlier = [*earlier, piece]
    positions = sum(piece.steps * piece.global_batch for piece in earlier)
    assert np.array_equal(np.concatenate(sequence), RowOrder(rows, seed).cut(0, positions))


@given(ROWS, st.lists(st.tuples(st.integers(0, 300), st.integers(1, 90)), min_size=1, max_size=8), SEEDS)
def test_a_cut_does_not_depend_on_the_cuts_before_it(rows, cuts, seed):
    order, longest = RowOrder(rows, seed), RowOrder(rows, seed).cut(0, 400)
    for start, length in cuts:
        assert np.array_equal(order.cut(start, start + length), longest[start : start + length])


def test_the_first_rows_of_seed_0_are_these_alone_and_a_share_goes_on_for_ever():
    epochs = [9, 1, 3, 8, 7, 6, 0, 4, 2, 5, 2, 7, 0, 4, 1, 6, 8, 9, 3, 5, 7, 9, 5, 1, 4]
    rows = RowOrder(10, 0).cut(0, 25)
    assert rows.tolist() == epochs
    assert rows.dtype == np.int64
    assert RowOrder(10, 1).cut(0, 25).tolist() != epochs
    endless = Share(8, 0, 8).rows(10, 0, 1000)
    assert all(np.array_equal(next(endless), batch) for batch in Share(8, 0, 8).rows(10, 0, 1000, 1100))


# What a process gets


@pytest.mark.parametrize("work", Work)
@pytest.mark.parametrize(("scaling", "size"), [("strong", 64), ("weak", 256)])
def test_a_data_parallel_worker_gets_a_slice_of_its_own_and_every_other_process_all_rows(work, scaling, size):
    shares = [share_of(Task(batch=64, scaling=scaling), work, True, rank, 4) for rank in range(4)]
    slices = [Share(size, rank * size // 4, size // 4) for rank in range(4)]
    assert shares == (slices if work is Work.DATA_PARALLEL else [Share(size, 0, size)] * 4)


def test_parts_of_one_model_and_workers_that_do_not_wait_need_not_divide_the_batch():
    assert share_of(Task(batch=64), Work.PARTS_OF_ONE_MODEL, True, 0, 3) == Share(64, 0, 64)
    assert share_of(Task(batch=63, scaling="weak"), Work.COORDINATED, False, 0, 2) == Share(63, 0, 63)


@given(st.integers(1, 500), st.integers(1, 40))
def test_the_sizes_that_a_refusal_names_do_divide_and_are_the_nearest(batch, workers):
    task = Task(batch=batch)
    if batch % workers == 0:
        assert global_batch(task, Work.DATA_PARALLEL, workers) == batch
        return
    with pytest.raises(UserError, match="--batch") as caught:
        share_of(task, Work.REPLICAS_IN_ONE_PROCESS, True, 0, workers)
    named = str(caught.value).partition("use --batch ")[2].partition(",")[0]
    nearest = [size for size in range(1, batch + workers + 1) if size % workers == 0 and abs(size - batch) < workers]
    assert [int(size) for size in named.split(" or ")] == nearest


# The rows of a batch


def test_a_batch_gathers_its_rows_when_it_is_asked_into_a_buffer_if_it_has_one():
    rows = dataset.load(Task())
    batch = Batch(7, np.array([5, 3, 3]), rows)
    assert np.array_equal(batch.features, rows.train_features[[5, 3, 3]])
    assert np.array_equal(batch.labels, rows.train_labels[[5, 3, 3]])
    buffer = (np.empty((2, 64), np.float32), np.empty(2, np.int64))
    for chosen in ([5, 3], [0, 1436]):
        batch = Batch(0, np.array(chosen), rows, buffer)
        assert np.shares_memory(batch.features, buffer[0])
        assert np.array_equal(buffer[0], rows.train_features[chosen])
        assert np.shares_memory(batch.labels, buffer[1])
        assert np.array_equal(buffer[1], rows.train_labels[chosen])
