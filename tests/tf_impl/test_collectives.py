"""tf_impl/collectives.py and tf_impl/reductions.py, started as a session of the laboratory starts them."""

import sys

import pytest

from common.launching.launch import python_for
from tests.conftest import run_command
from tests.laboratory import assert_as_declared, assert_nothing_sent, assert_sent_by_formula, measured
from tf_impl.libraries import COLLECTIVES, HIERARCHICAL_COPY, MIRRORED_COLLECTIVES, REDUCTION, REDUCTION_TO_ONE_DEVICE

LARGEST = 2**20
SIZES = {"8": 8, "4K": 2**12, "1M": LARGEST}


def test_over_grpc_every_rank_gets_what_belongs_there_and_as_many_bytes_are_sent_as_the_formula_says(tmp_path):
    _, cells = measured(COLLECTIVES, tmp_path, (*SIZES,))
    assert_as_declared(cells, COLLECTIVES, SIZES.values())
    assert_sent_by_formula(cells, LARGEST)


@pytest.mark.parametrize(
    ("library", "devices"),
    [
        (REDUCTION_TO_ONE_DEVICE, 2),
        pytest.param(HIERARCHICAL_COPY, 4, marks=pytest.mark.grid),
        pytest.param(MIRRORED_COLLECTIVES, 2, marks=pytest.mark.grid),
    ],
    ids=["reduction to one device", "hierarchical copy", "collectives"],
)
def test_devices_of_one_process_get_what_belongs_there_and_send_nothing(library, devices, tmp_path):
    assert library.variables == {REDUCTION: library.name}
    _, cells = measured(library, tmp_path, (*SIZES,), devices)
    assert_as_declared(cells, library, SIZES.values(), clocks=1)
    assert_nothing_sent(cells)


def test_an_odd_number_of_devices_is_refused_where_the_last_would_be_left_out():
    python_for(HIERARCHICAL_COPY)
    command = [sys.executable, "-m", "common.launching.launch", HIERARCHICAL_COPY.name, "--workers", "3"]
    _, output = run_command(command)
    assert "lockstep: --workers 3: HierarchicalCopyAllReduce adds two halves" in output
