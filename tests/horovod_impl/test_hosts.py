"""Horovod on two hosts, as horovodrun starts it on the first: it reaches the second by ssh."""

import pytest

from common.contract.model import parameter_bytes
from tests.hosts import bytes_sent_by
from tests.launching import assert_record_follows


@pytest.mark.grid
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_horovod_follows_the_oracle_on_two_hosts(controller, site):
    task = site.task(4)
    process = site.start(controller, "host1:2,host2:2", task)
    output, _ = process.communicate(timeout=task.deadline_seconds)
    first, second = site.disks
    assert process.returncode == 0, output
    record = assert_record_follows(first)
    assert (record.world_size, record.backend) == (4, controller)
    assert (first / "weights.safetensors").exists()
    assert not list(second.iterdir()), "only rank 0 writes"
    site.wait_until_idle()
    for host in site.hosts:
        assert bytes_sent_by(host) > task.steps * parameter_bytes(task)
