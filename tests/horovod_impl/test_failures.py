"""What goes wrong with Horovod's launches: each ends with a clear error, in time, and leaves nobody running."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from itertools import product

import asyncssh
import psutil
import pytest

from common.contract.task import PRESETS
from common.declarations.catalogue import find, strategies
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from horovod_impl.strategies import HOROVODRUN
from tests.grid import in_grid
from tests.horovod_impl.conftest import SECRET, STRATEGY
from tests.hosts import kill_processes_of
from tests.launching import run_and_disturb, wait_for_steps

DEADLINE_SECONDS = 120.0
START_TIMEOUT_SECONDS = 30
STALL_SECONDS = 60.0
"""The deadline of what stalls, and what such a test lasts: on a busy machine the first steps take half of it."""
NOBODYS_ADDRESS = "10.77.0.77"
CONTROLLERS = ["gloo", "mpi"]
KILLED = in_grid(product(CONTROLLERS, (1, 0)), [("gloo", 1)])
"""Controller, and the number of the host whose worker is killed."""

STARTED_BY_IT = [name for name, strategy in strategies().items() if strategy.launcher is HOROVODRUN]
LAUNCHES = in_grid(product(STARTED_BY_IT, CONTROLLERS), [(STRATEGY.name, "gloo")])
"""Strategy and controller of a launch on this machine."""


def endless(site, **overrides):
    """A task that trains until something goes wrong."""
    return site.task(2, steps=1_000_000, **overrides)


def refusal(site, controller, hosts, *options, workers=2):
    """What horovodrun says that ends before it starts any worker, which it has to do by its --start-timeout."""
    options = ["--start-timeout", str(START_TIMEOUT_SECONDS), *options]
    process = site.start(controller, hosts, site.task(workers), *options)
    output, _ = process.communicate(timeout=START_TIMEOUT_SECONDS)
    assert process.returncode > 0, output
    assert "step " not in output
    site.wait_until_idle()
    # Evidence of what was trained by hand stays where its record would have been.
    assert {path.suffix for disk in site.disks for path in disk.iterdir()} <= {".evidence"}
    return output


@pytest.mark.parametrize(
    ("hosts", "options", "reason"),
    [
        pytest.param("host1:1,host2:1", ["--ssh-port", "2222"], "port 2222: Connection refused", id="closed port"),
        pytest.param(f"host1:1,{NOBODYS_ADDRESS}:1", [], "No route to host", id="nobody's address"),
        pytest.param("host1:1,host3:1", [], "Could not resolve hostname host3", id="unknown name"),
    ],
)
def test_a_host_that_ssh_does_not_reach_is_named_with_the_reason(hosts, options, reason, site):
    output = refusal(site, "gloo", hosts, *options)
    assert f"ssh not successful for host {hosts.split(',')[1].removesuffix(':1')}:" in output
    assert reason in output


def test_a_host_whose_ssh_server_hangs_is_given_up_in_time(site):
    [server] = site.servers[1]
    os.kill(server, signal.SIGSTOP)
    assert "ssh not successful for host host2:" in refusal(site, "gloo", "host1:1,host2:1")


def test_a_key_that_the_other_host_does_not_know_is_refused_and_no_password_asked_for(site, tmp_path):
    stranger = tmp_path / "stranger"
    stranger.touch(mode=0o600)
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(stranger)
    site.hosts[0].run("mount", "--bind", str(stranger), "/etc/ssh/identity")
    output = refusal(site, "gloo", "host1:1,host2:1")
    assert "Permission denied (publickey)" in output
    assert "password" not in output


@pytest.mark.parametrize("is_known", [False, True], ids=["an unknown key", "another key"])
def test_a_host_whose_key_is_not_the_known_one_gets_nothing(site, tmp_path, is_known):
    """It may be an impostor, who would sign requests with the job's key."""
    hosts = tmp_path / "known_hosts"
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    hosts.write_text(f"host2 {other}" if is_known else "", encoding="utf-8")
    site.hosts[0].run("mount", "--bind", str(hosts), "/etc/ssh/ssh_known_hosts")
    output = refusal(site, "gloo", "host1:1,host2:1")
    assert "ssh not successful for host host2:" in output
    assert "Host key verification failed." in output
    assert output.rstrip().endswith("and accept an unknown host key by it once")


@pytest.mark.parametrize(
    ("controller", "reason"),
    [
        ("gloo", "Requested more processes (5) than there are available slots (4)"),
        ("mpi", "There are not enough slots available in the system to satisfy the 5\nslots"),
    ],
)
def test_more_workers_than_slots_are_refused(controller, reason, site):
    assert reason in refusal(site, controller, "host1:2,host2:2", workers=5)


