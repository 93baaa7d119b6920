"""The messages of a step, sent one after another in each call and each checked, by a library made of NumPy."""

import time
from itertools import pairwise

import numpy as np
import pytest

from common.contract.collective_meanings import MEANINGS, Collective
from common.declarations.library import Algorithm, Library
from common.declarations.strategy import PROCESS
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError
from common.measurement.collective_calls import Operation, measure
from common.measurement.world import World
from common.records.collective_times import Cell, cells_path, read_lines
from common.records.files import write_record
from common.records.trace import STEP, Message, Trace
from tests.changes import changed
from tests.common.conftest import NUMPY, OVERSUBSCRIBED

RANKS = 2
TWICE = Algorithm("a shift", lambda size_bytes, ranks: 2.0 * size_bytes, "2 S", "a book")
LIBRARY = Library(
    name="numpy",
    title="NumPy",
    script="none.py",
    family=NUMPY,
    launcher=PROCESS,
    collectives=dict.fromkeys((Collective.ALL_REDUCE, Collective.BROADCAST), (TWICE,)),
    one_process=True,
)
MESSAGES = [
    Message(collective="all_reduce", size_bytes=32),
    Message(collective="broadcast", size_bytes=8),
    Message(collective="all_reduce", size_bytes=32),
]


def prepare(collective, elements, sent, spoil=lambda collective, results: results):
    """An operation of both ranks in one process, which notes in `sent` that it was called."""
    parts, results = [], []

    def run():
        sent.append(str(collective))
        found = [MEANINGS[collective].results(parts, rank) for rank in range(RANKS)]
        results[:] = spoil(collective, found)

    def load(own):
        assert all(len(part) == elements for part in own)
        parts[:] = own

    return Operation(load, run, lambda: results)


def measured(folder, messages=tuple(MESSAGES), pipelined=False, barrier=lambda: None, **how):
    """The cell, and the collectives in the order in which they were called."""
    trace = Trace(strategy="mine", workers=2, source="x", library="numpy", data_type="float32", messages=[*messages])
    path, record, sent = folder / "trace", folder / "replay.json", []
    write_record(path, trace)
    sweep = Sweep(messages=path, iterations=3, warmup_iterations=1, pipelined=pipelined, record=record)
    world = World(pinning=OVERSUBSCRIBED, size=RANKS)
    try:
        measure(LIBRARY, sweep, world, lambda *what: prepare(*what, sent, **how), barrier, {})
    finally:
        lines = [line for line in read_lines(cells_path(record)) if "collective" in line]
    [cell] = [Cell(**line) for line in lines]
    return cell, sent


def test_every_call_sends_all_messages_in_their_order_whose_formulas_add_up(tmp_path):
    cell, sent = measured(tmp_path)
    assert (cell.status, cell.collective, cell.size_bytes) == ("ok", STEP, 72)
    assert sent[:12] == 4 * ["all_reduce", "broadcast", "all_reduce"]
    assert [Message(**each) for each in cell.messages] == MESSAGES
    assert list(map(len, cell.entered_seconds)) == [3]
    assert cell.loop_calls == 1
    assert (cell.formula_bytes, cell.algorithm) == (144.0, "a shift")


def test_pipelined_steps_are_clocked_as_one_loop(tmp_path):
    cell, sent = measured(tmp_path, pipelined=True)
    assert (cell.status, cell.collective, cell.loop_calls) == ("ok", STEP, 3)
    # Both ranks are in one process, whose times they share.
    assert [*map(len, cell.entered_seconds), *map(len, cell.left_seconds)] == [1, 1]
    assert sent[:12] == 4 * ["all_reduce", "broadcast", "all_reduce"]


def test_the_wait_at_the_barrier_before_a_call_is_no_part_of_the_call(tmp_path):
    cell, _ = measured(tmp_path, barrier=lambda: time.sleep(0.02))
    [entered], [left] = cell.entered_seconds, cell.left_seconds
    assert all(end - begin < 0.02 for begin, end in zip(entered, left, strict=True))
    assert all(later - earlier >= 0.02 for earlier, later in pairwise(entered))


def test_a_wrong_result_of_one_message_fails_the_step(tmp_path):
    def spoil(collective, results):
        return [result + (collective == Collective.BROADCAST) for result in results]

    said = "^NumPy: broadcast of 8 bytes among 2 ranks gave rank 0 2 of 2 elements wrong; element 0 is "
    with pytest.raises(LaunchFailedError, match=said):
        measured(tmp_path, spoil=spoil)
    lines = [line for line in read_lines(cells_path(tmp_path / "replay.json")) if "collective" in line]
    assert [line["status"] for line in lines] == ["failed"]


def test_a_message_in_place_of_its_twin_is_noticed(tmp_path):
    kept = []

    def swap(collective, results):
        # What the first all-reduce gave stands where the second one's result belongs.
        if collective == Collective.ALL_REDUCE:
            kept.append([np.copy(result) for result in results])
            return kept[-2] if len(kept) % 2 == 0 else results
        return results

    with pytest.raises(LaunchFailedError, match="all_reduce of 32 bytes"):
        measured(tmp_path, spoil=swap)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"collective": "gather", "size_bytes": 8}, "has no gather"),
        ({"size_bytes": 6}, "can't be divided"),
        ({"collective": "broadcast", "backwards": True}, "from the last rank to the first one"),
    ],
)
def test_a_step_with_a_message_that_can_not_be_sent_is_unsupported(tmp_path, change, said):
    cell, sent = measured(tmp_path, messages=[*MESSAGES, changed(MESSAGES[0], **change)])
    assert cell.status == "unsupported"
    assert said in cell.reason
    assert sent == []
