"""C = A B in one process, by torch.mm: the baseline of the distributed products.

To start it: `python pytorch_impl/matrix_alone.py`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.declarations.arguments import parse
from common.declarations.products import Products
from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch

from common.measurement import machine
from common.measurement.matrix_calls import Matrices, Multiply, Parts, measure
from common.measurement.world import World
from pytorch_impl.matrices import ALONE


def main() -> None:
    """Multiply as the command line says, in this process."""
    products = parse(Products, __doc__)
    torch.set_num_threads(products.threads)
    measure(ALONE, products, World(pinning=machine.pin(products)), lambda: None, by_the_library)


def by_the_library(matrices: Matrices) -> Multiply:
    """The function that multiplies these matrices, (n, n), by one call of torch."""
    a, b, c = (torch.from_numpy(matrix) for matrix in (matrices.a, matrices.b, matrices.c))

    def multiply(parts: Parts) -> None:
        torch.mm(a, b, out=c)
        parts.end("product")

    return multiply


if __name__ == "__main__":
    exit_with_one_line(main)
