"""What the tests of sessions share: a lock of their own, and a made-up launch."""

import os
from dataclasses import dataclass

import pytest

from common.measurement import machine


@dataclass(frozen=True)
class Launch:
    """A made-up launch of a round."""

    series: str
    repetition: int = 1

    @property
    def name(self):
        return f"{self.series}-{self.repetition}"


@pytest.fixture(autouse=True)
def _own_lock(tmp_path, monkeypatch):
    """Let a session that a test runs in its own process take turns with none that another test runs beside it."""
    monkeypatch.setattr(machine, "_LOCKED", tmp_path)
    monkeypatch.setattr(machine, "_CLAIM", f"\0lockstep-measures-{os.getpid()}")
