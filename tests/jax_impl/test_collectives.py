"""jax_impl/collectives.py, started as a session of the laboratory starts it."""

from jax_impl.libraries import IN_ONE_PROCESS, LIBRARY, OVER_GLOO
from tests.laboratory import assert_as_declared, assert_nothing_sent, assert_sent_by_formula, measured

RANKS = 3
"""Not a power of two, so that the parts of a reduce-scatter go where they belong last."""
SMALL, LARGE = 48, 768 * 2**10


def test_over_gloo_every_rank_gets_what_belongs_there_and_as_many_bytes_are_sent_as_the_formula_says(tmp_path):
    about, cells = measured(OVER_GLOO, tmp_path, (str(SMALL), str(LARGE)), RANKS)
    assert_as_declared(cells, OVER_GLOO, (SMALL, LARGE), RANKS)
    assert OVER_GLOO.variables == {LIBRARY: OVER_GLOO.name}
    assert (about["backend"], about["device"]) == ("gloo", "cpu")
    assert about["facts"] == {"threads of XLA's pool": "1", "network interface": "lo"}
    assert_sent_by_formula(cells, LARGE)


def test_devices_of_one_process_get_what_belongs_there_and_send_nothing(tmp_path):
    about, cells = measured(IN_ONE_PROCESS, tmp_path, (str(SMALL), str(LARGE)), RANKS)
    assert_as_declared(cells, IN_ONE_PROCESS, (SMALL, LARGE), 1)
    assert IN_ONE_PROCESS.variables == {LIBRARY: IN_ONE_PROCESS.name}
    assert (about["backend"], about["device"]) == ("XLA", "3 devices of the CPU")
    assert_nothing_sent(cells)
