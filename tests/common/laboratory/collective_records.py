"""Made-up records of launches that measured collectives, whose numbers can be worked out by hand."""

from common.declarations.sweep import Sweep
from common.records.collective_times import Cell, CollectivesRecord
from common.records.files import from_json


def cell(size_bytes=1024, calls=((0.0, 1.0),), late=0.0, ranks=2, **changes):
    """A good cell: of each call when the first rank began it and when all had it; the others began `late` after."""
    values = {
        "collective": "all_reduce",
        "size_bytes": size_bytes,
        "status": "ok",
        "entered_seconds": [[entered + (late if rank else 0.0) for entered, _ in calls] for rank in range(ranks)],
        "left_seconds": [[left for _, left in calls] for _ in range(ranks)],
        "counted_calls": 10,
        "sent_bytes": 3000.0,
        "processor_seconds": 0.5,
        "formula_bytes": 2048.0,
        "algorithm": "ring",
        "formula": "2 (N - 1) S",
        "source": "a paper",
    }
    return Cell(**values | changes)


def taking(seconds, size_bytes=1024, **changes):
    """A good cell whose only call took so long."""
    return cell(size_bytes, [(0.0, seconds)], **changes)


def record(*cells, library="fast", repetition=1, workers=2, **changes):
    values = {
        "library": library,
        "title": library.capitalize(),
        "family": "NumPy",
        "colors": ["#111111"],
        "status": "ok",
        "repetition": repetition,
        "sweep": Sweep(workers=workers),
        "world_size": workers,
        "threads_per_worker": 1,
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "cells": list(cells),
    }
    return from_json(values | changes, CollectivesRecord)
