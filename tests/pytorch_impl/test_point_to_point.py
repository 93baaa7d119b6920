"""pytorch_impl/point_to_point.py: every algorithm by hand in one world of three ranks, and what is declared of it."""

import pytest

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import steps
from common.declarations import catalogue
from common.launching.launch import python_for
from common.launching.processes import free_ports
from common.paths import ROOT
from pytorch_impl.libraries import BY_HAND, LIBRARY
from tests.conftest import run_command
from tests.pytorch_impl.every_algorithm import ELEMENTS


def test_every_rank_gets_numpys_sum_also_where_messages_are_empty():
    torchrun = python_for(BY_HAND[0]).parent / "torchrun"
    script = ROOT / "tests" / "pytorch_impl" / "every_algorithm.py"
    port = str(free_ports(1)[0])
    status, output = run_command([str(torchrun), "--nproc-per-node", "3", "--master-port", port, str(script)])
    assert status == 0, output
    lines = [line for line in output.splitlines() if " of " in line]
    assert lines == [f"{name} of {elements}: {[True] * 3}" for name in ALGORITHMS for elements in ELEMENTS], output


def test_each_algorithm_is_a_library_of_its_name_that_a_session_measures_only_where_it_is_named():
    assert [library.name for library in BY_HAND] == [*ALGORITHMS]
    assert {name for name, library in catalogue.libraries().items() if not library.by_default} == {*ALGORITHMS}
    assert [library.variables for library in BY_HAND] == [{LIBRARY: name} for name in ALGORITHMS]
    assert {name for library in BY_HAND for name in library.collectives} == {"all_reduce"}


@pytest.mark.parametrize("library", BY_HAND, ids=lambda library: library.name)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 8, 9])
def test_the_declared_formula_is_what_the_exchanges_send(library, ranks):
    elements = 8 * ranks
    exchanges = [each for step in steps(ALGORITHMS[library.name], ranks, elements) for each in step.values()]
    sent = sum(each.sent.stop - each.sent.start for each in exchanges)
    assert library.algorithm("all_reduce", 8).sent_bytes(elements, ranks) == sent
