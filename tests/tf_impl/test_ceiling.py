"""tf_impl/ceiling.py, started as a comparison starts it: what it clocks, and what it tells of TensorFlow."""

import dataclasses

import pytest
from msgspec.structs import astuple

from common.contract import mlp
from common.contract.task import PRESETS
from common.launching import executor
from common.measurement import probing
from common.records.ceiling import AS_TRAINED, Ceiling, Product, gigaflops, seconds_of
from common.sessions import probes
from common.sessions.comparison_scope import Scope


def probe(folder, number: int, workers: int) -> Ceiling:
    """What the probe with this number in the plan left, started with so many workers."""
    planned = probes.planned(Scope(strategies=("tf_multi_worker_mirrored",), preset=("pathway",)))[number]
    planned = dataclasses.replace(planned, task=dataclasses.replace(planned.task, workers=workers))
    return executor.run_planned(planned, folder)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Ceiling:
    """What the probe of two workers left."""
    return probe(tmp_path_factory.mktemp("probe"), 0, 2)


def test_every_product_of_a_step_is_clocked_and_really_computed(found):
    """TensorFlow leaves out what nobody reads, and computes only once what it takes for the same product."""
    assert found.status == "ok", found.reason
    assert [Product(*astuple(each)[:5]) for each in found.products] == probing.products_of_step(PRESETS["pathway"], 64)
    assert {each.way for each in found.products} == {AS_TRAINED}
    # More than any core has: 2 units for 16 fused multiplications and additions, 5 billion times a second.
    assert 0.1 < gigaflops(found) < 2 * 2 * 16 * 5


def test_the_exchange_is_of_as_many_bytes_as_the_gradients_have(found):
    assert (found.backend, found.world_size) == ("RING", 2)
    assert found.exchanged_bytes == mlp.parameter_bytes(PRESETS["pathway"])
    assert len(found.exchange) == probing.WINDOWS
    assert 0 < seconds_of(found.exchange) < 10


def test_a_variable_that_is_tried_reaches_tensorflow_and_is_told(tmp_path):
    without = probe(tmp_path, 1, 1)
    assert without.variables == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert without.facts == {"products by": "Eigen", "oneDNN": "off"}
    assert without.exchange == []
