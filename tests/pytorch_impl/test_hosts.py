"""The PyTorch strategies on two hosts, as `torchrun --nnodes 2` starts them: they train, and they end."""

import dataclasses

import pytest

from common.contract.model import parameter_bytes
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find, strategies
from common.launching.launch import environment_for, python_for
from common.launching.virtual_hosts.description import INTERFACE
from pytorch_impl.strategies import TORCHRUN
from tests.contract.worlds import contract_task
from tests.hosts import bytes_sent_by, kill_processes_of, processes_of, two_hosts
from tests.launching import assert_record_follows, end_all

STRATEGIES = [
    *(
        pytest.param(name, 2, marks=[] if strategy.quick else [pytest.mark.grid])
        for name, strategy in strategies().items()
        if strategy.launcher is TORCHRUN
    ),
    pytest.param("torch_ddp", 4, marks=[pytest.mark.hosts]),
]
"""Each with a number of workers."""


@pytest.fixture
def hosts():
    """Two hosts, in the order of their ranks."""
    with two_hosts() as pair:
        yield pair


def start(strategy, task, hosts, folder):
    """torchrun on both hosts, as a user types it there; each has its own folder, as where hosts share no disk."""
    declared = find(strategy)
    torchrun = python_for(declared).parent / "torchrun"
    environment = environment_for(declared, task) | {"GLOO_SOCKET_IFNAME": INTERFACE}
    processes = {}
    for number, host in enumerate(hosts):
        own = folder / f"host{number}"
        files = {"record": own / "run.json", "checkpoint": own / "weights.safetensors"}
        world = ["--nnodes", len(hosts), "--nproc-per-node", task.workers // len(hosts), "--node-rank", number]
        rendezvous = ["--master-addr", hosts[0].name, "--master-port", 29500]
        script = [declared.script, *to_arguments(dataclasses.replace(task, **files), declared.options())]
        words = [str(word) for word in (torchrun, *world, *rendezvous, *script)]
        processes[number] = host.start(words, environment)
    return processes


@pytest.mark.parametrize(("strategy", "workers"), STRATEGIES)
def test_a_strategy_follows_the_oracle_on_two_hosts(strategy, workers, hosts, tmp_path):
    # On the CPU, since both hosts would find the same GPU.
    task = contract_task("digits", workers, tmp_path, device="cpu")
    statuses, outputs = end_all(start(strategy, task, hosts, tmp_path), 120)
    assert set(statuses.values()) == {0}, outputs
    assert assert_record_follows(tmp_path / "host0").world_size == workers
    assert not (tmp_path / "host1").exists(), "only rank 0 writes"
    if workers == 4:
        # They average their gradients over the cable.
        assert all(bytes_sent_by(host) > task.steps * parameter_bytes(task) for host in hosts)


@pytest.mark.grid
def test_a_lost_host_ends_the_other_one_long_before_the_deadline(hosts, tmp_path):
    task = contract_task("digits", 2, tmp_path, device="cpu", steps=1_000_000)
    before = set(processes_of(hosts[0]))
    first = start("torch_ddp", task, hosts, tmp_path)[0]
    assert any(line.startswith("step ") for line in first.stdout), "it never trained"
    kill_processes_of(hosts[1])
    output, _ = first.communicate(timeout=task.deadline_seconds / 4)
    assert first.returncode > 0, output
    assert set(processes_of(hosts[0])) == before
    assert not (tmp_path / "host0" / "run.json").exists()
