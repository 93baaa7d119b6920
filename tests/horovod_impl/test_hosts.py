"""Horovod on two hosts, as horovodrun starts it on the first: it reaches the second by ssh."""

import pytest

from common.contract.model import parameter_bytes
from common.records.files import read_record
from common.records.training import Record
from tests.conftest import Launched
from tests.hosts import bytes_sent_by
from tests.launching import assert_follows


@pytest.mark.grid
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_horovod_follows_the_oracle_on_two_hosts(controller, site, comparison_of):
    task = site.task(4)
    process = site.start(controller, "host1:2,host2:2", task)
    output, _ = process.communicate(timeout=task.deadline_seconds)
    first, second = site.disks
    path = first / "run.json"
    launched = Launched(process.returncode, output, read_record(path, Record) if path.exists() else None, first)
    assert_follows(launched, comparison_of(launched))
    assert launched.record.world_size == 4
    assert launched.record.backend == controller
    assert (first / "weights.safetensors").exists()
    assert not list(second.iterdir()), "only rank 0 writes"
    site.wait_until_idle()
    for host in site.hosts:
        assert bytes_sent_by(host) > task.steps * parameter_bytes(task)
