"""NumPy's strategies: the front page of this folder."""

from __future__ import annotations

from dataclasses import dataclass

from common.contract.work import Recipe, Work
from common.declarations.strategy import (
    ExchangeOptions,
    Family,
    Launcher,
    Strategy,
    mpirun,
    nothing_sent,
    option,
    ring_all_reduce,
)

NUMPY = Family(
    title="NumPy",
    environment="numpy",
    imports="mpi4py",
    packages=("mpi4py", "openmpi"),
    colors=("#444444", "#777777", "#aaaaaa"),
)

MPIRUN = Launcher(name="mpirun", command=mpirun)


@dataclass(frozen=True, kw_only=True)
class DataParallelOptions(ExchangeOptions):
    """Options of data parallelism over MPI."""

    last_first: bool = option(False, tried=(True,))
    """Exchange the last layer's gradients first, as the backward pass has them."""


SINGLE = Strategy(
    name="numpy_single",
    script="numpy_impl/single.py",
    summary="no distribution: NumPy's baseline",
    family=NUMPY,
    framework="numpy",
    work=Work.UNDISTRIBUTED,
    traffic=nothing_sent,
)
DATA_PARALLEL = Strategy(
    name="numpy_data_parallel",
    script="numpy_impl/data_parallel.py",
    summary="one process per worker, gradients averaged by MPI",
    family=NUMPY,
    framework="numpy",
    launcher=MPIRUN,
    options=DataParallelOptions,
    alone=Recipe.OWN_SHARD,
    base="numpy_single",
    traffic=ring_all_reduce,
)
