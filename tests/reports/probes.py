"""Probes of frameworks' ceilings for the report's tests, made up."""

from msgspec import structs

from common.contract.task import PRESETS
from common.measurement import probing
from common.records.ceiling import AS_TRAINED, Ceiling, ClockedProduct, Window
from common.records.files import from_json

PRODUCTS = probing.products_of_step(PRESETS["digits"], 64)


def probe(framework: str = "amber", milliseconds: float = 1.0, **changes: object) -> Ceiling:
    """A probe whose products take so long in all, each as long as the others."""
    ways = changes.pop("ways", {AS_TRAINED: milliseconds})
    products = [
        ClockedProduct(
            **structs.asdict(product),
            way=way,
            windows=[Window(repetitions=2, seconds=2 * value / 1000 / len(PRODUCTS))],
        )
        for way, value in ways.items()
        for product in PRODUCTS
    ]
    known = {
        **{"family": framework.title(), "framework": framework, "status": "ok", "preset": "digits", "rows": 64},
        **{"dimensions": [64, 128, 64, 10], "world_size": 2, "threads_per_worker": 1, "products": products},
        **{"exchange": [{"repetitions": 10, "seconds": 0.004}], "backend": "some backend", "operation": "a sum"},
        **{"facts": {"products by": "hand", "nothing": ""}, "instruction_sets": ["avx2"]},
        "started_at": "2026-01-02T03:04:05.678+00:00",
    }
    return from_json(known | changes, Ceiling)
