"""tf_impl/ceiling.py, started as a comparison starts it: what it clocks, and what it tells of TensorFlow."""

import pytest

from common.records.ceiling import AS_TRAINED
from tests.laboratory import assert_products_and_exchange, probed

STRATEGY = "tf_multi_worker_mirrored"


@pytest.mark.grid
def test_every_product_and_the_exchange_are_clocked(tmp_path):
    assert_products_and_exchange(probed(STRATEGY, "pathway", tmp_path), "RING", {AS_TRAINED})


@pytest.mark.grid
def test_a_variable_that_is_tried_reaches_tensorflow_and_is_told(tmp_path):
    without = probed(STRATEGY, "pathway", tmp_path, workers=1, number=1)
    assert without.variables == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert without.facts == {"products by": "Eigen", "oneDNN": "off"}
    assert without.exchange == []
