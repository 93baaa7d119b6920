"""Clusters of TensorFlow processes, as users or schedulers start them: they train, and they end, whatever happens."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from itertools import chain

import psutil
import pytest

from common import oracle
from common.config import PRESETS, from_record, to_arguments
from common.launch import ROOT, TIMED_OUT_STATUS, free_ports, python_for
from common.record import read_record

MULTI_WORKER, PARAMETER_SERVER = "tf_impl/multi_worker_mirrored.py", "tf_impl/parameter_server.py"


def addresses_of(*jobs):
    ports = iter(free_ports(sum(count for _, count in jobs)))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs}


def config_for(folder, **changes):
    values = {"steps": 100, "warmup_steps": 20, "seed": 3, "workers": 2, "deadline_seconds": 120.0} | changes
    files = {"record": folder / "run.json", "checkpoint": folder / "weights.safetensors"}
    return dataclasses.replace(PRESETS["digits"], **values, **files)


def start_task(script, config, **environment):
    command = [str(python_for("tensorflow")), script, *to_arguments(config)]
    settings = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment
    return subprocess.Popen(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def start_cluster(script, config, addresses):
    """One process for each task of TF_CONFIG, as a scheduler would start them."""
    return {
        (job, index): start_task(
            script, config, TF_CONFIG=json.dumps({"cluster": addresses, "task": {"type": job, "index": index}})
        )
        for job in addresses
        for index in range(len(addresses[job]))
    }


def end_all(processes, seconds):
    """(statuses, outputs) by task, once all have ended; those that haven't in time are killed, and the test fails."""
    deadline = time.monotonic() + seconds
    try:
        outputs = {
            task: process.communicate(timeout=deadline - time.monotonic()) for task, process in processes.items()
        }
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
    return {task: process.returncode for task, process in processes.items()}, {
        task: output for task, (output, _) in outputs.items()
    }


def assert_follows_the_oracle(folder):
    record = read_record(folder / "run.json")
    config = from_record(record.config)
    trajectory = oracle.run_oracle(config, record.examples_per_step, config.steps)
    deviation = oracle.deviation(record, config, folder, trajectory)
    assert deviation.follows, deviation
    return record


@pytest.mark.parametrize("chief", [0, 1])
def test_workers_that_tf_config_brings_together_follow_the_oracle(chief, tmp_path):
    jobs = [("chief", 1), ("worker", 1)] if chief else [("worker", 2)]
    processes = start_cluster(MULTI_WORKER, config_for(tmp_path), addresses_of(*jobs))
    statuses, outputs = end_all(processes, 120)
    assert set(statuses.values()) == {0}, outputs
    assert assert_follows_the_oracle(tmp_path).world_size == 2


def test_workers_that_slurm_starts_find_one_another_by_its_variables(tmp_path):
    """The variables that srun gives the tasks of a step; TensorFlow's resolver takes ports from 8888 on."""
    step = {
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_TASKS_PER_NODE": "2",
    }
    config = config_for(tmp_path)
    processes = {rank: start_task(MULTI_WORKER, config, SLURM_PROCID=str(rank), **step) for rank in range(2)}
    statuses, outputs = end_all(processes, 120)
    assert set(statuses.values()) == {0}, outputs
    assert assert_follows_the_oracle(tmp_path).world_size == 2


@pytest.mark.parametrize("updates", ["asynchronous", "synchronous"])
def test_a_coordinator_that_tf_config_names_takes_its_servers_with_it(updates, tmp_path):
    workers = 1 if updates == "asynchronous" else 2
    config = config_for(tmp_path, updates=updates, workers=workers)
    addresses = addresses_of(("chief", 1), ("worker", workers), ("ps", 2))
    statuses, outputs = end_all(start_cluster(PARAMETER_SERVER, config, addresses), 120)
    assert set(statuses.values()) == {0}, outputs
    record = assert_follows_the_oracle(tmp_path)
    assert record.synchronous == (updates == "synchronous")
    assert record.staleness == ([] if record.synchronous else [0] * 100)


def test_variables_are_cut_into_parts_that_lie_on_all_servers(launch, deviation_of, tmp_path):
    config = dataclasses.replace(
        PRESETS["pathway"], workers=2, steps=100, updates="synchronous", parameter_servers=2, momentum=0.5
    )
    launched = launch("tf_parameter_server", dataclasses.replace(config, checkpoint=tmp_path / "weights.safetensors"))
    assert launched.status == 0, launched.output
    deviation = deviation_of(launched)
    assert deviation.follows, deviation


