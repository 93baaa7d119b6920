"""tf_impl/collectives.py and tf_impl/reductions.py, started as a session of the laboratory starts them."""

import sys

import pytest

from common.launching.launch import python_for
from common.records.collective_times import Cell
from tests.conftest import run_command
from tests.laboratory import assert_as_declared, assert_sent_by_formula, measured
from tf_impl.libraries import (
    COLLECTIVES,
    HIERARCHICAL_COPY,
    MIRRORED_COLLECTIVES,
    REDUCTION,
    REDUCTION_TO_ONE_DEVICE,
)

LARGEST = 2**20
LIBRARIES = (COLLECTIVES, REDUCTION_TO_ONE_DEVICE, HIERARCHICAL_COPY, MIRRORED_COLLECTIVES)


@pytest.fixture(scope="module")
def over_grpc(tmp_path_factory) -> list[Cell]:
    """What two processes measured."""
    return measured(COLLECTIVES, tmp_path_factory.mktemp("over_grpc"), ("8", "4K", "1M"))[1]


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory) -> list[Cell]:
    """What two devices of one process measured."""
    return measured(REDUCTION_TO_ONE_DEVICE, tmp_path_factory.mktemp("in_one_process"), ("8", "4K", "1M"))[1]


def test_every_rank_gets_what_belongs_there_and_a_script_its_librarys_name(over_grpc, in_one_process):
    assert_as_declared(over_grpc, COLLECTIVES, (8, 2**12, LARGEST))
    assert_as_declared(in_one_process, REDUCTION_TO_ONE_DEVICE, (8, 2**12, LARGEST), clocks=1)
    for library in LIBRARIES[1:]:
        assert library.variables == {REDUCTION: library.name}


@pytest.mark.grid
@pytest.mark.parametrize("library", [HIERARCHICAL_COPY, MIRRORED_COLLECTIVES], ids=lambda library: library.name)
def test_the_other_ways_to_add_in_one_process_give_every_device_what_belongs_there(library, tmp_path):
    assert_as_declared(measured(library, tmp_path, ("4K",), 4)[1], library, [2**12], clocks=1)


def test_an_odd_number_of_devices_is_refused_where_the_last_would_be_left_out():
    python_for(HIERARCHICAL_COPY)
    command = [sys.executable, "-m", "common.launching.launch", HIERARCHICAL_COPY.name, "--workers", "3"]
    _, output = run_command(command)
    assert "lockstep: --workers 3: HierarchicalCopyAllReduce adds two halves" in output


def test_as_many_bytes_are_sent_as_the_formula_says_and_in_one_process_none(over_grpc, in_one_process):
    assert_sent_by_formula(over_grpc, LARGEST)
    assert {(cell.sent_bytes, cell.formula_bytes) for cell in in_one_process if cell.status == "ok"} == {(0.0, 0.0)}
