"""The PyTorch strategies on two hosts, as `torchrun --nnodes 2` starts them: they train, and they end."""

import dataclasses
import os
import time

import psutil
import pytest

from common import mlp
from common.config import to_arguments
from common.launch import ROOT, UNDISTRIBUTED, environment_for, framework_of, python_for, strategies
from common.record import read_record
from tests.conftest import Launched
from tests.contract.test_contract import assert_follows, contract_config
from tests.hosts import INTERFACE, two_hosts

ONE_PROCESS = UNDISTRIBUTED | {"torch_data_parallel"}
STRATEGIES = [name for name in strategies() if name.startswith("torch_") and name not in ONE_PROCESS]


@pytest.fixture
def hosts():
    """Two hosts, in the order of their ranks."""
    with two_hosts() as pair:
        yield pair


def config_for(folder, workers=2):
    """The contract's config on the CPU, since both hosts would find the same GPU."""
    return contract_config("digits", workers, folder, device="cpu")


def start(strategy, config, hosts, folder):
    """torchrun on both hosts, as a user types it there; each has its own folder, as where hosts share no disk."""
    torchrun = python_for(framework_of(strategy)).parent / "torchrun"
    environment = environment_for(config) | {"GLOO_SOCKET_IFNAME": INTERFACE}
    processes = []
    for number, host in enumerate(hosts):
        own = folder / f"host{number}"
        files = {"record": own / "run.json", "checkpoint": own / "weights.safetensors"}
        world = ["--nnodes", len(hosts), "--nproc-per-node", config.workers // len(hosts), "--node-rank", number]
        rendezvous = ["--master-addr", hosts[0].address, "--master-port", 29500]
        script = [strategies()[strategy].relative_to(ROOT), *to_arguments(dataclasses.replace(config, **files))]
        processes.append(host.start([str(word) for word in (torchrun, *world, *rendezvous, *script)], environment))
    return processes


def launch(strategy, config, hosts, folder):
    """How both hosts' torchrun ended, what they printed, and what they left on the first host."""
    processes = start(strategy, config, hosts, folder)
    deadline = time.monotonic() + 120
    statuses = [None]
    # When one fails, the other may wait five minutes for it: torchrun leaves the world together, at a barrier.
    while None in statuses and not any(statuses) and time.monotonic() < deadline:
        time.sleep(0.1)
        statuses = [process.poll() for process in processes]
    for host in hosts:
        host.kill_processes()
    output = "".join(process.communicate()[0] for process in processes)
    status = next((process.returncode for process in processes if process.returncode), 0)
    record = folder / "host0" / "run.json"
    return Launched(status, output, read_record(record) if record.exists() else None, record.parent)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_follows_the_oracle_on_two_hosts(strategy, hosts, deviation_of, tmp_path):
    launched = launch(strategy, config_for(tmp_path), hosts, tmp_path)
    assert_follows(launched, deviation_of(launched))
    assert launched.record.world_size == 2
    assert not (tmp_path / "host1").exists(), "only rank 0 writes"


def test_two_workers_on_each_host_average_their_gradients_over_the_cable(hosts, deviation_of, tmp_path):
    config = config_for(tmp_path, workers=4)
    launched = launch("torch_ddp", config, hosts, tmp_path)
    assert_follows(launched, deviation_of(launched))
    assert launched.record.world_size == 4
    gradient_bytes = sum(weight.nbytes for weight in mlp.initial_weights(config).values())
    for host in hosts:
        assert host.bytes_sent() > config.steps * gradient_bytes


def test_a_lost_host_ends_the_other_one_long_before_the_deadline(hosts, tmp_path):
    config = dataclasses.replace(config_for(tmp_path), steps=1_000_000)
    first, _ = start("torch_ddp", config, hosts, tmp_path)
    assert any(line.startswith("step ") for line in first.stdout), "it never trained"
    hosts[1].kill_processes()
    output, _ = first.communicate(timeout=config.deadline_seconds / 4)
    assert first.returncode > 0, output
    assert not hosts[0].processes()
    assert not (tmp_path / "host0" / "run.json").exists()


def test_hosts_end_with_all_that_runs_on_them_when_a_test_fails():
    pids = []

    def fail():
        with two_hosts() as hosts:
            # One sleep is in a session of its own, as a launcher's workers are.
            process = hosts[1].start(["sh", "-c", "setsid sleep 600 & echo $!; exec sleep 600"], os.environ)
            pids.extend([process.pid, int(process.stdout.readline()), *(host.keeper for host in hosts)])
            assert set(hosts[1].processes()) == set(pids[:2])
            raise RuntimeError("the test fails")

    with pytest.raises(RuntimeError, match="the test fails"):
        fail()
    assert not any(is_running(pid) for pid in pids)


def is_running(pid):
    """Whether the process is more than an entry that waits for its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