@pytest.mark.parametrize("script", [MULTI_WORKER, PARAMETER_SERVER])
def test_a_partner_that_never_starts_ends_the_task_by_its_deadline_and_frees_the_port(script, tmp_path):
    jobs = [("worker", 2)] if script == MULTI_WORKER else [("chief", 1), ("worker", 1), ("ps", 1)]
    addresses = addresses_of(*jobs)
    missing = ("worker", 1) if script == MULTI_WORKER else ("ps", 0)
    config = config_for(tmp_path, workers=None, deadline_seconds=15.0)
    [(job, index)] = [("worker", 0)]
    tf_config = json.dumps({"cluster": addresses, "task": {"type": job, "index": index}})
    others = {("chief", 0)} if script == PARAMETER_SERVER else set()
    processes = {(job, index): start_task(script, config, TF_CONFIG=tf_config)}
    for other in others:
        environment = json.dumps({"cluster": addresses, "task": {"type": other[0], "index": other[1]}})
        processes[other] = start_task(script, config, TF_CONFIG=environment)
    statuses, outputs = end_all(processes, 40)
    assert set(statuses.values()) == {1}
    for output in outputs.values():
        assert f"({addresses[missing[0]][missing[1]]}) didn't start within the deadline of 15 s" in output
    assert not listening_ports() & {int(address.rpartition(":")[2]) for address in chain(*addresses.values())}


@pytest.mark.parametrize("script", [MULTI_WORKER, PARAMETER_SERVER])
def test_a_port_that_is_taken_is_refused_before_anything_trains(script, tmp_path):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        others = {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]} if script == PARAMETER_SERVER else {}
        cluster = others | {"worker": [f"127.0.0.1:{port}"]}
        tf_config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
        task = start_task(script, config_for(tmp_path, workers=None), TF_CONFIG=tf_config)
        statuses, outputs = end_all({"task": task}, 60)
    assert statuses["task"] == 2
    assert f"lockstep: Port {port} of worker 0 is taken" in outputs["task"]


def listening_ports():
    return {connection.laddr.port for connection in psutil.net_connections("tcp") if connection.status == "LISTEN"}


