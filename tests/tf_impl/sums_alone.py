"""What TensorFlow's other ways to add across four devices of one process give, for test_collectives.py.

TensorFlow's own Python runs it. It prints a line for each way: its name, and whether every device has NumPy's results.
A last line says why an odd number of devices is refused.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import tensorflow as tf

from common.contract.collective_meanings import Collective, Messages
from common.declarations.sweep import Sweep
from common.errors import UserError
from tf_impl import mlp, reductions
from tf_impl.libraries import HIERARCHICAL_COPY, MIRRORED_COLLECTIVES

RANKS = 4


def main() -> None:
    """Add once in each way, and gather where it has a gather; then ask for one device less."""
    devices = mlp.choose_devices(Sweep(workers=RANKS), RANKS)
    for library in (HIERARCHICAL_COPY, MIRRORED_COLLECTIVES):
        strategy = tf.distribute.MirroredStrategy(devices, reductions.cross_device_ops_of(library))
        print(library.name, all(is_right(strategy, Collective(each)) for each in library.collectives))
    os.environ |= HIERARCHICAL_COPY.variables
    try:
        reductions.choose_library(Sweep(workers=RANKS - 1))
    except UserError as refusal:
        print(refusal)


def is_right(strategy: tf.distribute.MirroredStrategy, collective: Collective) -> bool:
    """Whether every device has what NumPy computes."""
    messages = Messages(collective, 4096, "float32", RANKS, seed=0)
    operation = reductions.Collectives(strategy).prepare(collective, messages.elements, "float32")
    operation.load([messages.of(rank, 0) for rank in range(RANKS)])
    operation.run()
    expected = [messages.expected(rank, 0) for rank in range(RANKS)]
    return all(np.array_equal(*each) for each in zip(operation.results(), expected, strict=True))


if __name__ == "__main__":
    main()
