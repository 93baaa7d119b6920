"""horovod_impl/ceiling.py, started as a comparison starts it: it clocks Horovod's exchange and no products."""

from tests.laboratory import assert_products_and_exchange, probed


def test_the_exchange_is_of_as_many_bytes_as_the_gradients_have_and_no_products_are_clocked(tmp_path):
    found = probed("horovod_torch", "digits", tmp_path)
    assert_products_and_exchange(found, "gloo", ways=set())
    assert "Gloo" in found.facts["built with"]
