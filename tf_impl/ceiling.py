"""The ceiling of TensorFlow's strategies: a step's products and convolutions, and an all-reduce of its gradients.

To start it: `python tf_impl/ceiling.py --workers 2 --preset pathway`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework
from tf_impl.cluster import start_unless_given
from tf_impl.strategies import MULTI_WORKER_MIRRORED

if __name__ == "__main__":
    require_framework("tensorflow")
    # TensorFlow isn't imported yet: a process that only starts the others doesn't need it.
    exit_with_one_line(lambda: start_unless_given(MULTI_WORKER_MIRRORED, __doc__))

from collections.abc import Callable
from functools import partial

import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from common.contract import model as contract
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement import probing
from common.measurement.world import World
from common.records.ceiling import AS_TRAINED, Product, Window
from tf_impl import world

OPERATIONS_AT_ONCE = 10**9
"""Floating point operations in one call of a graph, about: so many that the call itself costs next to nothing."""


def main() -> None:
    """Join the cluster. Clock the products on rank 0, then an exchange among all workers."""
    task, _ = parse_command_line(MULTI_WORKER_MIRRORED, __doc__)
    with world.joined(task) as (cluster_world, strategy):
        # Else TensorFlow would see that nobody reads the products, and compute none of them.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        products = probing.clock_products(task, cluster_world, _as_trained)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
        exchange = _clock_exchange(task, cluster_world, strategy) if cluster_world.size > 1 else []
        if cluster_world.rank == 0:
            probing.finish(MULTI_WORKER_MIRRORED, task, cluster_world, products, exchange, _facts())


def _as_trained(product: Product) -> dict[str, tuple[tf.types.experimental.PolymorphicFunction, int]]:
    """A compiled function, and how many times it computes the product, with the weights as (inputs, outputs)."""
    at_once = max(1, min(64, OPERATIONS_AT_ONCE // product.operations))
    left, right, multiply = (_convolution if product.size else _matrix_product)(product)

    @tf.function(autograph=False)
    def repeated() -> tf.Tensor:
        # Each product reads the variables anew. Otherwise TensorFlow would compute one product for all.
        products = [multiply(left.read_value(), right.read_value()) for _ in range(at_once)]
        # The products are computed and discarded.
        with tf.control_dependencies(products):
            return tf.zeros(())

    return {AS_TRAINED: (repeated, at_once)}


def _variable(*shape: int) -> tf.Variable:
    return tf.Variable(tf.random.normal(shape))


def _matrix_product(product: Product) -> tuple[tf.Variable, tf.Variable, Callable]:
    """The factors of a product, and what multiplies them."""
    features, weight = _variable(product.rows, product.inputs), _variable(product.inputs, product.outputs)
    gradients = _variable(product.rows, product.outputs)
    return {
        "forward": (features, weight, tf.matmul),
        "weight gradient": (features, gradients, partial(tf.matmul, transpose_a=True)),
        "input gradient": (gradients, weight, partial(tf.matmul, transpose_b=True)),
    }[product.kind]


def _convolution(product: Product) -> tuple[tf.Variable, tf.Variable, Callable]:
    """The factors of a convolution, or of one of its gradients, and what computes it."""
    images = _variable(product.rows, product.height, product.width, product.inputs)
    kernel = _variable(product.size, product.size, product.inputs, product.outputs)
    about = {"strides": [1, 1, 1, 1], "padding": "SAME" if product.padding else "VALID"}
    gradients = _variable(*tf.raw_ops.Conv2D(input=images, filter=kernel, **about).shape)
    return {
        "forward": (images, kernel, lambda x, w: tf.raw_ops.Conv2D(input=x, filter=w, **about)),
        "weight gradient": (
            images,
            gradients,
            lambda x, g: tf.raw_ops.Conv2DBackpropFilter(input=x, filter_sizes=kernel.shape, out_backprop=g, **about),
        ),
        "input gradient": (
            gradients,
            kernel,
            lambda g, w: tf.raw_ops.Conv2DBackpropInput(input_sizes=images.shape, filter=w, out_backprop=g, **about),
        ),
    }[product.kind]


def _clock_exchange(task: Task, cluster_world: World, strategy: tf.distribute.Strategy) -> list[Window]:
    """Clock an all-reduce of one tensor as large as all gradients, as the strategy sums gradients."""
    with strategy.scope():
        gradients = tf.Variable(tf.zeros(contract.parameter_bytes(task) // 4))

    @tf.function(autograph=False)
    def all_reduce() -> tf.Tensor:
        local = strategy.run(gradients.read_value)
        [total] = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, [(local, gradients)])
        return total

    return probing.clock(all_reduce, cluster_world)


def _facts() -> dict[str, str]:
    """Facts on the library that computes TensorFlow's products."""
    by_onednn = _pywrap_util_port.IsMklEnabled()
    return {"products by": "oneDNN" if by_onednn else "Eigen", "oneDNN": "on" if by_onednn else "off"}


if __name__ == "__main__":
    exit_with_one_line(main)
