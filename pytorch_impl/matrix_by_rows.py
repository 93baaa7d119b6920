"""C = A B by rows: rank 0 scatters the rows of A and sends all of B; each rank multiplies; rank 0 gathers C's rows.

torchrun starts it over torch.distributed and Gloo, mpirun over MPI through mpi4py, whose calls take NumPy's memory:
`mpirun -np 2 python pytorch_impl/matrix_by_rows.py`. Both compute with torch.mm, as `matrix_alone.py` does.

To start it: `torchrun --nproc-per-node 2 pytorch_impl/matrix_by_rows.py`.
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
from pytorch_impl.matrices import ROWS_OVER_GLOO, ROWS_OVER_MPI
from pytorch_impl.matrix_world import multiply_over

if TYPE_CHECKING:
    from mpi4py import MPI


def main() -> None:
    """Multiply as the command line says, over the world that torchrun or mpirun started."""
    multiply_over(ROWS_OVER_GLOO, over_gloo, ROWS_OVER_MPI, over_mpi, parse(Products, __doc__))


def over_gloo(world: World, matrices: Matrices) -> Multiply:
    """The function that multiplies rank 0's matrices, (n, n), over Gloo; each rank gets n / N rows of A."""
    n, rows = matrices.size, matrices.size // world.size
    local_rows, local_product, b = torch.empty(rows, n), torch.empty(rows, n), torch.empty(n, n)
    rows_of_a = rows_of_c = None
    if world.rank == 0:
        rows_of_a, b, rows_of_c = (torch.from_numpy(matrix) for matrix in (matrices.a, matrices.b, matrices.c))
        rows_of_a, rows_of_c = list(rows_of_a.chunk(world.size)), list(rows_of_c.chunk(world.size))

    def multiply(parts: Parts) -> None:
        # The line that makes it distributed: each rank gets rows of its own.
        dist.scatter(local_rows, rows_of_a, src=0)
        parts.end("scatter A")
        # A row of C takes all of B.
        dist.broadcast(b, src=0)
        parts.end("broadcast B")
        torch.mm(local_rows, b, out=local_product)
        parts.end("product")
        # Each rank's rows of C go to their place in rank 0's.
        dist.gather(local_product, rows_of_c, dst=0)
        parts.end("gather C")

    return multiply


def over_mpi(communicator: "MPI.Comm", matrices: Matrices) -> Multiply:
    """The function that multiplies rank 0's matrices, (n, n), over MPI, which copies between NumPy's arrays."""
    n, rows = matrices.size, matrices.size // communicator.size
    local_rows, local_product = np.empty((rows, n), np.float32), np.empty((rows, n), np.float32)
    b = matrices.b if communicator.rank == 0 else np.empty((n, n), np.float32)
    # torch's tensors in the same memory.
    left, right, product = (torch.from_numpy(array) for array in (local_rows, b, local_product))

    def multiply(parts: Parts) -> None:
        # The line that makes it distributed: each rank gets rows of its own, as many as the others.
        communicator.Scatter(matrices.a, local_rows, root=0)
        parts.end("scatter A")
        # A row of C takes all of B.
        communicator.Bcast(b, root=0)
        parts.end("broadcast B")
        torch.mm(left, right, out=product)
        parts.end("product")
        # Each rank's rows of C go to their place in rank 0's.
        communicator.Gather(local_product, matrices.c, root=0)
        parts.end("gather C")

    return multiply


if __name__ == "__main__":
    exit_with_one_line(main)
