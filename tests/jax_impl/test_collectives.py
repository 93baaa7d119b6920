"""jax_impl/collectives.py, started as a session of the laboratory starts it."""

import pytest

from common.contract.collective_meanings import Collective
from common.records.collective_times import Cell
from jax_impl.libraries import IN_ONE_PROCESS, LIBRARY, OVER_GLOO
from tests.laboratory import CALLS, measured
from tests.launching import require_private_networks

LIBRARIES = (OVER_GLOO, IN_ONE_PROCESS)
RANKS = 3
"""Not a power of two, so that the parts of a reduce-scatter go where they belong last."""
SMALL, LARGE = 48, 768 * 2**10


@pytest.fixture(scope="module")
def over_gloo(tmp_path_factory) -> tuple[dict[str, object], list[Cell]]:
    """What processes measured."""
    return measured(OVER_GLOO, tmp_path_factory.mktemp("over_gloo"), (str(SMALL), str(LARGE)), RANKS)


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory) -> tuple[dict[str, object], list[Cell]]:
    """What devices of one process measured."""
    return measured(IN_ONE_PROCESS, tmp_path_factory.mktemp("in_one_process"), (str(SMALL), str(LARGE)), RANKS)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_a_library_has_each_collective_or_says_why_not(library):
    assert {*library.collectives} | {*library.lacks} == {*Collective}
    assert not {*library.collectives} & {*library.lacks}
    # The script that both share is told which it is.
    assert library.variables == {LIBRARY: library.name}


@pytest.mark.parametrize(
    ("library", "clocks"), [("over_gloo", RANKS), ("in_one_process", 1)], ids=["over_gloo", "in_one_process"]
)
def test_every_rank_gets_what_belongs_there_and_what_is_lacking_is_named(library, clocks, request):
    # The results are checked in the launch, which ends where one is wrong.
    cells = request.getfixturevalue(library)[1]
    declared = OVER_GLOO if library == "over_gloo" else IN_ONE_PROCESS
    for cell in cells:
        if cell.collective in declared.collectives:
            assert cell.status == "ok", cell
            assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 2 * clocks * [CALLS]
        else:
            assert (cell.status, cell.reason) == ("unsupported", declared.lacks[cell.collective])
    found = {(cell.collective, cell.size_bytes) for cell in cells if cell.status == "ok"}
    assert found == {(collective, size) for collective in declared.collectives for size in (SMALL, LARGE)}


@pytest.mark.parametrize("collective", OVER_GLOO.collectives)
def test_as_many_bytes_are_sent_as_the_formula_says(collective, over_gloo):
    require_private_networks()
    [cell] = [each for each in over_gloo[1] if (each.collective, each.size_bytes) == (collective, LARGE)]
    assert cell.sent_bytes == pytest.approx(cell.formula_bytes, rel=0.03)


def test_devices_of_one_process_send_nothing(in_one_process):
    require_private_networks()
    assert {(cell.sent_bytes, cell.formula_bytes) for cell in in_one_process[1] if cell.status == "ok"} == {(0.0, 0.0)}


def test_the_record_tells_what_carries(over_gloo, in_one_process):
    assert (over_gloo[0]["backend"], over_gloo[0]["device"]) == ("gloo", "cpu")
    assert over_gloo[0]["facts"] == {"threads of XLA's pool": "1", "network interface": "lo"}
    assert (in_one_process[0]["backend"], in_one_process[0]["device"]) == ("XLA", "3 devices of the CPU")
