"""C = A B by rows: rank 0 deals out the rows of A and sends all of B; each rank multiplies; rank 0 collects C's rows.

With torchrun over torch.distributed and Gloo; with mpirun over MPI, through mpi4py, whose calls take NumPy's memory:
`mpirun -np 2 python pytorch_impl/matrix_by_rows.py`. Both compute with torch.mm, as `matrix_alone.py` does.

To start it: `torchrun --nproc-per-node 2 pytorch_impl/matrix_by_rows.py`.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.declarations.products import parse_command_line
from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import numpy as np
import torch
import torch.distributed as dist

from common.measurement.matrix_products import Matrices, Multiply, Parts
from common.measurement.world import World
from pytorch_impl.matrices import ROWS_OVER_GLOO, ROWS_OVER_MPI
from pytorch_impl.matrix_world import multiply_over

if TYPE_CHECKING:
    from mpi4py import MPI


def main() -> None:
    """Multiply as the command line says, over the world that torchrun or mpirun started."""
    multiply_over(ROWS_OVER_GLOO, over_gloo, ROWS_OVER_MPI, over_mpi, parse_command_line(__doc__))


def over_gloo(workers: World, matrices: Matrices) -> Multiply:
    """What multiplies the matrices of rank 0, (n, n), over torch.distributed; n / N rows are each rank's."""
    n, rows = matrices.size, matrices.size // workers.size
    own_rows, own_product, b = torch.empty(rows, n), torch.empty(rows, n), torch.empty(n, n)
    rows_of_a = rows_of_c = None
    if workers.rank == 0:
        rows_of_a, b, rows_of_c = (torch.from_numpy(each) for each in (matrices.a, matrices.b, matrices.c))
        rows_of_a, rows_of_c = list(rows_of_a.chunk(workers.size)), list(rows_of_c.chunk(workers.size))

    def multiply(parts: Parts) -> None:
        # The line that makes it distributed: each rank gets rows of its own.
        dist.scatter(own_rows, rows_of_a, src=0)
        parts.end("scatter A")
        # A row of C takes all of B.
        dist.broadcast(b, src=0)
        parts.end("broadcast B")
        torch.mm(own_rows, b, out=own_product)
        parts.end("product")
        # Each rank's rows of C go to their place in rank 0's.
        dist.gather(own_product, rows_of_c, dst=0)
        parts.end("gather C")

    return multiply


def over_mpi(everyone: "MPI.Comm", matrices: Matrices) -> Multiply:
    """What multiplies the matrices of rank 0, (n, n), over MPI, which copies from NumPy's memory into NumPy's."""
    n, rows = matrices.size, matrices.size // everyone.size
    own_rows, own_product = np.empty((rows, n), np.float32), np.empty((rows, n), np.float32)
    b = matrices.b if everyone.rank == 0 else np.empty((n, n), np.float32)
    # The same memory as torch sees it.
    left, right, product = (torch.from_numpy(each) for each in (own_rows, b, own_product))

    def multiply(parts: Parts) -> None:
        # The line that makes it distributed: each rank gets rows of its own, as many as the others.
        everyone.Scatter(matrices.a, own_rows, root=0)
        parts.end("scatter A")
        # A row of C takes all of B.
        everyone.Bcast(b, root=0)
        parts.end("broadcast B")
        torch.mm(left, right, out=product)
        parts.end("product")
        # Each rank's rows of C go to their place in rank 0's.
        everyone.Gather(own_product, matrices.c, root=0)
        parts.end("gather C")

    return multiply


if __name__ == "__main__":
    exit_with_one_line(main)
