"""Launches whose processes held so much memory."""

from common.records.training import Record
from tests.reports.records import make_record

MEGABYTE = 1_000_000


def holding(strategy: str, *processes: dict[str, int], workers: int = 2) -> Record:
    return make_record(strategy, workers, memory_bytes=[*processes])


def process(parameters: int, state: int = 0, peak: int = 400, **more: int) -> dict[str, int]:
    """What a process with so many megabytes of parameters tells; its gradients are as large."""
    sizes = {"parameters": parameters, "gradients": parameters, "optimizer_state": state, "above_import": peak}
    return {name: value * MEGABYTE for name, value in (sizes | more).items()}
