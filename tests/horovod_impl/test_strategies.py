"""horovod_impl/strategies.py: what Horovod's strategies can't have, how they are started, and what they send."""

import dataclasses
import os
import random
from pathlib import Path

import pytest

from common.contract.task import PRESETS, Task
from common.declarations.strategy import Launch, LaunchHost, label
from common.errors import UserError
from common.measurement.record import declared
from common.sessions.comparison_scope import Scope, whole_round
from horovod_impl.strategies import ELASTIC, HOROVOD, KERAS, TENSORFLOW, TORCH

ALL = pytest.mark.parametrize("strategy", [TORCH, TENSORFLOW, KERAS], ids=lambda strategy: strategy.name)
INFINITE = float("inf")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"compression": "bf16"}, "--compression bf16: choose one of none, fp16."),
        # Horovod takes NCCL by itself, where its build has it.
        ({"backend": "nccl"}, "--backend nccl: choose one of auto, gloo, mpi."),
        ({"fusion_megabytes": -1.0}, "--fusion-megabytes -1.0: give 0 or more."),
        ({"cycle_milliseconds": INFINITE}, "--cycle-milliseconds inf: give 0 or more."),
    ],
)
@ALL
def test_a_value_that_cannot_be_meant_is_refused_with_what_to_give_instead(strategy, values, said):
    with pytest.raises(UserError) as caught:
        strategy.options(**values)
    assert str(caught.value) == said


def test_elastic_is_over_gloo():
    with pytest.raises(UserError, match="Horovod is elastic over Gloo alone; leave one out"):
        TORCH.options(commit_steps=10, backend="mpi")


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


# Labels


@ALL
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"compression": "fp16"}, "fp16 compression, other maths"),
        ({"backend": "mpi", "adasum": True}, "mpi backend, adasum, other maths"),
        ({"fusion_megabytes": 0.0, "cycle_milliseconds": 0.5}, "0.0 fusion megabytes, 0.5 cycle milliseconds"),
    ],
)
def test_options_that_differ_stand_in_the_label_and_other_maths_last(strategy, values, words):
    assert label(strategy.options(**values)) == words


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


@ALL
def test_over_mpi_the_workers_are_started_by_mpirun(strategy, tmp_path, monkeypatch):
    (tmp_path / "mpirun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    command = command_of(strategy, backend="mpi")
    assert Path(command[0]).name == "mpirun"
    assert command[-6:] == ["-np", "4", "/environment/bin/python", strategy.script, "--batch", "32"]


PLACES = (
    LaunchHost("host1", "10.0.0.1", "10.0.0.0/24", "eth0", workers=2),
    LaunchHost("host2", "10.0.0.2", "10.0.0.0/24", "eth0", workers=2),
)


@pytest.mark.parametrize(
    ("interface", "network"), [("eth0", ["--network-interfaces", "eth0"]), ("ens3", [])], ids=["same", "other"]
)
def test_over_hosts_the_first_ones_horovodrun_starts_all(interface, network):
    places = (PLACES[0], dataclasses.replace(PLACES[1], interface=interface))
    launch = Launch(Path("/environment/bin/python"), [TORCH.script], 4, 29500, TORCH.options(), places)
    assert TORCH.launcher.across_hosts(launch) == [
        [
            [
                *("/environment/bin/horovodrun", "--gloo", "--disable-cache", "-np", "4", "-H", "host1:2,host2:2"),
                *(*network, "/environment/bin/python", TORCH.script),
            ]
        ],
        [],
    ]
    [[elastic], _] = TORCH.launcher.across_hosts(dataclasses.replace(launch, options=TORCH.options(commit_steps=50)))
    assert elastic[elastic.index("-H") + 2 :] == [*network, *ELASTIC, "/environment/bin/python", TORCH.script]


def test_over_hosts_and_mpi_the_first_ones_mpirun_starts_all(tmp_path, monkeypatch):
    (tmp_path / "mpirun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    options = TORCH.options(backend="mpi")
    launch = Launch(Path("/environment/bin/python"), [TORCH.script], 4, 29500, options, PLACES)
    [command], nothing = TORCH.launcher.across_hosts(launch)
    assert (command[0], nothing) == (str(tmp_path / "mpirun"), [])


def test_horovod_waits_no_longer_than_the_launch_lasts():
    settings = HOROVOD.settings(42, 1, "lo")
    assert (settings["HOROVOD_GLOO_TIMEOUT_SECONDS"], settings["HOROVOD_START_TIMEOUT"]) == ("42", "42")
    assert (settings["GLOO_SOCKET_IFNAME"], settings["TF_CPP_MIN_LOG_LEVEL"]) == ("lo", "2")


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


def test_records_note_the_versions_of_horovod_and_of_all_that_it_works_with():
    assert {"horovod", "torch", "tensorflow-cpu", "tensorflow", "keras", "openmpi"} <= {*HOROVOD.packages}


@pytest.mark.parametrize(
    ("strategy", "framework"), [(TORCH, "torch"), (TENSORFLOW, "tensorflow"), (KERAS, "tensorflow")]
)
def test_a_record_names_the_framework_that_computes_even_where_the_launch_failed(strategy, framework):
    assert declared(strategy, PRESETS["digits"], strategy.options(), 2)["framework"] == framework
