"""common/launching/virtual_hosts/virtual_cluster.py: hosts with names, clocks and disks of their own, and what is left
of them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from common.errors import UserError
from common.launching.virtual_hosts.description import INTERFACE, SOCKET, VARIABLE, Cable
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts
from common.paths import ROOT
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from tests.hosts import bytes_sent_by, cluster_of, processes_of, require_ssh
from tests.hosts_apart import SECONDS_APART

KINDS = ("net", "mnt", "uts", "ipc", "pid", "user")
"""Of namespaces."""

GONE_SECONDS = 20.0
"""How long what a cluster had may take to go when its maker is killed."""


@pytest.fixture(scope="module")
def cluster():
    """Two hosts whose clocks are hours apart."""
    with cluster_of(2, clocks_apart=True) as made:
        yield made


def python(host, program, *arguments):
    """What the program prints on the host."""
    return host.run(sys.executable, "-I", "-c", program, *arguments).strip()


def on_head(cluster, *command):
    """What the command prints on the head; standard input is empty, and there is no terminal."""
    result = subprocess.run(
        cluster.enter(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_ssh_reaches_every_host_from_everywhere_by_its_name_and_asks_nothing(cluster):
    require_ssh()
    assert on_head(cluster, "ssh", "host1", "ssh host2 'hostname; ssh host1 hostname'").split() == ["host2", "host1"]


def test_ssh_sends_all_that_a_command_prints_before_it_says_how_that_ended(cluster):
    require_ssh()
    # More than a connection takes at once: a file of a launch's states, whose program has ended long before it's sent.
    printed = on_head(cluster, "ssh", "host1", "head --bytes 20000000 /dev/zero | tr '\\0' x")
    assert printed.count("x") == 20_000_000


def test_ssh_brings_as_little_along_as_sshd(cluster):
    require_ssh()
    variables = on_head(cluster, "ssh", "host2", "env").splitlines()
    assert {line.partition("=")[0] for line in variables} <= {
        "HOME",
        "LOGNAME",
        "PATH",
        "PWD",
        "SHELL",
        "TMPDIR",
        "USER",
        "_",
    }


def test_the_head_and_the_hosts_know_their_names_and_the_programs_of_the_head_the_cluster(cluster):
    names = [python(host, "import socket; print(socket.gethostname())") for host in (cluster.head, *cluster.hosts)]
    assert names == ["head", "host1", "host2"]
    assert json.loads(on_head(cluster, "printenv", VARIABLE))["names"] == ["host1", "host2"]


def test_each_host_has_cores_of_its_own_where_they_suffice(cluster):
    program = "import os; print(*os.sched_getaffinity(0))"
    first, second = (set(python(host, program).split()) for host in cluster.hosts)
    available = {str(core) for core in os.sched_getaffinity(0)}
    assert first | second <= available
    assert bool(first & second) == (len(available) == 1)
    assert set(on_head(cluster, sys.executable, "-c", program).split()) == available


def test_each_host_has_clocks_of_its_own(cluster):
    program = "import time; print(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))"
    here = [time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)]
    for number, host in enumerate(cluster.hosts, start=1):
        ahead = [float(there) - own for there, own in zip(python(host, program).split(), here, strict=True)]
        assert ahead == pytest.approx([number * SECONDS_APART] * 2, abs=60)


def test_a_connection_fills_its_link_as_those_of_real_hosts_do_whatever_this_machine_is_set_to(cluster):
    for host in cluster.hosts:
        assert host.run("cat", "/proc/sys/net/ipv4/tcp_congestion_control").strip() in ("cubic", "reno")
        assert host.run("cat", "/proc/sys/net/ipv4/tcp_no_metrics_save").strip() == "1"


def test_temporary_files_are_a_hosts_own(cluster):
    require_ssh()
    name = f"lockstep-{os.getpid()}"
    cluster.hosts[0].run("sh", "-c", f'touch "$TMPDIR/{name}"')
    folder = on_head(cluster, "ssh", "host2", "echo $TMPDIR")
    assert name not in on_head(cluster, "ssh", "host2", f"ls {folder}").split()
    assert name in on_head(cluster, "ssh", "host1", f"ls {folder}").split()
    cluster.hosts[0].run("rm", f"{folder}/{name}")


@pytest.mark.parametrize("folder", ["/dev/shm", "/var/tmp"])
def test_what_a_host_keeps_in_its_scratch_folders_is_its_own(cluster, folder):
    first, second = cluster.hosts
    first.run("touch", f"{folder}/first's")
    assert first.run("ls", folder).split() == ["first's"]
    assert second.run("ls", folder).split() == []
    assert not Path(folder, "first's").exists()


def connect(host, address):
    """Why the host doesn't reach the address's ssh server within a second, or nothing."""
    program = "import socket, sys; socket.create_connection((sys.argv[1], 22), timeout=float(sys.argv[2]))"
    try:
        python(host, program, address, "1")
    except RuntimeError as error:
        return str(error)
    return None


def test_a_host_whose_cable_is_pulled_is_reached_by_nobody_until_it_is_plugged(cluster):
    first, second = cluster.hosts
    assert connect(first, second.address) is None
    cluster.pull_cable(second)
    try:
        assert "TimeoutError" in connect(first, second.address)
    finally:
        cluster.plug_cable(second)
    # The name that ARP couldn't find is asked for again within some seconds.
    assert any(connect(first, second.address) is None for _ in range(10))


def calibrated(cluster):
    """What its link is like: a wrong one is refused always, and one that the machine has no time for now and then."""
    for _ in range(4):
        with suppress(UserError):
            return cluster.calibrate()
    return cluster.calibrate()


def test_a_link_is_what_was_asked_for_when_the_cluster_lives(cluster):
    cluster.shape(Cable(20e6))
    assert calibrated(cluster).bytes_per_second * WIRE_BYTES / PAYLOAD_BYTES == pytest.approx(20e6 / 8, rel=0.1)
    before = [bytes_sent_by(host) for host in cluster.hosts]
    cluster.shape(Cable(100e6, 0.002))
    measured = calibrated(cluster)
    assert measured.bytes_per_second * WIRE_BYTES / PAYLOAD_BYTES == pytest.approx(100e6 / 8, rel=0.1)
    assert measured.round_trip_seconds == pytest.approx(0.004, rel=0.1)
    sent = [bytes_sent_by(host) - own for host, own in zip(cluster.hosts, before, strict=True)]
    assert min(sent) > 0.5 * 0.9 * 100e6 / 8


def test_a_program_on_the_head_shapes_the_links(cluster):
    program = (
        "import socket\n"
        "from common.launching.virtual_hosts.description import SOCKET, Cable, described\n"
        "with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as junk:\n"
        "    junk.connect(SOCKET); junk.send(b'{')\n"
        "    assert b'failed' in junk.recv(1 << 16)\n"
        "print(described().shape(Cable(10e6)).variables())"
    )
    assert "10000000.0" in on_head(cluster, sys.executable, "-c", program)
    qdiscs = on_head(cluster, sys.executable, "-c", "from pyroute2 import IPRoute; print(IPRoute().get_qdiscs())")
    assert f"'rate': {int(10e6 / 8)}," in qdiscs


def test_a_command_gets_the_signals_of_what_stands_for_it_and_ends_it_as_it_ends(cluster):
    host = cluster.hosts[0]
    patient = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    process = host.start(["sh", "-c", patient], os.environ)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=GONE_SECONDS) == ("told\n", None)
    assert process.returncode == 3
    killed = host.start(["sh", "-c", "kill -KILL $$"], os.environ)
    assert killed.wait(GONE_SECONDS) == -signal.SIGKILL


def test_another_process_that_has_the_number_of_a_hosts_keeper_is_not_taken_for_it(cluster):
    host = dataclasses.replace(cluster.hosts[0], keeper=os.getpid())
    with pytest.raises(RuntimeError, match=f"the virtual host of process {os.getpid()} is gone"):
        host.run("true")
    assert os.getppid() not in processes_of(host)


def test_a_command_ends_with_what_stands_for_it(cluster):
    host = cluster.hosts[0]
    before = set(processes_of(host))
    process = host.start(["sh", "-c", "echo ready; exec sleep 600"], os.environ)
    assert process.stdout.readline() == "ready\n"
    assert len(set(processes_of(host)) - before) == 1
    process.kill()
    wait_until(lambda: set(processes_of(host)) == before)


def wait_until(is_so):
    """Return when it is so; fail when it isn't in time."""
    deadline = time.monotonic() + GONE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid):
    """Whether the process is more than an entry that waits for its parent."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def namespaces(pids):
    """Each namespace of these processes."""
    found = set()
    for pid in pids:
        for kind in KINDS:
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found


def descendants(process):
    return {each.pid for each in psutil.Process(process.pid).children(recursive=True)}


def test_hosts_end_with_all_that_runs_on_them_when_a_test_fails():
    pids = []

    def fail():
        with cluster_of(2) as cluster:
            host = cluster.hosts[1]
            before = set(processes_of(host))
            # One sleep is in a session of its own, as a launcher's workers are.
            process = host.start(["sh", "-c", "setsid sleep 600 & echo started; exec sleep 600"], os.environ)
            assert process.stdout.readline() == "started\n"
            assert len(set(processes_of(host)) - before) == 2
            pids.extend([process.pid, *processes_of(host), *(each.keeper for each in (cluster.head, *cluster.hosts))])
            raise RuntimeError("the test fails")

    with pytest.raises(RuntimeError, match="the test fails"):
        fail()
    wait_until(lambda: not any(map(is_running, pids)))


SILENT = f"""
import socket, time
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({SOCKET!r})
print("ready", flush=True)
time.sleep(600)
"""

MAKER = """
import sys
from common.launching.virtual_hosts.description import Cable
from tests.hosts import cluster_of
link, cores = Cable(100e6, 0.001), float(sys.argv[1]) or None
with cluster_of(2, link=link, cores_per_host=cores) as cluster:
    cluster.hosts[1].run("sh", "-c", "setsid sleep 600 > /dev/null 2>&1 &")
    # It asks the keeper for nothing, and stays connected.
    cluster.head.start([sys.executable, "-I", "-c", sys.argv[2]], {}).stdout.readline()
    print(*[host.group for host in cluster.hosts if host.group], flush=True)
    sys.stdin.read()
