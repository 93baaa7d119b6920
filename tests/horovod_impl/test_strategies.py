"""horovod_impl/strategies.py: what Horovod's strategies can't have, how they are started, and what they send."""

import dataclasses
import random
from pathlib import Path

import pytest

from common.contract.task import PRESETS, Task
from common.declarations.strategy import Launch, LaunchHost
from common.errors import UserError
from common.measurement.record import declared
from common.sessions.comparison_scope import Scope, whole_round
from horovod_impl.strategies import ELASTIC, HOROVOD, KERAS, TENSORFLOW, TORCH

ALL = pytest.mark.parametrize("strategy", [TORCH, TENSORFLOW, KERAS], ids=lambda strategy: strategy.name)


def test_elastic_is_over_gloo_and_horovod_waits_no_longer_than_the_launch_lasts():
    with pytest.raises(UserError, match="Horovod is elastic over Gloo alone; leave one out"):
        TORCH.options(commit_steps=10, backend="mpi")
    settings = HOROVOD.settings(42, 1, "lo")
    assert (settings["HOROVOD_GLOO_TIMEOUT_SECONDS"], settings["HOROVOD_START_TIMEOUT"]) == ("42", "42")
    assert (settings["GLOO_SOCKET_IFNAME"], settings["TF_CPP_MIN_LOG_LEVEL"]) == ("lo", "2")
    assert {"horovod", "torch", "tensorflow-cpu", "tensorflow", "keras", "openmpi"} <= {*HOROVOD.packages}


@ALL
def test_adasum_is_over_mpi_and_of_a_power_of_two(strategy):
    with pytest.raises(UserError, match="has Adasum over MPI alone; add --backend mpi"):
        strategy.check(Task(), strategy.options(adasum=True), 2, 0)
    pairs = strategy.options(adasum=True, backend="mpi")
    for workers in (1, 2, 4, 8):
        strategy.check(Task(), pairs, workers, 0)
    with pytest.raises(UserError, match=r"--adasum with 3 workers: .* use 1, 2, 4 or 8"):
        strategy.check(Task(batch=66), pairs, 3, 0)
    strategy.check(Task(batch=66), strategy.options(), 3, 0)


@ALL
def test_summing_machine_by_machine_needs_gpus(strategy):
    hierarchical = strategy.options(hierarchical_all_reduce=True)
    with pytest.raises(UserError, match="over NCCL alone, which joins GPUs, but this machine has none"):
        strategy.check(Task(), hierarchical, 2, 0)
    strategy.check(Task(), hierarchical, 2, 1)


def test_what_keras_computes_differently_is_refused_with_the_strategy_to_use_instead():
    task = Task(momentum=0.9, weight_decay=0.01)
    with pytest.raises(UserError, match=f"keeps weight decay out of the momentum.*or use {TENSORFLOW.name}"):
        KERAS.check(task, KERAS.options(), 2, 0)
    for strategy in (TENSORFLOW, TORCH):
        strategy.check(task, strategy.options(), 2, 0)


# Launches


def command_of(strategy, workers=4, **options):
    script = [strategy.script, "--batch", "32"]
    launch = Launch(Path("/environment/bin/python"), script, workers, 29500, strategy.options(**options))
    return strategy.launcher.command(launch)


@ALL
@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_horovodrun_starts_a_python_for_each_worker(strategy, backend):
    assert command_of(strategy, backend=backend) == [
        *("/environment/bin/horovodrun", "--gloo", "-np", "4"),
        *("/environment/bin/python", strategy.script, "--batch", "32"),
    ]


@pytest.mark.parametrize(
    ("workers", "hosts"),
    [
        (1, "localhost:1"),
        (2, "localhost:1,127.0.0.1:1"),
        (3, "localhost:2,127.0.0.1:1"),
        (4, "localhost:2,127.0.0.1:2"),
    ],
)
def test_what_is_elastic_has_one_machine_as_two_hosts_since_horovodrun_gives_up_a_whole_host(workers, hosts):
    command = command_of(TORCH, workers, commit_steps=50)
    assert command[:4] == ["/environment/bin/horovodrun", "--gloo", "-np", str(workers)]
    assert command[4:-4] == [*ELASTIC, "--network-interfaces", "lo", "-H", hosts]


PLACES = (
    LaunchHost("host1", "10.0.0.1", "10.0.0.0/24", "eth0", workers=2),
    LaunchHost("host2", "10.0.0.2", "10.0.0.0/24", "eth0", workers=2),
)


@pytest.mark.parametrize(
    ("interface", "network"), [("eth0", ["--network-interfaces", "eth0"]), ("ens3", [])], ids=["same", "other"]
)
def test_over_hosts_what_is_elastic_keeps_to_the_interface_that_all_have(interface, network):
    places = (PLACES[0], dataclasses.replace(PLACES[1], interface=interface))
    options = TORCH.options(commit_steps=50)
    launch = Launch(Path("/environment/bin/python"), [TORCH.script], 4, 29500, options, places)
    [[elastic], _] = TORCH.launcher.across_hosts(launch)
    assert elastic[elastic.index("-H") + 2 :] == [*network, *ELASTIC, "/environment/bin/python", TORCH.script]


# The comparison


def test_the_full_profile_has_both_controllers_at_horovods_own_and_the_best_setting_and_with_a_timeline():
    names = tuple(strategy.name for strategy in (TORCH, TENSORFLOW, KERAS))
    scope = Scope(profile="full", strategies=names, workers=(2,), preset=("pathway",))
    launches = whole_round(scope, 1, random.Random(0)).launches
    for name in names:
        assert {each.options.backend for each in launches if each.strategy.name == name} == {"auto", "mpi"}
    for name in names[:2]:
        own = [each.options for each in launches if each.strategy.name == name and each.purpose == "throughput"]
        settings = {(options.backend, options.cycle_milliseconds, options.trace) for options in own}
        for backend in ("auto", "mpi"):
            assert {(backend, None, False), (backend, 0.1, False), (backend, None, True)} <= settings


# Traffic


@ALL
@pytest.mark.parametrize(
    ("values", "sent"), [({}, 6000), ({"compression": "fp16"}, 3000), ({"adasum": True, "backend": "mpi"}, None)]
)
def test_four_workers_with_a_thousand_bytes_of_gradients_send_what_the_formula_says(strategy, values, sent):
    assert strategy.traffic(1000, 4, strategy.options(**values)).bytes_per_step == sent


@pytest.mark.parametrize(
    ("strategy", "framework"), [(TORCH, "torch"), (TENSORFLOW, "tensorflow"), (KERAS, "tensorflow")]
)
def test_a_record_names_the_framework_that_computes_even_where_the_launch_failed(strategy, framework):
    assert declared(strategy, PRESETS["digits"], strategy.options(), 2)["framework"] == framework
