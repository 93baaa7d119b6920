"""What goes wrong with Horovod's launches: each ends with a clear error, in time, and leaves nobody running."""

import os
import signal
import time
from itertools import product

import asyncssh
import pytest

from tests.grid import in_grid
from tests.horovod_impl.conftest import SECRET, STRATEGY
from tests.hosts import kill_processes_of
from tests.launching import wait_for_steps

DEADLINE_SECONDS = 120.0
START_TIMEOUT_SECONDS = 30
STALL_SECONDS = 60.0
"""The deadline of what stalls, and what such a test lasts: on a busy machine the first steps take half of it."""
CONTROLLERS = ["gloo", "mpi"]
KILLED = in_grid(product(CONTROLLERS, (1, 0)), [("gloo", 1)])
"""Controller, and the number of the host whose worker is killed."""


def start_endless(site, controller, **overrides):
    """horovodrun over both hosts, which trains until something goes wrong, in the middle of training."""
    process = site.start(controller, "host1:1,host2:1", site.task(2, steps=1_000_000, **overrides))
    wait_for_steps(process.stdout)
    return process


def output_of_failure(site, process, seconds=DEADLINE_SECONDS / 4):
    """What a launch prints that ends in time, and leaves neither processes nor files but evidence."""
    output, _ = process.communicate(timeout=seconds)
    site.wait_until_idle()
    # Evidence of what was trained by hand stays where its record would have been.
    assert {path.suffix for disk in site.disks for path in disk.iterdir()} <= {".evidence"}
    return output


def refusal(site, host):
    """What horovodrun says that ends before it starts any worker, which it has to do by its --start-timeout."""
    options = ["--start-timeout", str(START_TIMEOUT_SECONDS)]
    process = site.start("gloo", f"host1:1,{host}:1", site.task(2), *options)
    output = output_of_failure(site, process, START_TIMEOUT_SECONDS)
    assert process.returncode > 0, output
    assert "step " not in output
    assert f"ssh not successful for host {host}:" in output
    return output


KEY = asyncssh.generate_private_key("ssh-ed25519")
"""A key that nobody else has."""


@pytest.mark.parametrize(
    ("host", "file", "content", "said"),
    [
        ("host3", None, "", "Could not resolve hostname host3"),
        pytest.param("host2", "identity", "{private}", "Permission denied (publickey)", marks=pytest.mark.grid),
        pytest.param("host2", "ssh_known_hosts", "", "Host key verification failed.", marks=pytest.mark.grid),
        ("host2", "ssh_known_hosts", "host2 {public}", "Host key verification failed."),
    ],
    ids=["an unknown host", "an unknown user", "an unknown key of a host", "another key of a host"],
)
def test_a_host_that_ssh_does_not_reach_or_trust_is_named_with_the_reason(site, tmp_path, host, file, content, said):
    """A host with another key than the known one may be an impostor, who would sign requests with the job's key."""
    if file:
        keys = {"private": KEY.export_private_key().decode(), "public": KEY.export_public_key().decode()}
        (tmp_path / file).touch(mode=0o600)
        (tmp_path / file).write_text(content.format(**keys), encoding="utf-8")
        site.hosts[0].run("mount", "--bind", str(tmp_path / file), f"/etc/ssh/{file}")
    output = refusal(site, host)
    assert said in output
    assert "password" not in output
    if file == "ssh_known_hosts":
        assert output.rstrip().endswith("and accept an unknown host key by it once")


@pytest.mark.grid
def test_a_host_whose_ssh_server_hangs_is_given_up_in_time(site):
    [server] = site.servers[1]
    os.kill(server, signal.SIGSTOP)
    refusal(site, "host2")


@pytest.mark.grid
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_lost_host_ends_the_other_one_long_before_the_deadline(controller, site):
    process = start_endless(site, controller)
    kill_processes_of(site.hosts[1])
    output = output_of_failure(site, process)
    if controller == "gloo":
        assert process.returncode > 0
        # Whoever notices first says it: the worker that is left, or horovodrun, which then ends that worker. 255 is
        # what ssh ends with when its connection is lost.
        reasons = (
            "lockstep: failed: Horovod lost a worker",
            "The first process to do so was:\nProcess name: 1\nExit code: 255\n",
        )
    else:
        # mpirun's exit status is 0 here. It notices its daemon's end or that of ssh's connection, whichever is first.
        reasons = ("PRTE has lost communication with a remote daemon", "Connection to host2 closed by remote host.")
    assert any(reason in output for reason in reasons), output


@pytest.mark.parametrize(("controller", "number"), KILLED)
def test_a_worker_that_is_killed_ends_those_of_the_other_host(controller, number, site):
    process = start_endless(site, controller)
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
    output = output_of_failure(site, process)
    assert process.returncode > 0, output


@pytest.mark.grid
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_worker_that_stalls_on_another_host_ends_with_the_others_at_the_deadline(controller, site):
    started = time.monotonic()
    process = start_endless(site, controller, deadline_seconds=STALL_SECONDS)
    [worker] = site.workers(1)
    worker.suspend()
    output = output_of_failure(site, process, DEADLINE_SECONDS)
    assert time.monotonic() - started >= STALL_SECONDS
    assert process.returncode > 0
    assert "lockstep: failed: " in output


@pytest.mark.grid
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_horovodrun_ends_the_workers_of_both_hosts(number, controller, site):
    process = start_endless(site, controller)
    process.send_signal(number)
    output_of_failure(site, process)
    assert process.returncode
