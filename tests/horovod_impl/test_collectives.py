"""horovod_impl/collectives.py, started over Gloo and over MPI as a session of the laboratory starts it."""

import pytest

from common.contract.collective_meanings import Collective
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from tests.laboratory import assert_as_declared, measured
from tests.launching import require_private_networks

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


@pytest.mark.parametrize("collective", [name for name in OVER_GLOO.collectives if name != Collective.BARRIER])
def test_over_gloo_as_many_bytes_are_sent_as_the_formula_says(collective, over_gloo):
    require_private_networks()
    [cell] = [each for each in over_gloo[1] if (each.collective, each.size_bytes) == (collective, LARGEST)]
    assert cell.sent_bytes == pytest.approx(cell.formula_bytes, rel=0.03)


def test_over_mpi_ranks_of_a_host_send_nothing_over_the_network_and_the_record_tells_what_carries(over_gloo, over_mpi):
    assert [about["backend"] for about, _ in (over_gloo, over_mpi)] == ["gloo", "mpi"]
    for about, _ in (over_gloo, over_mpi):
        assert about["facts"]["HOROVOD_CYCLE_TIME"] == "not set, which means 1 ms"
    require_private_networks()
    for cell in over_mpi[1]:
        assert cell.formula_bytes is None
        assert cell.status == "unsupported" or cell.sent_bytes < 100 + cell.size_bytes / 1000, cell
