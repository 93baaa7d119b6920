"""C = A B in one process, by three nested loops of Python, as introductions write it: n^3 steps, one at a time.

To start it: `python pytorch_impl/matrix_naive.py --sizes 16 32 64`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.declarations.arguments import parse
from common.declarations.products import Products
from common.errors import exit_with_one_line
from common.measurement import machine
from common.measurement.matrix_calls import Matrices, Multiply, Parts, measure
from common.measurement.world import World
from pytorch_impl.matrices import NAIVE


def main() -> None:
    """Multiply as the command line says, in this process."""
    products = parse(Products, __doc__)
    measure(NAIVE, products, World(pinning=machine.pin(products)), lambda: None, by_the_loop)


def by_the_loop(matrices: Matrices) -> Multiply:
    """The function that multiplies these matrices, (n, n), by definition: each element of C is a sum of n products."""

    def multiply(parts: Parts) -> None:
        a, b = matrices.a.tolist(), matrices.b.tolist()
        parts.end("to lists")
        c = [[0.0] * matrices.size for _ in a]
        for row in range(matrices.size):
            for column in range(matrices.size):
                for inner in range(matrices.size):
                    c[row][column] += a[row][inner] * b[inner][column]
        parts.end("product")
        matrices.c[:] = c
        parts.end("from lists")

    return multiply


if __name__ == "__main__":
    exit_with_one_line(main)
