"""common/declarations/library.py: bytes by formula that several libraries have."""

import pytest

from common.contract.collective_meanings import Collective
from common.declarations import catalogue
from common.declarations.library import gloo_reduce_scatter_bytes


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (3, 2.5), (4, 3.5), (8, 7.5)])
def test_the_formula_of_gloos_reduce_scatter_counts_the_sums_that_are_put_in_order(ranks, factor):
    """Up to four ranks as counted on the wire, over JAX."""
    assert gloo_reduce_scatter_bytes(2**20, ranks) == pytest.approx(factor * 2**20)


@pytest.mark.parametrize("name", [name for name, library in catalogue.libraries().items() if library.by_default])
def test_a_library_has_each_collective_or_says_why_not(name):
    library = catalogue.libraries()[name]
    assert sorted([*library.collectives, *library.lacks]) == sorted(Collective)
