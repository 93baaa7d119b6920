"""Probes of frameworks' ceilings for the report's tests, made up."""

import dataclasses

from common.contract.task import PRESETS
from common.measurement import ceiling
from common.measurement.ceiling import AS_TRAINED, Ceiling

PRODUCTS = ceiling.products_of_step(PRESETS["digits"], 64)


def probe(framework: str = "amber", milliseconds: float = 1.0, **changes: object) -> Ceiling:
    """A probe whose products take so long in all, each as long as the others."""
    ways = changes.pop("ways", {AS_TRAINED: milliseconds})
    products = [
        dataclasses.asdict(product)
        | {"way": way, "windows": [{"repetitions": 2, "seconds": 2 * value / 1000 / len(PRODUCTS)}]}
        for way, value in ways.items()
        for product in PRODUCTS
    ]
    known = {
        **{"family": framework.title(), "framework": framework, "status": "ok", "preset": "digits", "rows": 64},
        **{"dimensions": [64, 128, 64, 10], "workers": 2, "threads": 1, "products": products},
        **{"exchange": [{"repetitions": 10, "seconds": 0.004}], "backend": "some backend", "operation": "a sum"},
        **{"facts": {"products by": "hand", "nothing": ""}, "instruction_sets": ["avx2"]},
        "started_at": "2026-01-02T03:04:05.678+00:00",
    }
    return Ceiling(**known | changes)
