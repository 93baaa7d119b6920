"""jax_impl/ceiling.py, started as a comparison starts it: what it clocks, and what it tells of XLA."""

import pytest

from common.records.ceiling import AS_TRAINED
from tests.laboratory import assert_products_and_exchange, probed


@pytest.mark.grid
def test_every_product_and_the_exchange_are_clocked_and_it_says_which_library_computes(tmp_path):
    found = probed("jax_data_parallel", "pathway", tmp_path)
    assert_products_and_exchange(found, "gloo", {AS_TRAINED})
    kinds = {f"{each.kind} by" for each in found.products}
    assert {*found.facts} == kinds | {"threads of XLA's pool"}
    assert {found.facts[kind] for kind in kinds} <= {"YNNPACK", "Eigen", "Eigen and YNNPACK"}