def refusal_in_place_of(tf_config, *command):
    """The one line with which a task refuses what TF_CONFIG says."""
    environment = os.environ | {"TF_CONFIG": tf_config, "TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    [line] = [line for line in result.stderr.splitlines() if line.startswith("lockstep:")]
    return line


@pytest.mark.parametrize(
    ("tf_config", "options", "words"),
    [
        (
            '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
            [],
            "1 coordinators (chief), 1 workers and 0 parameter servers",
        ),
        (
            '{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "task": {"type": "ps", "index": 0}}',
            ["--parameter-servers", "2"],
            "--parameter-servers 2, but the cluster has 1",
        ),
    ],
)
def test_a_cluster_without_a_coordinator_and_its_servers_is_refused_in_one_line(tf_config, options, words):
    command = [str(python_for("tensorflow")), PARAMETER_SERVER, *options]
    assert words in refusal_in_place_of(tf_config, *command)


def test_a_cluster_that_disagrees_with_workers_is_refused_in_one_line_by_the_script_and_by_its_session():
    tf_config = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
    script = [str(python_for("tensorflow")), MULTI_WORKER]
    session = [sys.executable, "-m", "common.launch", "tf_multi_worker_mirrored"]
    for command in (script, session):
        line = refusal_in_place_of(tf_config, *command, "--workers", "4")
        assert "--workers 4, but the cluster started 2" in line


ALONE = """
import tensorflow as tf
from common.errors import exit_with_one_line
from tf_impl import world
strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
world.check_sum(strategy, 1)
exit_with_one_line(lambda: world.check_sum(strategy, 2))
"""


def test_a_strategy_that_quietly_has_one_replica_does_not_pass_for_two():
    result = subprocess.run(
        [str(python_for("tensorflow")), "-c", ALONE], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2
    assert "An all-reduce reaches 1 workers, and the cluster has 2" in result.stderr


def start_locally(script, config):
    """The strategy as `nox -s` starts it, training for longer than the test takes."""
    strategy = "tf_" + script.removeprefix("tf_impl/").removesuffix(".py")
    command = [sys.executable, "-m", "common.launch", strategy, *to_arguments(config)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def task_of(process):
    """(job, index) of a process of the cluster, else None."""
    try:
        task = json.loads(process.environ().get("TF_CONFIG", "null"))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return (task["task"]["type"], task["task"]["index"]) if task else None


def wait_until_it_trains(launcher):
    """The cluster's processes by task, once the first steps' line has been printed."""
    for line in launcher.stdout:
        if line.startswith("step "):
            break
    else:
        raise AssertionError("it never trained")
    return {task_of(process): process for process in psutil.Process(launcher.pid).children(recursive=True)}


@pytest.mark.parametrize(
    ("script", "victim"), [(MULTI_WORKER, ("worker", 1)), (MULTI_WORKER, ("worker", 0)), (PARAMETER_SERVER, ("ps", 0))]
)
def test_a_task_that_dies_ends_the_run_long_before_its_deadline(script, victim, tmp_path):
    config = config_for(tmp_path, steps=1_000_000, deadline_seconds=200.0)
    launcher = start_locally(script, config)
    tasks = wait_until_it_trains(launcher)
    tasks[victim].kill()
    output, _ = launcher.communicate(timeout=60)
    assert launcher.returncode not in (0, 2, TIMED_OUT_STATUS)
    name = {"worker": "worker", "ps": "parameter server"}[victim[0]]
    assert f"lockstep: failed: {name} {victim[1]} ended with signal 9, so all processes were ended." in output
    assert not any(process.is_running() for process in tasks.values())
    assert not (tmp_path / "run.json").exists()


def test_a_worker_that_dies_takes_those_with_it_that_someone_else_started(tmp_path):
    config = config_for(tmp_path, steps=1_000_000, deadline_seconds=100.0)
    processes = start_cluster(MULTI_WORKER, config, addresses_of(("worker", 2)))
    assert any(line.startswith("step ") for line in processes["worker", 0].stdout)
    processes["worker", 1].kill()
    statuses, outputs = end_all(processes, 60)
    assert statuses["worker", 0] == 1
    assert "lockstep: failed: the cluster lost a task" in outputs["worker", 0]


def test_a_worker_that_is_stopped_ends_its_run_at_the_deadline(tmp_path):
    config = config_for(tmp_path, steps=1_000_000, deadline_seconds=25.0)
    launcher = start_locally(MULTI_WORKER, config)
    tasks = wait_until_it_trains(launcher)
    tasks["worker", 1].suspend()
    output, _ = launcher.communicate(timeout=60)
    assert launcher.returncode != 0, output
    assert not any(process.is_running() for process in tasks.values())


def test_a_run_that_is_told_to_stop_leaves_nobody(tmp_path):
    launcher = start_locally(PARAMETER_SERVER, config_for(tmp_path, steps=1_000_000))
    tasks = wait_until_it_trains(launcher)
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=60)
    assert launcher.returncode == 128 + signal.SIGTERM
    assert not any(process.is_running() for process in tasks.values())


@pytest.mark.parametrize("updates", ["asynchronous", "synchronous"])
def test_a_worker_that_dies_and_is_started_again_does_not_end_the_run(updates, tmp_path):
    steps = 12000 if updates == "asynchronous" else 2000
    # Enough for a machine that is several times slower, or busy.
    config = config_for(tmp_path, steps=steps, updates=updates, seed=0, deadline_seconds=400.0)
    launcher = start_locally(PARAMETER_SERVER, config)
    wait_until_it_trains(launcher)["worker", 1].kill()
    output, _ = launcher.communicate(timeout=450)
    assert launcher.returncode == 0, output
    record = read_record(tmp_path / "run.json")
    assert record.restarted_workers == 1
    assert len(record.losses) == steps


@pytest.mark.grid
@pytest.mark.parametrize("preset", ["digits", "pathway"])
def test_a_single_asynchronous_worker_follows_the_oracle(preset, launch, deviation_of, tmp_path):
    config = dataclasses.replace(
        PRESETS[preset], workers=1, seed=3, steps=100, checkpoint=tmp_path / "weights.safetensors"
    )
    launched = launch("tf_parameter_server", config)
    assert launched.status == 0, launched.output
    deviation = deviation_of(launched)
    assert deviation.follows, deviation


@pytest.mark.grid
@pytest.mark.parametrize("workers", [2, 4])
def test_asynchronous_updates_reach_the_oracles_loss_on_the_whole_training_set_within_10_percent(
    workers, launch, tmp_path
):
    config = dataclasses.replace(
        PRESETS["pathway"], workers=workers, steps=1000, checkpoint=tmp_path / "weights.safetensors"
    )
    launched = launch("tf_parameter_server", config)
    assert launched.status == 0, launched.output
    assert len(launched.record.staleness) == 1000
    assert max(launched.record.staleness) > 0
    trained = oracle.training_loss(config, oracle.final_weights(launched.record, tmp_path))
    expected = oracle.training_loss(config, oracle.run_oracle(config, config.batch, config.steps).state)
    assert trained == pytest.approx(expected, rel=0.1)
