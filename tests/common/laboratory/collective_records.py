"""Made-up records of launches that measured collectives, whose numbers can be worked out by hand."""

from common.declarations.sweep import Sweep
from common.records.collective_times import Cell, CollectivesRecord
from common.records.files import from_json
from tests.reports.records import HOST


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


def record(*cells, library="amber", repetition=1, workers=2, **changes):
    values = {
        **{"library": library, "title": f"The library {library}", "family": "Amber", "colors": ["#17457e", "#56b4e9"]},
        **{"status": "ok", "repetition": repetition, "world_size": workers, "timing_seconds": 1e-7},
        **{"sweep": Sweep(workers=workers), "threads_per_worker": 1, "cells": [*cells], "backend": "carrier"},
        **{"versions": {"numpy": "2.4.6"}, "host": HOST, "started_at": "2026-01-02T03:04:05.678+00:00"},
    }
    return from_json(values | changes, CollectivesRecord)