"""


@contextmanager
def maker(cores=0.0):
    """A process of its own that has made a cluster, and the control groups that it has."""
    command = [sys.executable, "-c", MAKER, str(cores), SILENT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            yield process, [Path(group) for group in process.stdout.readline().split()]
        finally:
            process.kill()


def test_nothing_is_left_when_the_maker_is_killed():
    interfaces = set(psutil.net_if_stats())
    with maker() as (process, _):
        pids = descendants(process)
        made = namespaces(pids) - namespaces([os.getpid()])
        held = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for pid in pids for kind in KINDS]
        assert len(pids) >= 10
        assert len(made) == 6 + 2 * 4
        process.kill()
        wait_until(lambda: not any(map(is_running, pids)))
        # They can't be anybody else's yet, since this process still has them open.
        assert not made & namespaces(filter(is_running, psutil.pids()))
        assert set(psutil.net_if_stats()) == interfaces
        for descriptor in held:
            os.close(descriptor)


def test_hosts_have_their_share_of_cores_and_leave_no_control_group_when_the_maker_is_killed():
    with cluster_of(2, cores_per_host=0.5) as cluster:
        program = (
            "import time; until = time.monotonic() + 1\n"
            "while time.monotonic() < until: pass\n"
            "print(time.process_time())"
        )
        # It may be less, where others want this machine's cores as well.
        assert 0 < float(python(cluster.hosts[0], program)) < 0.6
        groups = [host.group for host in cluster.hosts]
        assert all(group.is_dir() for group in groups)
    assert not any(group.exists() for group in groups)
    with maker(0.5) as (process, groups):
        assert len(groups) == 2
        process.kill()
        wait_until(lambda: not any(group.exists() for group in groups))


def test_without_unshare_virtual_hosts_are_refused_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="unshare of util-linux not found: install util-linux"), virtual_hosts(2):
        pass


def test_a_user_whom_the_system_refuses_namespaces_is_told_so_in_one_sentence(monkeypatch, tmp_path):
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2; exit 1\n")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        pytest.raises(
            UserError, match=r"doesn't let this user make network namespaces .*Operation not permitted.*root"
        ),
        virtual_hosts(2),
    ):
        pass


@pytest.mark.parametrize("count", [0, -1, 251])
def test_a_number_of_hosts_that_cannot_be_had_is_refused(count):
    with pytest.raises(UserError, match="give 1 to 250"), virtual_hosts(count):
        pass


@pytest.mark.parametrize("share", [0.0, -1.0, 0.01, float("nan"), float("inf")])
def test_a_share_of_cores_that_cannot_be_meant_is_refused(share):
    with pytest.raises(UserError, match=r"give a number of 0\.05 or more"), virtual_hosts(2, cores_per_host=share):
        pass


def test_the_hosts_interface_has_the_name_that_programs_go_by(cluster):
    names = python(cluster.hosts[0], "import socket; print(*sorted(name for _, name in socket.if_nameindex()))")
    assert names == f"{INTERFACE} lo"
