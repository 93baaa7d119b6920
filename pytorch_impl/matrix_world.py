"""The world over which matrices are multiplied: torchrun's, joined by Gloo, or mpirun's."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch.distributed as dist

from common.declarations.products import Products
from common.declarations.way import Way
from common.measurement.matrix_products import Matrices, Multiply, measure
from common.measurement.world import World
from pytorch_impl import mpi, world

if TYPE_CHECKING:
    from mpi4py import MPI


def multiply_over(
    gloo: Way,
    over_gloo: Callable[[World, Matrices], Multiply],
    mpirun: Way,
    over_mpi: "Callable[[MPI.Comm, Matrices], Multiply]",
    products: Products,
) -> None:
    """Join the world that torchrun or mpirun started, and measure the products over it.

    `over_gloo` and `over_mpi` make what multiplies matrices of one size there. Raises UserError where neither started
    this, or the workers can't share the matrices, and LaunchFailedError for a wrong product.
    """
    if mpi.is_launched():
        mpi.require_mpi4py()
        workers, _, everyone = mpi.join(products)
        measure(mpirun, products, workers, everyone.Barrier, partial(over_mpi, everyone))
        return
    workers, _ = world.join(gloo, products, gloo.options)
    measure(gloo, products, workers, dist.barrier, partial(over_gloo, workers))
    world.leave()
