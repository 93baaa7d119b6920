"""jax_impl/ceiling.py, started as a comparison starts it: what it clocks, and what it tells of XLA."""

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
    [probe] = probes.planned(Scope(strategies=("jax_data_parallel",), preset=("pathway",)))
    probe = dataclasses.replace(probe, task=dataclasses.replace(probe.task, workers=2))
    return executor.run_planned(probe, tmp_path_factory.mktemp("probe"))


def test_every_product_of_a_step_is_clocked_and_really_computed(found):
    """XLA leaves out what nobody reads, and computes only once what it takes for the same product."""
    assert found.status == "ok", found.reason
    assert [Product(*astuple(each)[:5]) for each in found.products] == probing.products_of_step(PRESETS["pathway"], 64)
    assert {each.way for each in found.products} == {AS_TRAINED}
    # More than any core has: 2 units for 16 fused multiplications and additions, 5 billion times a second.
    assert 0.1 < gigaflops(found) < 2 * 2 * 16 * 5


def test_the_exchange_is_of_as_many_bytes_as_the_gradients_have(found):
    assert (found.backend, found.world_size) == ("gloo", 2)
    assert found.exchanged_bytes == mlp.parameter_bytes(PRESETS["pathway"])
    assert len(found.exchange) == probing.WINDOWS
    # Between processes: at least as long as the memory takes for the bytes that are sent, at 100 GB/s.
    assert 2 * found.exchanged_bytes / 1e11 < seconds_of(found.exchange) < 10


def test_it_says_which_library_computes_each_kind_of_product(found):
    kinds = {f"{each.kind} by" for each in found.products}
    assert {*found.facts} == kinds | {"threads of XLA's pool"}
    assert {found.facts[kind] for kind in kinds} <= {"YNNPACK", "Eigen", "Eigen and YNNPACK"}
