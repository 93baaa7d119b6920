"""C = A B by reduction: rank 0 scatters columns of A and rows of B; C is the sum of all ranks' products.

Each rank's product is as large as C, since C is the sum over k of A's column k times B's row k. torchrun starts it over
torch.distributed and Gloo, mpirun over MPI through mpi4py, whose calls take NumPy's memory:
`mpirun -np 2 python pytorch_impl/matrix_by_reduction.py`. Both compute with torch.mm, as `matrix_alone.py` does.

To start it: `torchrun --nproc-per-node 2 pytorch_impl/matrix_by_reduction.py`.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.declarations.arguments import parse
from common.declarations.products import Products
from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import numpy as np
import torch
import torch.distributed as dist

from common.measurement.matrix_calls import Matrices, Multiply, Parts
from common.measurement.world import World
from pytorch_impl.matrices import REDUCTION_OVER_GLOO, REDUCTION_OVER_MPI
from pytorch_impl.matrix_world import multiply_over

if TYPE_CHECKING:
    from mpi4py import MPI


def main() -> None:
    """Multiply as the command line says, over the world that torchrun or mpirun started."""
    multiply_over(REDUCTION_OVER_GLOO, over_gloo, REDUCTION_OVER_MPI, over_mpi, parse(Products, __doc__))


def over_gloo(world: World, matrices: Matrices) -> Multiply:
    """The function that multiplies rank 0's matrices, (n, n), over Gloo; each rank gets n / N columns of A."""
    n, inner = matrices.size, matrices.size // world.size
    local_columns, local_rows, product = torch.empty(n, inner), torch.empty(inner, n), torch.empty(n, n)
    columns_of_a = rows_of_b = None
    if world.rank == 0:
        a, b, product = (torch.from_numpy(matrix) for matrix in (matrices.a, matrices.b, matrices.c))
        cut = torch.empty(world.size, n, inner)
        columns_of_a, rows_of_b = list(cut), list(b.chunk(world.size))

    def multiply(parts: Parts) -> None:
        if world.rank == 0:
            # Gloo sends contiguous memory, which the columns of one rank aren't.
            torch.stack(a.chunk(world.size, dim=1), out=cut)
        parts.end("cut A")
        # The lines that make it distributed: each rank gets columns of A, and the rows of B that belong to them.
        dist.scatter(local_columns, columns_of_a, src=0)
        parts.end("scatter A")
        dist.scatter(local_rows, rows_of_b, src=0)
        parts.end("scatter B")
        torch.mm(local_columns, local_rows, out=product)
        parts.end("product")
        # Rank 0's product becomes the sum of all.
        dist.reduce(product, dst=0, op=dist.ReduceOp.SUM)
        parts.end("reduce C")

    return multiply


def over_mpi(communicator: "MPI.Comm", matrices: Matrices) -> Multiply:
    """The function that multiplies rank 0's matrices, (n, n), over MPI, which copies between NumPy's arrays."""
    n, inner = matrices.size, matrices.size // communicator.size
    local_columns, local_rows = np.empty((n, inner), np.float32), np.empty((inner, n), np.float32)
    local_product = np.empty((n, n), np.float32)
    columns_of_a = np.empty((communicator.size, n, inner), np.float32) if communicator.rank == 0 else None
    # torch's tensors in the same memory.
    left, right, product = (torch.from_numpy(array) for array in (local_columns, local_rows, local_product))

    def multiply(parts: Parts) -> None:
        if communicator.rank == 0:
            # MPI scatters contiguous memory, which the columns of one rank aren't.
            np.stack(np.split(matrices.a, communicator.size, axis=1), out=columns_of_a)
        parts.end("cut A")
        # The lines that make it distributed: each rank gets columns of A, and the rows of B that belong to them.
        communicator.Scatter(columns_of_a, local_columns, root=0)
        parts.end("scatter A")
        communicator.Scatter(matrices.b, local_rows, root=0)
        parts.end("scatter B")
        torch.mm(left, right, out=product)
        parts.end("product")
        # Rank 0 gets the sum of all ranks' products: mpi4py's default operation.
        communicator.Reduce(local_product, matrices.c, root=0)
        parts.end("reduce C")

    return multiply


if __name__ == "__main__":
    exit_with_one_line(main)
