"""pytorch_impl/point_to_point.py: every algorithm by hand in one world of three ranks, and what is declared of it."""

import pytest

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import steps
from pytorch_impl.libraries import BY_HAND
from tests.grid import in_grid
from tests.laboratory import assert_as_declared, measured


@pytest.mark.parametrize("library", in_grid(BY_HAND, BY_HAND[:1]), ids=lambda library: library.name)
def test_every_one_of_three_ranks_gets_numpys_sum_also_where_messages_are_empty(library, tmp_path):
    cells = measured(library, tmp_path, ("4", "8", "400012"), 3)[1]
    assert_as_declared(cells, library, (4, 8, 400_012), clocks=3)


@pytest.mark.parametrize("library", BY_HAND, ids=lambda library: library.name)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 8, 9])
def test_the_declared_formula_is_what_the_exchanges_send(library, ranks):
    elements = 8 * ranks
    exchanges = [each for step in steps(ALGORITHMS[library.name], ranks, elements) for each in step.values()]
    sent = sum(each.sent.stop - each.sent.start for each in exchanges)
    assert library.algorithm("all_reduce", 8).sent_bytes(elements, ranks) == sent
