"""jax_impl/collectives.py, started as a session of the laboratory starts it."""

import pytest

from common.records.collective_times import Cell
from jax_impl.libraries import IN_ONE_PROCESS, LIBRARY, OVER_GLOO
from tests.laboratory import assert_as_declared, assert_sent_by_formula, measured

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


def test_every_rank_gets_what_belongs_there_and_what_is_lacking_is_named(over_gloo, in_one_process):
    assert_as_declared(over_gloo[1], OVER_GLOO, (SMALL, LARGE), RANKS)
    assert_as_declared(in_one_process[1], IN_ONE_PROCESS, (SMALL, LARGE), 1)
    assert [library.variables for library in (OVER_GLOO, IN_ONE_PROCESS)] == [
        {LIBRARY: OVER_GLOO.name},
        {LIBRARY: IN_ONE_PROCESS.name},
    ]


def test_as_many_bytes_are_sent_as_the_formula_says_and_in_one_process_none(over_gloo, in_one_process):
    assert_sent_by_formula(over_gloo[1], LARGE)
    assert {(cell.sent_bytes, cell.formula_bytes) for cell in in_one_process[1] if cell.status == "ok"} == {(0.0, 0.0)}


def test_the_record_tells_what_carries(over_gloo, in_one_process):
    assert (over_gloo[0]["backend"], over_gloo[0]["device"]) == ("gloo", "cpu")
    assert over_gloo[0]["facts"] == {"threads of XLA's pool": "1", "network interface": "lo"}
    assert (in_one_process[0]["backend"], in_one_process[0]["device"]) == ("XLA", "3 devices of the CPU")
