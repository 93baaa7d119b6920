"""Records of earlier schema versions."""

from collections.abc import Mapping

from msgspec import to_builtins

from common.contract.task import Task
from common.declarations.sweep import Sweep
from common.records.header import SCHEMA_VERSION

_RENAMED = {"workers": "world_size", "threads": "threads_per_worker"}
"""Names that only training's records had before."""

_ESSENTIAL = {"preset", "dimensions", "batch", "steps", "window_steps", "checkpoint_steps", "seed"}
"""Options that every task had; one that was added later is at its default in an older record."""


def lifted(values: Mapping[str, object]) -> dict[str, object]:
    """The values of a record of the schema version before, which is 2 for training and 1 for all else, as now.

    An empty object stood for what there wasn't, and only records of training named their workers and threads as now.
    """
    found = {_RENAMED.get(name, name): value for name, value in values.items() if value != {}}
    if isinstance(task := found.get("task"), dict):
        defaults = to_builtins(Task(), enc_hook=str)
        found["task"] = {name: value for name, value in defaults.items() if name not in _ESSENTIAL} | task
    if "library" in found:
        # A record of messages that couldn't be traced had none.
        found.setdefault("sweep", to_builtins(Sweep(), enc_hook=str))
    asked = found.get("sweep", found.get("products"))
    if isinstance(asked, dict):
        found.setdefault("threads_per_worker", asked.get("threads"))
    return found | {"schema_version": SCHEMA_VERSION}