@pytest.mark.grid
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_lost_host_ends_the_other_one_long_before_the_deadline(controller, site):
    process = site.start(controller, "host1:1,host2:1", endless(site))
    wait_for_steps(process.stdout)
    kill_processes_of(site.hosts[1])
    output, _ = process.communicate(timeout=DEADLINE_SECONDS / 4)
    if controller == "gloo":
        assert process.returncode > 0
        # Whoever notices first says it: the worker that is left, or horovodrun, which then ends that worker. 255 is
        # what ssh ends with when its connection is lost.
        by_the_worker = "lockstep: failed: Horovod lost a worker" in output
        by_horovodrun = "The first process to do so was:\nProcess name: 1\nExit code: 255\n" in output
        assert by_the_worker or by_horovodrun, output
    else:
        # mpirun's exit status is 0 here. It notices its daemon's end or that of ssh's connection, whichever is first.
        reasons = ("PRTE has lost communication with a remote daemon", "Connection to host2 closed by remote host.")
        assert any(reason in output for reason in reasons), output
    site.wait_until_idle()
    # Evidence of what was trained by hand stays where its record would have been.
    assert {path.suffix for disk in site.disks for path in disk.iterdir()} <= {".evidence"}


@pytest.mark.parametrize(("controller", "number"), KILLED)
def test_a_worker_that_is_killed_ends_those_of_the_other_host(controller, number, site):
    process = site.start(controller, "host1:1,host2:1", endless(site))
    wait_for_steps(process.stdout)
    [worker] = site.workers(number)
    # The worker has the user's environment, and the job's key, of which no command line tells anything.
    environment = worker.environ()
    assert environment["USERS_SECRET"] == SECRET
    key = environment.get("_HOROVOD_SECRET_KEY", SECRET)
    lines = site.command_lines()
    assert any(STRATEGY.script in line for line in lines)
    # Shells quote the secret's apostrophes, so only a piece without any shows up.
    assert not [line for line in lines if "nobody else" in line or key in line]
    worker.kill()
    output, _ = process.communicate(timeout=DEADLINE_SECONDS / 4)
    assert process.returncode > 0, output
    site.wait_until_idle()
    # Evidence of what was trained by hand stays where its record would have been.
    assert {path.suffix for disk in site.disks for path in disk.iterdir()} <= {".evidence"}


@pytest.mark.grid
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_worker_that_stalls_on_another_host_ends_with_the_others_at_the_deadline(controller, site):
    started = time.monotonic()
    process = site.start(controller, "host1:1,host2:1", endless(site, deadline_seconds=STALL_SECONDS))
    wait_for_steps(process.stdout)
    [worker] = site.workers(1)
    worker.suspend()
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert time.monotonic() - started >= STALL_SECONDS
    assert process.returncode > 0
    assert "lockstep: failed: " in output
    site.wait_until_idle()


@pytest.mark.grid
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_horovodrun_ends_the_workers_of_both_hosts(number, controller, site):
    process = site.start(controller, "host1:1,host2:1", endless(site))
    wait_for_steps(process.stdout)
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_SECONDS / 4)
    assert process.returncode
    site.wait_until_idle()


def disturbed(name, controller, disturb, deadline_seconds, folder):
    """The record of a launch on this machine, of whose workers `disturb` gets one while it trains."""
    strategy = find(name)
    task = dataclasses.replace(PRESETS["digits"], workers=2, steps=1_000_000, deadline_seconds=deadline_seconds)
    planned = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options(backend=controller))
    return run_and_disturb(planned, disturb, folder)


@pytest.mark.parametrize(("strategy", "controller"), LAUNCHES)
def test_a_worker_that_is_killed_ends_its_launch_before_the_deadline(strategy, controller, tmp_path):
    ranks = []

    def kill(worker: psutil.Process) -> None:
        ranks.append(worker.environ()["OMPI_COMM_WORLD_RANK" if controller == "mpi" else "HOROVOD_RANK"])
        worker.kill()

    reason = disturbed(strategy, controller, kill, DEADLINE_SECONDS, tmp_path).reason
    assert reason == f"rank {ranks[0]} ended with signal 9, so all processes were ended."


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "controller"), LAUNCHES)
def test_a_worker_that_stalls_ends_its_launch_at_the_deadline(strategy, controller, tmp_path):
    record = disturbed(strategy, controller, psutil.Process.suspend, STALL_SECONDS, tmp_path)
    assert record.reason == f"It was ended by its deadline of {STALL_SECONDS:g} s."


def test_horovodrun_over_mpi_says_that_mpirun_is_missing(tmp_path):
    horovodrun = python_for(find("horovod_torch")).parent / "horovodrun"
    command = [horovodrun, "--mpi", "-np", "2", sys.executable, "-c", "print('started')"]
    result = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, encoding="utf-8")
    assert result.returncode > 0
    assert "horovod does not find an installed MPI" in result.stderr
    assert "started" not in result.stdout
