"""tf_impl/collectives.py and tf_impl/reductions.py, started as a session of the laboratory starts them."""

import subprocess

import pytest

from common.contract.collective_meanings import Collective
from common.declarations.library import Library
from common.launching.launch import python_for
from common.paths import ROOT
from common.records.collective_times import Cell
from tests.laboratory import CALLS, measured
from tests.launching import require_private_networks
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


def assert_declared(cells: list[Cell], library: Library) -> None:
    """Fail unless the library measured at every size what it declares, and of the rest said why it can't."""
    for cell in cells:
        if cell.collective in library.collectives:
            assert cell.status == "ok", cell
        else:
            assert (cell.status, cell.reason) == ("unsupported", library.lacks[cell.collective])
    measured = {(cell.collective, cell.size_bytes) for cell in cells if cell.status == "ok"}
    assert measured == {(collective, size) for collective in library.collectives for size in (8, 2**12, LARGEST)}


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_a_library_has_each_collective_or_says_why_not(library):
    assert {*library.collectives} | {*library.lacks} == {*Collective}
    assert not {*library.collectives} & {*library.lacks}


def test_a_script_in_one_process_is_told_its_library_by_name():
    for library in LIBRARIES[1:]:
        assert library.variables == {REDUCTION: library.name}


def test_tensorflow_gives_every_rank_what_belongs_there_and_names_what_it_lacks(over_grpc):
    assert_declared(over_grpc, COLLECTIVES)


def test_one_device_gives_every_other_what_belongs_there_and_names_what_it_lacks(in_one_process):
    assert_declared(in_one_process, REDUCTION_TO_ONE_DEVICE)


def test_every_call_of_every_rank_is_kept(over_grpc):
    for cell in over_grpc:
        if cell.status == "ok":
            assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 4 * [CALLS]


def test_the_calls_of_one_process_are_kept_once_for_all_its_ranks(in_one_process):
    for cell in in_one_process:
        if cell.status == "ok":
            assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 2 * [CALLS]


@pytest.fixture(scope="module")
def said_of_other_ways() -> list[str]:
    """What the other ways to add in one process give, and what is refused, line by line."""
    command = [str(python_for(HIERARCHICAL_COPY)), "tests/tf_impl/sums_alone.py"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_the_other_ways_to_add_in_one_process_give_every_device_what_belongs_there(said_of_other_ways):
    assert said_of_other_ways[:2] == [f"{library.name} True" for library in (HIERARCHICAL_COPY, MIRRORED_COLLECTIVES)]


def test_an_odd_number_of_devices_is_refused_where_the_last_would_be_left_out(said_of_other_ways):
    [refusal] = said_of_other_ways[2:]
    assert refusal.startswith("--workers 3: HierarchicalCopyAllReduce adds two halves")
    assert refusal.endswith("give an even number.")


@pytest.mark.parametrize("collective", COLLECTIVES.collectives)
def test_as_many_bytes_are_sent_as_the_formula_says(collective, over_grpc):
    require_private_networks()
    [cell] = [each for each in over_grpc if (each.collective, each.size_bytes) == (collective, LARGEST)]
    assert cell.sent_bytes == pytest.approx(cell.formula_bytes, rel=0.03)


def test_devices_of_one_process_send_nothing(in_one_process):
    require_private_networks()
    assert {(cell.sent_bytes, cell.formula_bytes) for cell in in_one_process if cell.status == "ok"} == {(0.0, 0.0)}
