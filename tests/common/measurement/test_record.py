"""common/measurement/record.py: whose bytes a record has."""

from types import SimpleNamespace

import pytest

from common.measurement import record


@pytest.mark.parametrize(
    ("workers", "fields"),
    [
        (4, {"wire_bytes_per_step": 40.0, "host_bytes_per_step": [10.0, 30.0]}),
        # Elastic workers, of whom some were lost.
        (1, {"wire_bytes_per_step": None}),
        (2, {"wire_bytes_per_step": None}),
    ],
)
def test_bytes_of_hosts_are_known_while_all_of_their_workers_are_there(workers, fields, monkeypatch):
    hosts = [SimpleNamespace(workers=2), SimpleNamespace(workers=2)]
    monkeypatch.setattr(record, "site", lambda: SimpleNamespace(hosts=hosts))
    monkeypatch.setattr(record.machine, "has_private_network", lambda: False)
    parts = [SimpleNamespace(sent_bytes=sent) for sent in (100, 100, 300, 300)][:workers]
    assert record.wire_bytes(parts, workers, steps=10) == fields
