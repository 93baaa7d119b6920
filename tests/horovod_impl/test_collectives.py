"""horovod_impl/collectives.py, started over Gloo and over MPI as a session of the laboratory starts it."""

import pytest

from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from tests.laboratory import assert_as_declared, assert_not_over_the_network, assert_sent_by_formula, measured

LARGEST = 2**20
SIZES = {"8": 8, "4K": 2**12, "1M": LARGEST}


@pytest.mark.parametrize(
    "library", [OVER_GLOO, pytest.param(OVER_MPI, marks=pytest.mark.grid)], ids=lambda library: library.name
)
def test_every_rank_gets_what_belongs_there_and_the_record_tells_what_carries(library, tmp_path):
    """Over Gloo as many bytes are sent as the formula says; over MPI ranks of a host send nothing over the network."""
    about, cells = measured(library, tmp_path, (*SIZES,))
    assert_as_declared(cells, library, SIZES.values())
    assert about["backend"] == ("gloo" if library is OVER_GLOO else "mpi")
    assert about["facts"]["HOROVOD_CYCLE_TIME"] == "not set, which means 1 ms"
    if library is OVER_GLOO:
        assert_sent_by_formula(cells, LARGEST)
    else:
        assert {cell.formula_bytes for cell in cells} == {None}
        assert_not_over_the_network(cells)
