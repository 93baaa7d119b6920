"""horovod_impl/collectives.py, started over Gloo and over MPI as a session of the laboratory starts it."""

import pytest

from common.contract.collective_meanings import Collective
from common.records.collective_times import Cell
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from tests.laboratory import CALLS, measured
from tests.launching import require_private_networks

LARGEST = 2**20
SIZES = {"8": 8, "4K": 2**12, "1M": LARGEST}


@pytest.fixture(scope="module")
def over_gloo(tmp_path_factory):
    return measured(OVER_GLOO, tmp_path_factory.mktemp("over_gloo"), (*SIZES,))


@pytest.fixture(scope="module")
def over_mpi(tmp_path_factory):
    return measured(OVER_MPI, tmp_path_factory.mktemp("over_mpi"), (*SIZES,))


@pytest.fixture(params=["over_gloo", "over_mpi"])
def cells(request) -> list[Cell]:
    """What either library measured."""
    return request.getfixturevalue(request.param)[1]


@pytest.mark.parametrize("library", [OVER_GLOO, OVER_MPI], ids=lambda library: library.name)
def test_a_library_has_each_collective_or_says_why_not(library):
    assert {*library.collectives} | {*library.lacks} == {*Collective}
    assert not {*library.collectives} & {*library.lacks}


def test_every_rank_gets_what_belongs_there_and_horovod_names_what_it_lacks(cells):
    # The results are checked in the launch, which ends where one is wrong.
    for cell in cells:
        reason = OVER_GLOO.lacks.get(cell.collective)
        assert (cell.status, cell.reason) == ("unsupported" if reason else "ok", reason), cell
    done = {(cell.collective, cell.size_bytes) for cell in cells if cell.status == "ok"}
    sized = [name for name in OVER_GLOO.collectives if name != Collective.BARRIER]
    assert done == {(name, size) for name in sized for size in SIZES.values()} | {(Collective.BARRIER, 0)}


def test_every_call_of_every_rank_is_kept(cells):
    for cell in cells:
        if cell.status == "ok":
            assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 4 * [CALLS]


@pytest.mark.parametrize("collective", [name for name in OVER_GLOO.collectives if name != Collective.BARRIER])
def test_over_gloo_as_many_bytes_are_sent_as_the_formula_says(collective, over_gloo):
    require_private_networks()
    [cell] = [each for each in over_gloo[1] if (each.collective, each.size_bytes) == (collective, LARGEST)]
    assert cell.sent_bytes == pytest.approx(cell.formula_bytes, rel=0.03)


def test_over_mpi_ranks_of_a_host_send_nothing_over_the_network(over_mpi):
    require_private_networks()
    for cell in over_mpi[1]:
        assert cell.formula_bytes is None
        assert cell.status == "unsupported" or cell.sent_bytes < 100 + cell.size_bytes / 1000, cell


def test_the_record_tells_what_carries_and_how_long_a_cycle_is(over_gloo, over_mpi):
    assert [about["backend"] for about, _ in (over_gloo, over_mpi)] == ["gloo", "mpi"]
    for about, _ in (over_gloo, over_mpi):
        assert about["facts"]["HOROVOD_CYCLE_TIME"] == "not set, which means 1 ms"
