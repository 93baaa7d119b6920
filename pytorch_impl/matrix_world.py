"""The world over which matrices are multiplied: torchrun's, joined by Gloo, or mpirun's."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch.distributed as dist

from common.declarations.products import MatrixProgram, Products
from common.measurement.matrix_calls import Matrices, Multiply, measure
from common.measurement.world import World
from pytorch_impl import mpi
from pytorch_impl.world import join, leave

if TYPE_CHECKING:
    from mpi4py import MPI


def multiply_over(
    gloo: MatrixProgram,
    over_gloo: Callable[[World, Matrices], Multiply],
    mpirun: MatrixProgram,
    over_mpi: "Callable[[MPI.Comm, Matrices], Multiply]",
    products: Products,
) -> None:
    """Join the world that torchrun or mpirun started, and measure the products over it.

    `over_gloo` and `over_mpi` each return a function that multiplies matrices of one size. Raises UserError where
    neither launcher started this process, or the workers can't share the matrices. Raises LaunchFailedError for a wrong
    product.
    """
    if mpi.is_launched():
        world, _, communicator = mpi.join(products)
        measure(mpirun, products, world, communicator.Barrier, partial(over_mpi, communicator))
        return
    world, _ = join(gloo, products, gloo.options)
    measure(gloo, products, world, dist.barrier, partial(over_gloo, world))
    leave()
