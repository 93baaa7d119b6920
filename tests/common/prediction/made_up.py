"""Made-up measurements of strategies whose steps follow the model."""

import numpy as np

from common.prediction.measured import Measured, Scenario

ALPHA, GAMMA, PER_ROW = 1e-4, 2e-9, 1e-4
SIZE = 1_605_632
"""Bytes of pathway's gradients."""


def exchange_seconds(workers: int) -> float:
    """A ring of pathway's gradients."""
    return 2 * (workers - 1) * ALPHA + 2 * (workers - 1) / workers * SIZE * GAMMA


REST = 0.001
"""What the made-up strategies take around their one collective."""


def scenario(strategy="torch_ddp", workers=1, rows=64, **changes) -> Scenario:
    return Scenario(strategy, "pathway", rows, workers, workers, **changes)


def make_measured(rest=REST, launches=3) -> Measured:
    """Strategies that send pathway as one message: two batches alone, and two workers, 10 % slower together."""
    steps, without = {}, {}
    for strategy in ("torch_ddp", "tf_multi_worker_mirrored", "torch_lightning_ddp"):
        for rows in (64, 192):
            steps[scenario(strategy, 1, rows)] = [PER_ROW * rows] * launches
        without[scenario(strategy, 2)] = [1.1 * PER_ROW * 64] * launches
        steps[scenario(strategy, 2)] = [1.1 * PER_ROW * 64 + exchange_seconds(2) + rest] * launches
    exchanges = {size: [2 * ALPHA + size * GAMMA] * launches for size in (8, 4096, 2**20, 2**22)}
    libraries = dict.fromkeys(("gloo", "tensorflow", "jax"), exchanges)
    return Measured(steps, without, np.array([1.0]), libraries)
