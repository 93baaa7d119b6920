"""common/measurement/collective_calls.py: calls are timed, and each is checked, by a library made of NumPy."""

import dataclasses
import itertools
import time
from functools import partial

import numpy as np
import pytest

from common.contract.collective_meanings import MEANINGS, Collective
from common.declarations.library import Algorithm, Library
from common.declarations.strategy import PROCESS
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError
from common.measurement.collective_calls import Operation, measure
from common.measurement.world import World
from common.records.collective_times import Cell, arrival_seconds, cells_path, read_lines, transfer_seconds
from common.records.files import write_record
from common.records.trace import STEP, Message, Trace
from tests.changes import changed
from tests.common.conftest import NUMPY, OVERSUBSCRIBED, Processes

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


def cell_of(record):
    [line] = [line for line in read_lines(cells_path(record)) if "collective" in line]
    return Cell(**line)


def test_a_rank_that_comes_late_shows_as_arrival_and_not_as_transfer(tmp_path):
    processes, late_seconds = Processes(RANKS), 0.02
    sweep = Sweep(collectives=(Collective.ALL_REDUCE,), sizes=("8",), iterations=8, warmup_iterations=0, check=False)
    sweep = dataclasses.replace(sweep, record=tmp_path / "late.json")

    def call(rank):
        meet, calls = partial(processes.gather, rank), itertools.count()

        def barrier():
            meet(None)
            if next(calls) % 2 and rank == 1:
                time.sleep(late_seconds)

        world = World(pinning=OVERSUBSCRIBED, rank=rank, size=RANKS, all_gather=meet)
        waiting = Operation(load=lambda own: None, run=lambda: meet(None), results=list)
        measure(dataclasses.replace(LIBRARY, one_process=False), sweep, world, lambda *what: waiting, barrier, {})

    processes.play(call)
    cell = cell_of(sweep.record)
    _, late = arrival_seconds(cell)
    assert min(late[1::2]) > 0.9 * late_seconds
    # On a busy machine some calls take longer, and either rank may come later yet.
    assert min(late[0::2]) < late_seconds / 2
    assert min(transfer_seconds(cell)[1::2]) < late_seconds / 2


def prepare(collective, elements, sent, spoil=lambda sent: sent[-1][1]):
    """An operation of both ranks in one process, which notes in `sent` that it was called, and what that gives."""
    parts, results = [], []

    def run():
        sent.append((str(collective), [np.copy(MEANINGS[collective].results(parts, rank)) for rank in range(RANKS)]))
        results[:] = spoil(sent)

    def load(own):
        assert all(len(part) == elements for part in own)
        parts[:] = own

    return Operation(load, run, lambda: results)


def measured(folder, messages=tuple(MESSAGES), **how):
    """The cell, and the collectives in the order in which they were called."""
    trace = Trace(strategy="mine", workers=2, source="x", library="numpy", data_type="float32", messages=[*messages])
    path, record, sent = folder / "trace", folder / "replay.json", []
    write_record(path, trace)
    sweep = Sweep(messages=path, iterations=3, warmup_iterations=1, record=record)
    world = World(pinning=OVERSUBSCRIBED, size=RANKS)
    measure(LIBRARY, sweep, world, lambda *what: prepare(*what, sent, **how), lambda: None, {})
    return cell_of(record), [name for name, _ in sent]


def test_every_call_sends_all_messages_in_their_order_whose_formulas_add_up(tmp_path):
    cell, sent = measured(tmp_path)
    assert (cell.status, cell.collective, cell.size_bytes) == ("ok", STEP, 72)
    assert sent[:12] == 4 * ["all_reduce", "broadcast", "all_reduce"]
    assert [Message(**each) for each in cell.messages] == MESSAGES
    # Both ranks are in one process, whose times they share.
    assert [*map(len, cell.entered_seconds)] == [*map(len, cell.left_seconds)] == [3]
    assert (cell.formula_bytes, cell.algorithm) == (144.0, "a shift")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda sent: [result + (sent[-1][0] == "broadcast") for result in sent[-1][1]],
            "^NumPy: broadcast of 8 bytes among 2 ranks gave rank 0 2 of 2 elements wrong; element 0 is ",
        ),
        # The first message's result stands where the third one's belongs.
        (lambda sent: sent[-1 if len(sent) % 3 else -3][1], "all_reduce of 32 bytes"),
    ],
    ids=["one more in a broadcast", "that of a twin"],
)
def test_a_wrong_result_of_one_message_fails_the_step(tmp_path, spoil, said):
    with pytest.raises(LaunchFailedError, match=said):
        measured(tmp_path, spoil=spoil)
    assert cell_of(tmp_path / "replay.json").status == "failed"


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
    assert (cell.status, sent) == ("unsupported", [])
    assert said in cell.reason
