"""Records of replayed exchanges for the report's tests, made up."""

from common.declarations.sweep import Sweep
from common.records.collective_times import Cell, CollectivesRecord, Replayed
from common.records.files import from_json
from common.records.trace import STEP, Message


def replay(milliseconds: float, repetition: int = 1, messages: int = 1, **changes: object) -> CollectivesRecord:
    """A good replay whose two calls take so long from when the second rank begins, which it does 1 ms later."""
    seconds = milliseconds / 1000
    sent = [Message(collective="all_reduce", size_bytes=500_000)] * messages
    cell = Cell(
        **{"collective": STEP, "size_bytes": 500_000 * messages, "status": "ok", "messages": sent},
        entered_seconds=[[0.0, 1.0], [0.001, 1.001]],
        left_seconds=[[0.001 + seconds, 1.001 + seconds], [0.001 + seconds / 2, 1.001 + seconds / 2]],
    )
    values = {
        **{"library": "amber", "title": "The library amber", "family": "Amber", "colors": ["#17457e", "#56b4e9"]},
        **{"status": "ok", "repetition": repetition, "world_size": 2, "sweep": Sweep(), "cells": [cell]},
        **{"replayed": replayed(f"amber_ring-2w-{repetition:02d}"), "started_at": "2026-01-02T03:04:05.678+00:00"},
        "threads_per_worker": 1,
    }
    return from_json(values | changes, CollectivesRecord)


def replayed(launch: str, strategy: str = "amber_ring", under_way: tuple[float, ...] = ()) -> Replayed:
    return Replayed(strategy=strategy, launch=launch, source="a tracer", under_way_seconds=[*under_way])
