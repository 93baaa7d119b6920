"""pytorch_impl/collectives.py and collectives_mpi.py, started as a session of the laboratory starts them."""

import sys

import pytest

from common.contract.collective_meanings import Collective
from common.launching import exit_cause
from common.launching.launch import python_for
from common.records.collective_times import Cell, cells_path, read_lines
from common.records.files import from_json, write_record
from common.records.trace import STEP, Message, Trace
from pytorch_impl.libraries import GLOO, LIBRARY, NCCL, OPEN_MPI, gloo_reduce_bytes
from tests.conftest import DEADLINE_SECONDS, run_command
from tests.laboratory import CALLS, measured
from tests.launching import require_private_networks

MIB = 2**20
SIZES = {"8": 8, "4K": 2**12, "1M": MIB, "8M": 8 * MIB}


@pytest.fixture(scope="module")
def over_gloo(tmp_path_factory):
    return measured(GLOO, tmp_path_factory.mktemp("over_gloo"), (*SIZES,))


@pytest.fixture(scope="module")
def over_mpi(tmp_path_factory):
    return measured(OPEN_MPI, tmp_path_factory.mktemp("over_mpi"), (*SIZES,))


@pytest.fixture(params=["over_gloo", "over_mpi"])
def cells(request) -> list[Cell]:
    """What either library measured."""
    return request.getfixturevalue(request.param)[1]


@pytest.mark.parametrize("library", [GLOO, NCCL, OPEN_MPI], ids=lambda library: library.name)
def test_every_library_has_every_collective(library):
    assert {*library.collectives} == {*Collective}
    assert not library.lacks


@pytest.mark.parametrize("library", [GLOO, NCCL], ids=lambda library: library.name)
def test_the_script_that_two_libraries_share_is_told_which_it_is(library):
    assert library.variables == {LIBRARY: library.name}


def test_every_rank_gets_what_belongs_there_at_every_size(cells):
    # The results are checked in the launch, which ends where one is wrong.
    assert {cell.status for cell in cells} == {"ok"}
    sizes = {name: [cell.size_bytes for cell in cells if cell.collective == name] for name in Collective}
    assert sizes == {name: [0] if name == Collective.BARRIER else [*SIZES.values()] for name in Collective}


def test_every_call_of_every_rank_is_kept(cells):
    for cell in cells:
        assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 4 * [CALLS]


@pytest.mark.parametrize("collective", [name for name in Collective if name != Collective.BARRIER])
def test_over_gloo_as_many_bytes_are_sent_as_the_formula_says(collective, over_gloo):
    require_private_networks()
    large = [cell for cell in over_gloo[1] if cell.collective == collective and cell.size_bytes >= MIB]
    # Where several ranks send to one, a busy kernel drops segments, which are sent again: up to 10 % more was seen.
    assert all(0.99 < cell.sent_bytes / cell.formula_bytes < 1.15 for cell in large), large


def test_over_mpi_ranks_of_a_host_send_nothing_over_the_network(over_mpi):
    require_private_networks()
    assert {cell.formula_bytes for cell in over_mpi[1]} == {None}
    for cell in over_mpi[1]:
        assert cell.sent_bytes < 100 + cell.size_bytes / 1000, cell


def test_the_record_tells_what_carries(over_gloo, over_mpi):
    assert (over_gloo[0]["backend"], over_gloo[0]["device"]) == ("gloo", "cpu")
    assert over_gloo[0]["facts"]["network interface"] == "lo"
    assert (over_mpi[0]["backend"], over_mpi[0]["device"]) == ("mpi, shared memory", "cpu")
    assert over_mpi[0]["facts"]["library"].startswith("Open MPI v")


@pytest.mark.parametrize(
    ("size", "ranks", "factor"), [(MIB, 2, 1.5), (4 * MIB, 2, 1.5), (8 * MIB, 2, 2.0), (MIB, 4, 3.75), (MIB, 3, 8 / 3)]
)
def test_the_formula_of_gloos_reduce_counts_the_sums_that_go_too_far(size, ranks, factor):
    assert gloo_reduce_bytes(size, ranks) == pytest.approx(factor * size)


@pytest.mark.parametrize("library", [GLOO, OPEN_MPI], ids=lambda library: library.name)
def test_the_messages_of_a_step_are_sent_in_both_directions(library, tmp_path):
    python_for(library)
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
    command = [sys.executable, "-m", "common.launching.launch", library.name, *few, "--record", str(record)]
    status, output = run_command(command)
    assert status == 0, output
    [cell] = [from_json(line, Cell) for line in read_lines(cells_path(record)) if "collective" in line]
    assert (cell.status, cell.collective, cell.size_bytes) == ("ok", STEP, 7168)
    assert cell.messages == messages
    assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 4 * [2]


def test_a_result_with_one_wrong_element_ends_the_launch_with_one_line(tmp_path):
    python_for(GLOO)
    command = [sys.executable, "-m", "common.launching.launch", "--runner", "tests.pytorch_impl.wrong_sum", GLOO.name]
    record = tmp_path / "gloo.json"
    sweep = ["--workers", "2", "--sizes", "4K", "--iterations", "2", "--collectives", "broadcast", "all_reduce"]
    status, output = run_command([*command, *sweep, "--record", str(record)])
    ended = exit_cause.read(status, DEADLINE_SECONDS, output)
    assert ended.status == "failed", output
    assert ended.reason.startswith(
        "torch.distributed over Gloo: all_reduce of 4,096 bytes among 2 ranks gave rank 1 1 of 1,024 elements wrong; "
        "element 1023 is "
    )
    assert {line for line in output.splitlines() if "lockstep: " in line} == {f"lockstep: failed: {ended.reason}"}
    kept = [line for line in read_lines(cells_path(record)) if "collective" in line]
    assert [line["status"] for line in kept] == ["ok", "failed"]
