"""C = A B by reduction: rank 0 deals out columns of A and rows of B; what each rank multiplies is added up to C.

Each rank's product is as large as C, since C is the sum over k of A's column k times B's row k. With torchrun over
torch.distributed and Gloo; with mpirun over MPI, through mpi4py, whose calls take NumPy's memory:
`mpirun -np 2 python pytorch_impl/matrix_by_reduction.py`. Both compute with torch.mm, as `matrix_alone.py` does.

To start it: `torchrun --nproc-per-node 2 pytorch_impl/matrix_by_reduction.py`.
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
from pytorch_impl.matrices import REDUCTION_OVER_GLOO, REDUCTION_OVER_MPI
from pytorch_impl.matrix_world import multiply_over

if TYPE_CHECKING:
    from mpi4py import MPI


def main() -> None:
    """Multiply as the command line says, over the world that torchrun or mpirun started."""
    multiply_over(REDUCTION_OVER_GLOO, over_gloo, REDUCTION_OVER_MPI, over_mpi, parse_command_line(__doc__))


def over_gloo(workers: World, matrices: Matrices) -> Multiply:
    """What multiplies the matrices of rank 0, (n, n), over torch.distributed; n / N columns of A are each rank's."""
    n, inner = matrices.size, matrices.size // workers.size
    own_columns, own_rows, product = torch.empty(n, inner), torch.empty(inner, n), torch.empty(n, n)
    columns_of_a = rows_of_b = None
    if workers.rank == 0:
        a, b, product = (torch.from_numpy(each) for each in (matrices.a, matrices.b, matrices.c))
        cut = torch.empty(workers.size, n, inner)
        columns_of_a, rows_of_b = list(cut), list(b.chunk(workers.size))

    def multiply(parts: Parts) -> None:
        if workers.rank == 0:
            # Gloo sends memory without gaps, which a matrix has between the columns of one rank.
            torch.stack(a.chunk(workers.size, dim=1), out=cut)
        parts.end("cut A")
        # The lines that make it distributed: each rank gets columns of A, and the rows of B that belong to them.
        dist.scatter(own_columns, columns_of_a, src=0)
        parts.end("scatter A")
        dist.scatter(own_rows, rows_of_b, src=0)
        parts.end("scatter B")
        torch.mm(own_columns, own_rows, out=product)
        parts.end("product")
        # Rank 0's product becomes the sum of all.
        dist.reduce(product, dst=0, op=dist.ReduceOp.SUM)
        parts.end("reduce C")

    return multiply


def over_mpi(everyone: "MPI.Comm", matrices: Matrices) -> Multiply:
    """What multiplies the matrices of rank 0, (n, n), over MPI, which copies from NumPy's memory into NumPy's."""
    n, inner = matrices.size, matrices.size // everyone.size
    own_columns, own_rows = np.empty((n, inner), np.float32), np.empty((inner, n), np.float32)
    own_product = np.empty((n, n), np.float32)
    columns_of_a = np.empty((everyone.size, n, inner), np.float32) if everyone.rank == 0 else None
    # The same memory as torch sees it.
    left, right, product = (torch.from_numpy(each) for each in (own_columns, own_rows, own_product))

    def multiply(parts: Parts) -> None:
        if everyone.rank == 0:
            # MPI deals out memory without gaps, which a matrix has between the columns of one rank.
            np.stack(np.split(matrices.a, everyone.size, axis=1), out=columns_of_a)
        parts.end("cut A")
        # The lines that make it distributed: each rank gets columns of A, and the rows of B that belong to them.
        everyone.Scatter(columns_of_a, own_columns, root=0)
        parts.end("scatter A")
        everyone.Scatter(matrices.b, own_rows, root=0)
        parts.end("scatter B")
        torch.mm(left, right, out=product)
        parts.end("product")
        # The sum of all ranks' products, which is what MPI adds where nothing else is said, goes to rank 0.
        everyone.Reduce(own_product, matrices.c, root=0)
        parts.end("reduce C")

    return multiply


if __name__ == "__main__":
    exit_with_one_line(main)
