"""What the tests of sessions share: a lock of their own."""

import os

import pytest

from common.measurement import machine


@pytest.fixture(autouse=True)
def _own_lock(tmp_path, monkeypatch):
    """Let a session that a test runs in its own process take turns with none that another test runs beside it."""
    monkeypatch.setattr(machine, "_LOCKED", tmp_path)
    monkeypatch.setattr(machine, "_CLAIM", f"\0lockstep-measures-{os.getpid()}")
