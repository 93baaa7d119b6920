"""The ceiling of JAX's strategies: a step's products and convolutions, and an all-reduce of its gradients.

To start it: `python jax_impl/ceiling.py --workers 2 --preset pathway`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from common.contract import model as contract
from common.contract.layers import Convolution
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement import probing
from common.measurement.world import World
from common.records.ceiling import AS_TRAINED, Product, Window
from jax_impl import model
from jax_impl.model import WORKERS
from jax_impl.strategies import DATA_PARALLEL
from jax_impl.world import joined, replicate, start_unless_given

OPERATIONS_AT_ONCE = 10**8
"""Floating point operations in one call, about: so many that the call itself costs next to nothing."""


def main() -> None:
    """Join the other workers, or start them all. Clock the products on rank 0, then an exchange among all workers."""
    task, options = parse_command_line(DATA_PARALLEL, __doc__)
    start_unless_given(DATA_PARALLEL, task, options)
    with joined(task) as (world, mesh):
        programs: dict[str, list[str]] = defaultdict(list)
        products = probing.clock_products(task, world, partial(_as_trained, programs))
        exchange = _clock_exchange(task, world, mesh) if world.size > 1 else []
        if world.rank == 0:
            facts: dict[str, str] = {}
            for kind, texts in programs.items() if world.device == "cpu" else ():
                libraries = {"YNNPACK" if "__ynn_fusion" in text else "Eigen" for text in texts}
                facts[f"{kind} by"] = " and ".join(sorted(libraries))
            facts["threads of XLA's pool"] = os.environ["PJRT_NPROC"]
            probing.finish(DATA_PARALLEL, task, world, products, exchange, facts)


def _as_trained(programs: dict[str, list[str]], product: Product) -> dict[str, tuple[partial[jax.Array], int]]:
    """A compiled call, and how many times it computes the product; its program is added to its kind's `programs`."""
    at_once = max(1, OPERATIONS_AT_ONCE // product.operations)
    left_shape, right_shape, multiply = _factors(product)
    random = np.random.default_rng(0)
    left, right = (jax.numpy.array(random.standard_normal(shape, np.float32)) for shape in (left_shape, right_shape))

    def repeated(left: jax.Array, right: jax.Array) -> jax.Array:
        def again(number: jax.Array, factor_and_product: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            # Otherwise XLA would compute one product for all.
            changed = factor_and_product[0].at[0, 0].set(number.astype(left.dtype))
            return changed, multiply(changed, right)

        return lax.fori_loop(1, at_once, again, (left, multiply(left, right)))[1]

    compiled = jax.jit(repeated).lower(left, right).compile()
    programs[product.kind].append(compiled.as_text())
    return {AS_TRAINED: (partial(compiled, left, right), at_once)}


def _factors(product: Product) -> tuple[tuple[int, ...], tuple[int, ...], Callable[..., jax.Array]]:
    """The shapes of a product's factors, and what multiplies them: a matrix product or a convolution."""
    features, weight = (product.rows, product.inputs), (product.inputs, product.outputs)
    if product.size:
        features = (product.rows, product.height, product.width, product.inputs)
        weight = (product.size, product.size, *weight)
    layer = Convolution(product.inputs, product.outputs, product.size, product.padding, bias=False)
    forward = partial(model.convolve, layer) if product.size else jnp.matmul
    factors = [jax.ShapeDtypeStruct(shape, np.float32) for shape in (features, weight)]
    gradients = jax.eval_shape(forward, *factors).shape

    def by_weight(values: jax.Array, gradient: jax.Array) -> jax.Array:
        return jax.linear_transpose(partial(forward, values), factors[1])(gradient)[0]

    def by_features(gradient: jax.Array, values: jax.Array) -> jax.Array:
        return jax.linear_transpose(lambda features: forward(features, values), factors[0])(gradient)[0]

    return {
        "forward": (features, weight, forward),
        "weight gradient": (features, gradients, by_weight),
        "input gradient": (gradients, weight, by_features),
    }[product.kind]


def _clock_exchange(task: Task, world: World, mesh: Mesh) -> list[Window]:
    """Clock an all-reduce of one array as large as all gradients, as the strategy averages gradients."""
    gradients = replicate(mesh, np.zeros(contract.parameter_bytes(task) // 4, np.float32))
    mean = partial(lax.pmean, axis_name=WORKERS)
    all_reduce = jax.jit(jax.shard_map(mean, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))

    def exchange() -> None:
        nonlocal gradients
        # Each all-reduce takes what the one before gave, so that none begins earlier.
        gradients = all_reduce(gradients)

    return probing.clock(exchange, world)


if __name__ == "__main__":
    exit_with_one_line(main)
