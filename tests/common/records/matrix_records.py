"""Made-up programs that multiply matrices, and records of their launches, whose numbers can be worked out by hand."""

import dataclasses

from common.declarations.products import MatrixProgram, Products
from common.declarations.strategy import PROCESS
from common.records.files import from_json
from common.records.matrix_products import Cell, MatrixRecord
from tests.common.conftest import NUMPY

ALONE = MatrixProgram(
    name="numpy_alone", title="NumPy alone", kind="alone", script="none.py", family=NUMPY, launcher=PROCESS
)
SHARED = dataclasses.replace(ALONE, name="numpy_rows", title="NumPy by rows", kind="rows")
KINDS = {"naive": "naive", "alone": "alone", "rows_gloo": "rows", "rows_mpi": "rows", "reduction_mpi": "reduction"}


def cell(size, seconds, ranks=1):
    """Three calls of so many seconds, which all ranks begin at once."""
    return Cell(size=size, parts=["product"], moments_seconds=[[[0.0, seconds]] * 3 for _ in range(ranks)])


def record(way, times, repetition=1, **changes):
    """A launch of a way with the seconds of each size."""
    workers = 1 if way in ("naive", "alone") else 2
    values = {
        "way": way,
        "title": way.replace("_", " over "),
        "kind": KINDS[way],
        "family": "NumPy",
        "colors": ["#17457e", "#0072b2", "#56b4e9"],
        "status": "ok",
        "repetition": repetition,
        "products": Products(sizes=tuple(times)),
        "world_size": workers,
        "threads_per_worker": 1,
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "cells": [cell(size, seconds, ranks=workers) for size, seconds in times.items()],
    }
    return from_json(values | changes, MatrixRecord)


def session(launches, times, drift=0.01):
    """So many rounds of every way, whose times grow by `drift` a round for all alike, and a little otherwise."""
    found = {}
    for repetition in range(1, launches + 1):
        for place, (way, seconds) in enumerate(times.items(), start=1):
            grown = 1 + drift * repetition + 0.001 * (repetition * place % 3)
            of_launch = {size: each * grown for size, each in seconds.items()}
            found[f"{way}-{repetition:02d}"] = record(way, of_launch, repetition)
    return found
