"""horovod_impl/collectives.py, started over Gloo and over MPI as a session of the laboratory starts it."""

import pytest

from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from tests.laboratory import assert_as_declared, assert_not_over_the_network, assert_sent_by_formula, measured

LARGEST = 2**20
SIZES = {"8": 8, "4K": 2**12, "1M": LARGEST}


@pytest.fixture(scope="module")
def over_gloo(tmp_path_factory):
    return measured(OVER_GLOO, tmp_path_factory.mktemp("over_gloo"), (*SIZES,))


@pytest.fixture(scope="module")
def over_mpi(tmp_path_factory):
    return measured(OVER_MPI, tmp_path_factory.mktemp("over_mpi"), (*SIZES,))


def test_every_rank_gets_what_belongs_there_and_horovod_names_what_it_lacks(over_gloo, over_mpi):
    assert_as_declared(over_gloo[1], OVER_GLOO, SIZES.values())
    assert_as_declared(over_mpi[1], OVER_MPI, SIZES.values())


def test_over_gloo_as_many_bytes_are_sent_as_the_formula_says(over_gloo):
    assert_sent_by_formula(over_gloo[1], LARGEST)


def test_over_mpi_ranks_of_a_host_send_nothing_over_the_network_and_the_record_tells_what_carries(over_gloo, over_mpi):
    for (about, _), backend in ((over_gloo, "gloo"), (over_mpi, "mpi")):
        assert about["backend"] == backend
        assert about["facts"]["HOROVOD_CYCLE_TIME"] == "not set, which means 1 ms"
    assert {cell.formula_bytes for cell in over_mpi[1]} == {None}
    assert_not_over_the_network(over_mpi[1])
