"""pytorch_impl/collectives.py and collectives_mpi.py, started as a session of the laboratory starts them."""

import pytest

from common.records.collective_times import Cell, cells_path, read_lines
from common.records.files import from_json, write_record
from common.records.trace import STEP, Message, Trace
from pytorch_impl.libraries import GLOO, LIBRARY, NCCL, OPEN_MPI, gloo_reduce_bytes
from tests.laboratory import (
    assert_as_declared,
    assert_not_over_the_network,
    assert_sent_by_formula,
    launched,
    measured,
)

MIB = 2**20
SIZES = {"8": 8, "4K": 2**12, "1M": MIB, "8M": 8 * MIB}


@pytest.fixture(scope="module")
def over_gloo(tmp_path_factory):
    return measured(GLOO, tmp_path_factory.mktemp("over_gloo"), (*SIZES,))


@pytest.fixture(scope="module")
def over_mpi(tmp_path_factory):
    return measured(OPEN_MPI, tmp_path_factory.mktemp("over_mpi"), (*SIZES,))


def test_every_rank_gets_what_belongs_there_at_every_size(over_gloo, over_mpi):
    assert_as_declared(over_gloo[1], GLOO, SIZES.values())
    assert_as_declared(over_mpi[1], OPEN_MPI, SIZES.values())
    assert not {**GLOO.lacks, **OPEN_MPI.lacks, **NCCL.lacks}
    # The script that two libraries share is told which of them it is.
    assert [library.variables for library in (GLOO, NCCL)] == [{LIBRARY: GLOO.name}, {LIBRARY: NCCL.name}]


def test_the_record_tells_what_carries_and_over_gloo_as_many_bytes_are_sent_as_the_formula_says(over_gloo, over_mpi):
    assert (over_gloo[0]["backend"], over_gloo[0]["device"]) == ("gloo", "cpu")
    assert over_gloo[0]["facts"]["network interface"] == "lo"
    # Where several ranks send to one, a busy kernel drops segments, which are sent again: up to 10 % more was seen.
    assert_sent_by_formula(over_gloo[1], MIB, most=1.15)
    assert (over_mpi[0]["backend"], over_mpi[0]["device"]) == ("mpi, shared memory", "cpu")
    assert over_mpi[0]["facts"]["library"].startswith("Open MPI v")
    assert {cell.formula_bytes for cell in over_mpi[1]} == {None}
    assert_not_over_the_network(over_mpi[1])


@pytest.mark.parametrize(
    ("size", "ranks", "factor"), [(MIB, 2, 1.5), (4 * MIB, 2, 1.5), (8 * MIB, 2, 2.0), (MIB, 4, 3.75), (MIB, 3, 8 / 3)]
)
def test_the_formula_of_gloos_reduce_counts_the_sums_that_go_too_far(size, ranks, factor):
    assert gloo_reduce_bytes(size, ranks) == pytest.approx(factor * size)


@pytest.mark.parametrize("library", [GLOO, OPEN_MPI], ids=lambda library: library.name)
def test_the_messages_of_a_step_are_sent_in_both_directions(library, tmp_path):
    path, record = tmp_path / "trace", tmp_path / "replay.json"
    # Of sizes that no other one has: a message that went elsewhere would be wrong, and end the launch.
    messages = [
        Message(collective="send_receive", size_bytes=4096),
        Message(collective="send_receive", size_bytes=1024, backwards=True),
        Message(collective="all_reduce", size_bytes=2048),
    ]
    trace = Trace(strategy="mine", workers=2, source="x", library=library.name, data_type="float32", messages=messages)
    write_record(path, trace)
    few = ["--workers", "2", "--iterations", "2", "--warmup-iterations", "0", "--messages", str(path)]
    launched(library, record, *few)
    [cell] = [from_json(line, Cell) for line in read_lines(cells_path(record)) if "collective" in line]
    assert (cell.status, cell.collective, cell.size_bytes) == ("ok", STEP, 7168)
    assert cell.messages == messages
    assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 4 * [2]
