"""pytorch_impl/ceiling.py, started as a comparison starts it: what it clocks, and what it tells of torch."""

from common.records.ceiling import AS_TRAINED
from tests.laboratory import assert_products_and_exchange, probed


def test_every_product_and_the_exchange_are_clocked_and_it_says_what_computes(tmp_path):
    found = probed("torch_ddp", "digits", tmp_path)
    ways = {each.way for each in found.products}
    assert {AS_TRAINED, "weights stored as (inputs, outputs)"} <= ways
    assert_products_and_exchange(found, "gloo", ways)
    assert found.facts["products by"] in ("mkl", "open", "accelerate")
    assert found.facts["torch's own kernels for"]
    if found.facts["products by"] == "mkl":
        assert "MKL" in found.facts["MKL at work"]
