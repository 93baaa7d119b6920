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

STRATEGIES = (TORCH, TENSORFLOW, KERAS)
ALL = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
PAIRS = {"adasum": True, "backend": "mpi"}


def test_horovod_waits_no_longer_than_the_launch_lasts_and_gloo_listens_where_the_workers_are():
    settings = HOROVOD.settings(42, 1, "lo")
    assert (settings["HOROVOD_GLOO_TIMEOUT_SECONDS"], settings["HOROVOD_START_TIMEOUT"]) == ("42", "42")
    assert (settings["GLOO_SOCKET_IFNAME"], settings["TF_CPP_MIN_LOG_LEVEL"]) == ("lo", "2")


@ALL
@pytest.mark.parametrize(
    ("options", "workers", "gpus", "refusal"),
    [
        ({}, 3, 0, None),
        ({"adasum": True}, 2, 0, "has Adasum over MPI alone; add --backend mpi"),
        *((PAIRS, workers, 0, None) for workers in (1, 2, 4, 8)),
        (PAIRS, 3, 0, r"--adasum with 3 workers: .* use 1, 2, 4 or 8"),
        ({"hierarchical_all_reduce": True}, 2, 0, "over NCCL alone, which joins GPUs, but this machine has none"),
        ({"hierarchical_all_reduce": True}, 2, 1, None),
    ],
)
def test_what_horovod_cannot_have_is_refused_with_a_remedy(strategy, options, workers, gpus, refusal):
    task = Task(batch=66 if workers == 3 else 64)
    if refusal is None:
        strategy.check(task, strategy.options(**options), workers, gpus)
    else:
        with pytest.raises(UserError, match=refusal):
            strategy.check(task, strategy.options(**options), workers, gpus)


def test_elastic_is_over_gloo_and_what_keras_computes_differently_is_refused_with_the_strategy_to_use_instead():
    with pytest.raises(UserError, match="Horovod is elastic over Gloo alone; leave one out"):
        TORCH.options(commit_steps=10, backend="mpi")
    task = Task(momentum=0.9, weight_decay=0.01)
    with pytest.raises(UserError, match=f"keeps weight decay out of the momentum.*or use {TENSORFLOW.name}"):
        KERAS.check(task, KERAS.options(), 2, 0)
    for strategy in (TENSORFLOW, TORCH):
        strategy.check(task, strategy.options(), 2, 0)


def launch_of(strategy, workers=4, hosts=(), **options):
    script = [strategy.script, "--batch", "32"]
    return Launch(Path("/environment/bin/python"), script, workers, 29500, strategy.options(**options), hosts)


@ALL
@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_horovodrun_starts_a_python_for_each_worker(strategy, backend):
    assert strategy.launcher.command(launch_of(strategy, backend=backend)) == [
        *("/environment/bin/horovodrun", "--gloo", "-np", "4"),
        *("/environment/bin/python", strategy.script, "--batch", "32"),
    ]


@pytest.mark.parametrize(
    ("workers", "hosts"), [(1, "localhost:1"), (3, "localhost:2,127.0.0.1:1"), (4, "localhost:2,127.0.0.1:2")]
)
def test_what_is_elastic_has_one_machine_as_two_hosts_since_horovodrun_gives_up_a_whole_host(workers, hosts):
    command = TORCH.launcher.command(launch_of(TORCH, workers, commit_steps=50))
    assert command[:4] == ["/environment/bin/horovodrun", "--gloo", "-np", str(workers)]
    assert command[4:-4] == [*ELASTIC, "--network-interfaces", "lo", "-H", hosts]


@pytest.mark.parametrize(
    ("interface", "network"), [("eth0", ["--network-interfaces", "eth0"]), ("ens3", [])], ids=["same", "other"]
)
def test_over_hosts_what_is_elastic_keeps_to_the_interface_that_all_have(interface, network):
    first = LaunchHost("host1", "10.0.0.1", "10.0.0.0/24", "eth0", workers=2)
    second = dataclasses.replace(first, name="host2", address="10.0.0.2", interface=interface)
    [[elastic], _] = TORCH.launcher.across_hosts(launch_of(TORCH, hosts=(first, second), commit_steps=50))
    world = ["/environment/bin/horovodrun", "--gloo", "--disable-cache", "-np", "4", "-H", "host1:2,host2:2"]
    assert elastic == [*world, *network, *ELASTIC, "/environment/bin/python", TORCH.script, "--batch", "32"]


def test_the_full_profile_has_both_controllers_at_horovods_own_and_the_best_setting_and_with_a_timeline():
    names = tuple(strategy.name for strategy in STRATEGIES)
    scope = Scope(profile="full", strategies=names, workers=(2,), preset=("pathway",))
    launches = whole_round(scope, 1, random.Random(0)).launches
    for name in names:
        assert {each.options.backend for each in launches if each.strategy.name == name} == {"auto", "mpi"}
    for name in names[:2]:
        own = [each.options for each in launches if each.strategy.name == name and each.purpose == "throughput"]
        settings = {(options.backend, options.cycle_milliseconds, options.trace) for options in own}
        for backend in ("auto", "mpi"):
            assert {(backend, None, False), (backend, 0.1, False), (backend, None, True)} <= settings


@ALL
@pytest.mark.parametrize(("options", "sent"), [({}, 6000), ({"compression": "fp16"}, 3000), (PAIRS, None)])
def test_four_workers_with_a_thousand_bytes_of_gradients_send_what_the_formula_says(strategy, options, sent):
    assert strategy.traffic(1000, 4, strategy.options(**options)).bytes_per_step == sent


def test_a_record_names_the_framework_that_computes_even_where_the_launch_failed():
    named = [declared(each, PRESETS["digits"], each.options(), 2)["framework"] for each in STRATEGIES]
    assert named == ["torch", "tensorflow", "tensorflow"]
