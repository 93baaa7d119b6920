"""horovod_impl/ceiling.py, started as a comparison starts it: it clocks Horovod's exchange and no products."""

import dataclasses

from common.contract import model
from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.launching import executor
from common.measurement import probing
from common.records.ceiling import seconds_of
from common.sessions import probes


def test_the_exchange_is_of_as_many_bytes_as_the_gradients_have_and_no_products_are_clocked(tmp_path):
    task = dataclasses.replace(PRESETS["digits"], scaling="weak", workers=2, deadline_seconds=60.0)
    probe = probes.PlannedProbe(strategy=find("horovod_torch"), task=task, variables={})
    found = executor.run_planned(probe, tmp_path)
    assert found.status == "ok", found.reason
    assert (found.backend, found.world_size, found.products) == ("gloo", 2, [])
    assert found.exchanged_bytes == model.parameter_bytes(PRESETS["digits"])
    assert len(found.exchange) == probing.WINDOWS
    assert 0 < seconds_of(found.exchange) < 10
    assert "Gloo" in found.facts["built with"]
