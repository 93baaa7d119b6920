"""pytorch_impl/ceiling.py, started as a comparison starts it: what it clocks, and what it tells of torch."""

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


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Ceiling:
    """What the probe of two workers left."""
    [probe, _] = probes.planned(Scope(strategies=("torch_ddp",), preset=("digits",)))
    probe = dataclasses.replace(probe, task=dataclasses.replace(probe.task, workers=2))
    return executor.run_planned(probe, tmp_path_factory.mktemp("probe"))


def test_every_product_of_a_step_is_clocked_in_every_way(found):
    assert found.status == "ok", found.reason
    products = probing.products_of_step(PRESETS["digits"], 64)
    ways = {each.way for each in found.products}
    assert {AS_TRAINED, "weights stored as (inputs, outputs)"} <= ways
    for way in ways:
        assert [Product(*astuple(each)[:5]) for each in found.products if each.way == way] == products
        assert 0.01 < gigaflops(found, way) < 100_000


def test_the_exchange_is_of_as_many_bytes_as_the_gradients_have(found):
    assert (found.backend, found.world_size) == ("gloo", 2)
    assert found.exchanged_bytes == mlp.parameter_bytes(PRESETS["digits"])
    assert len(found.exchange) == probing.WINDOWS
    assert 0 < seconds_of(found.exchange) < 10


def test_it_says_which_library_and_which_instructions_compute(found):
    assert found.facts["products by"] in ("mkl", "open", "accelerate")
    assert found.facts["torch's own kernels for"]
    if found.facts["products by"] == "mkl":
        assert "MKL" in found.facts["MKL at work"]
