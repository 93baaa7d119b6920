"""The material of reports on made-up records, and made-up probes and replays beside these."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from msgspec import structs

from common.contract.task import PRESETS
from common.measurement import probing
from common.records.calibration import Calibration
from common.records.ceiling import AS_TRAINED, Ceiling, ClockedProduct, Window
from common.records.collective_times import Cell, CollectivesRecord, Replayed
from common.records.files import from_json
from common.records.trace import STEP, Message
from common.records.training import Record
from reports.tables.material import Material
from reports.tables.results import Results
from tests.common.laboratory.collective_records import record
from tests.reports.records import named


def material_of(*records: Record, rounds: Sequence[int] = (), folder: Path = Path(), **more: object) -> Material:
    """What the sections of a report on these records are made from, with a plan that has each in its round, if any."""
    stems = named(*records)
    planned = {
        "launch": [*stems][: len(rounds)],
        "repetition": rounds,
        "stage": "round",
        "order_seed": 7,
        "margin": 0.05,
    }
    return Material(Results(folder, stems, pd.DataFrame(planned) if rounds else None, **more))


def probe(framework: str = "amber", milliseconds: float = 1.0, **changes: object) -> Ceiling:
    """A probe whose products take so long in all, each as long as the others."""
    known_products = probing.products_of_step(PRESETS["digits"], 64)
    products = [
        ClockedProduct(
            **structs.asdict(product),
            way=AS_TRAINED,
            windows=[Window(repetitions=2, seconds=2 * milliseconds / 1000 / len(known_products))],
        )
        for product in known_products
    ]
    known = {
        **{"family": framework.title(), "framework": framework, "status": "ok", "preset": "digits", "rows": 64},
        **{"dimensions": [64, 128, 64, 10], "world_size": 2, "threads_per_worker": 1, "products": products},
        **{"exchange": [{"repetitions": 10, "seconds": 0.004}], "backend": "some backend", "operation": "a sum"},
        "started_at": "2026-01-02T03:04:05.678+00:00",
    }
    return from_json(known | changes, Ceiling)


def replayed(launch: str, traced: Iterable[float] = (), strategy: str = "amber_ring") -> Replayed:
    """Whose messages were replayed, and for how many seconds a tracer saw them under way."""
    return Replayed(strategy=strategy, launch=launch, source="a tracer", under_way_seconds=[*traced])


def replay(milliseconds: float, repetition: int = 1, messages: int = 1, **changes: object) -> CollectivesRecord:
    """A good replay whose two calls take so long from when the second rank begins, which it does 1 ms later."""
    seconds = milliseconds / 1000
    sent = [Message(collective="all_reduce", size_bytes=500_000)] * messages
    cell = Cell(
        **{"collective": STEP, "size_bytes": 500_000 * messages, "status": "ok", "messages": sent},
        entered_seconds=[[0.0, 1.0], [0.001, 1.001]],
        left_seconds=[[0.001 + seconds, 1.001 + seconds], [0.001 + seconds / 2, 1.001 + seconds / 2]],
    )
    about = {"repetition": repetition, "replayed": replayed(f"amber_ring-2w-{repetition:02d}")}
    return record(cell, **about | changes)


def replays(launches: Iterable[str], milliseconds: float, under_way: tuple[float, ...] = (), **changes: object) -> dict:
    """A replay of each of these launches, whose messages a tracer saw under way for so many milliseconds."""
    traced = [each / 1000 for each in under_way]
    return {
        f"replay-{number}": replay(milliseconds, number, replayed=replayed(launch, traced), **changes)
        for number, launch in enumerate(launches, start=1)
    }


CALIBRATED = Calibration(
    **{"date": "2026-01-02", "commit": "0123456789", "processor": "Some CPU", "cores": 2, "strategy": "amber"},
    **{"workers": 1, "order_seed": 7, "rounds": 180, "blocks": 30, "alarms": 2, "alarms_bound": 0.2207},
    **{"spread": 0.01, "long_blocks": 18, "found": 18, "busy_share": 0.05, "smallest_difference": 0.0146},
)
