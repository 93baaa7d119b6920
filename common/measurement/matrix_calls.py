"""Products of two square matrices, C = A B: their inputs, their clock and their check by NumPy; a script multiplies."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common.declarations.products import MatrixProgram, Products, check_workers
from common.errors import LaunchFailedError
from common.measurement import machine, startup
from common.measurement.world import World, facts_of
from common.records.files import from_json, write_record
from common.records.matrix_products import Cell, MatrixRecord, in_words

_EXACT = 2**24
"""Up to here float32 has every whole number, so that sums of them don't depend on their order."""

_LARGEST_ELEMENT = 127


@dataclass(frozen=True)
class Matrices:
    """The matrices of one size, (size, size) in float32; None for each but in rank 0, which alone loads and checks."""

    size: int
    a: np.ndarray | None
    b: np.ndarray | None
    c: np.ndarray | None
    """Where the product has to be after a call."""

    def load(self, seed: int, call: int) -> None:
        """Put the inputs of this call in, and nothing in C."""
        assert self.a is not None
        assert self.b is not None
        assert self.c is not None
        self.a[:], self.b[:] = inputs(self.size, seed, call)
        self.c.fill(np.nan)

    def what_is_wrong(self) -> str | None:
        """How C differs from NumPy's product in float64, in one sentence without its point; None where it's equal."""
        assert self.a is not None
        assert self.b is not None
        assert self.c is not None
        expected = self.a.astype(np.float64) @ self.b.astype(np.float64)
        wrong = self.c != expected
        if not wrong.any():
            return None
        row, column = np.argwhere(wrong)[0]
        return (
            f"{np.count_nonzero(wrong):,} of {wrong.size:,} elements of a product of size {self.size} are wrong; that "
            f"in row {row} and column {column} is {self.c[row, column]:g} where {expected[row, column]:g} belongs"
        )


def inputs(size: int, seed: int, call: int) -> np.ndarray:
    """A and B of one call as (2, size, size), float32: whole numbers so small that no partial sum of C is rounded."""
    largest = min(_LARGEST_ELEMENT, math.isqrt((_EXACT - 1) // size))
    drawn = np.random.default_rng([seed, size, call]).integers(-largest, largest + 1, (2, size, size), dtype=np.int16)
    return drawn.astype(np.float32)


class Parts:
    """When each part of one call ended, by the clock that counts from the machine's boot, which all ranks share."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.moments = [time.clock_gettime_ns(time.CLOCK_BOOTTIME)]
        """Nanoseconds: when the call began, then when it was done with each part."""

    def end(self, name: str) -> None:
        """Note that the part of this name is done, which began where the one before ended."""
        self.moments.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        self.names.append(name)


Multiply = Callable[[Parts], object]
"""One call: leaves C in rank 0's `Matrices`, and ends each of its parts."""


def measure(
    way: MatrixProgram,
    products: Products,
    world: World,
    barrier: Callable[[], object],
    prepare: Callable[[Matrices], Multiply],
) -> None:
    """Measure the products of every size, print a line on each, and keep them in the record; every rank has to call.

    `prepare` makes room for a size, outside the clock. Raises UserError where the workers can't share a size, and
    LaunchFailedError on every rank where a product was wrong.
    """
    check_workers(way, products, products.workers or world.size)
    cells: list[Cell] = []
    for size in products.sizes:
        cells.append(_cell(way, products, world, barrier, prepare, size))
        if world.rank == 0:
            print(in_words(cells[-1]), flush=True)
    if world.rank == 0 and products.record:
        facts = declared(way, products, world.size) | facts_of(world, way.family.packages)
        measured = {"status": "ok", "elapsed_seconds": startup.seconds_since_start(), "cells": cells}
        write_record(products.record, from_json(facts | measured, MatrixRecord))


def declared(way: MatrixProgram, products: Products, workers: int) -> dict[str, object]:
    """The fields of a record that are known before the launch."""
    return {
        "way": way.name,
        "kind": way.kind,
        "family": way.family.title,
        "world_size": workers,
        "threads_per_worker": products.threads,
        "git_commit": machine.git_commit(),
        # Where the record was first written says nothing of the launch.
        "products": dataclasses.replace(products, record=None),
    }


def _cell(
    way: MatrixProgram,
    products: Products,
    world: World,
    barrier: Callable[[], object],
    prepare: Callable[[Matrices], Multiply],
    size: int,
) -> Cell:
    a, b, c = (np.empty((size, size), np.float32) if world.rank == 0 else None for _ in range(3))
    matrices = Matrices(size, a, b, c)
    multiply = prepare(matrices)
    timed: list[Parts] = []
    wrong = None
    # A wrong product ends no call: the other ranks make all of theirs.
    for call in range(products.warmup_iterations + products.iterations):
        if world.rank == 0:
            matrices.load(products.seed, call)
        barrier()
        parts = Parts()
        multiply(parts)
        if world.rank == 0:
            wrong = wrong or matrices.what_is_wrong()
        if call >= products.warmup_iterations:
            timed.append(parts)
    gathered = world.all_gather(([each.moments for each in timed], wrong))
    if wrong := gathered[0][1]:
        raise LaunchFailedError(f"{way.title}: {wrong}.")
    start = gathered[0][0][0][0]
    moments = [[[(moment - start) / 1e9 for moment in call] for call in calls] for calls, _ in gathered]
    return Cell(size=size, parts=timed[0].names, moments_seconds=moments)
