"""common/launching/virtual_hosts/virtual_cluster.py: hosts with names, clocks and disks of their own, and what is left
of them."""

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from common.errors import UserError
from common.launching.virtual_hosts import cores
from common.launching.virtual_hosts.description import INTERFACE, VARIABLE
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts
from common.paths import ROOT
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES, Link
from tests.hosts import bytes_sent_by, cluster_of, processes_of, require_ssh
from tests.launching import is_running, wait_for

KINDS = ("net", "mnt", "uts", "ipc", "pid", "user")
"""Of namespaces."""

GONE_SECONDS = 20.0
"""How long what a cluster had may take to go when its maker is killed."""


def on_head(cluster, *command):
    """What the command prints on the head; standard input is empty, and there is no terminal."""
    result = subprocess.run(
        cluster.made.enter(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


SELF = """
import json, os, socket
settings = "/proc/sys/net/ipv4/tcp_"
print(json.dumps({
    "name": socket.gethostname(),
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
    "cores": sorted(os.sched_getaffinity(0)),
    "congestion control": open(settings + "congestion_control").read().strip(),
    "keeps nothing": open(settings + "no_metrics_save").read().strip(),
}))
"""


def test_each_host_has_a_name_an_interface_and_cores_of_its_own_and_the_usual_network(cluster):
    available = sorted(os.sched_getaffinity(0))
    first, second = (json.loads(host.run(sys.executable, "-I", "-c", SELF)) for host in cluster.hosts)
    for number, host in enumerate((first, second), start=1):
        assert (host["name"], host["interfaces"]) == (f"host{number}", [INTERFACE, "lo"])
        assert (host["congestion control"] in ("cubic", "reno"), host["keeps nothing"]) == (True, "1")
    assert {*first["cores"], *second["cores"]} <= {*available}
    assert bool({*first["cores"]} & {*second["cores"]}) == (len(available) == 1)
    head = json.loads(on_head(cluster, sys.executable, "-c", SELF))
    assert (head["name"], head["cores"]) == ("head", available)
    assert json.loads(on_head(cluster, "printenv", VARIABLE))["names"] == ["host1", "host2"]


def test_what_a_host_keeps_in_its_scratch_folders_is_its_own(cluster):
    first, second = cluster.hosts
    files = ("/dev/shm/first's", "/var/tmp/first's")
    first.run("touch", *files)
    assert second.run("ls", *map(os.path.dirname, files)).split() == ["/dev/shm:", "/var/tmp:"]
    assert not any(Path(each).exists() for each in files)
    first.run("rm", *files)


def test_ssh_reaches_every_host_from_everywhere_brings_as_little_along_as_sshd_and_sends_all_that_is_printed(cluster):
    require_ssh()
    assert on_head(cluster, "ssh", "host1", "ssh host2 'hostname; ssh host1 hostname'").split() == ["host2", "host1"]
    variables = dict(line.split("=", 1) for line in on_head(cluster, "ssh", "host2", "env").splitlines())
    assert {*variables} <= {"HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER", "_"}
    assert variables["TMPDIR"] == "/var/tmp"
    # More than a connection takes at once: a file of a launch's states, whose program has ended long before it's sent.
    printed = on_head(cluster, "ssh", "host1", "head --bytes 20000000 /dev/zero | tr '\\0' x")
    assert printed.count("x") == 20_000_000


SHAPING = """
from contextlib import suppress
import msgspec
from common.errors import UserError
from common.launching.virtual_hosts.description import UNSHAPED, Cable, described
from common.launching.virtual_hosts.link_calibration import calibrate
shaped = described().shape(Cable(20e6)).shape(Cable(100e6, 0.002))
# A wrong link is refused always, and one that the machine has no time for now and then.
for _ in range(5):
    with suppress(UserError):
        print(msgspec.json.encode(calibrate(shaped)).decode())
        break
shaped.shape(UNSHAPED)
"""


def test_a_program_on_the_head_shapes_the_links_to_what_was_asked_for_while_the_cluster_lives(cluster):
    before = [bytes_sent_by(host) for host in cluster.hosts]
    measured = msgspec.json.decode(on_head(cluster, sys.executable, "-c", SHAPING), type=Link)
    assert measured.bytes_per_second * WIRE_BYTES / PAYLOAD_BYTES == pytest.approx(100e6 / 8, rel=0.1)
    assert measured.round_trip_seconds == pytest.approx(0.004, rel=0.1)
    sent = [bytes_sent_by(host) - own for host, own in zip(cluster.hosts, before, strict=True)]
    assert min(sent) > 0.5 * 0.9 * 100e6 / 8


PLUGGING = """
from common.launching.virtual_hosts.description import _answers, described
cluster = described()
cluster.plug("host2", False)
print(_answers("host1"), _answers("host2"))
cluster.plug("host2", True)
print(_answers("host2"))
"""


def test_a_host_whose_cable_is_pulled_is_reached_by_nobody_until_it_is_plugged_in_again(cluster):
    assert on_head(cluster, sys.executable, "-c", PLUGGING).split() == ["True", "False", "True"]


def test_a_command_gets_the_signals_of_what_stands_for_it_and_each_ends_as_the_other(cluster):
    host = cluster.hosts[0]
    patient = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    process = host.start(["sh", "-c", patient], os.environ)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=GONE_SECONDS) == ("told\n", None)
    assert process.returncode == 3
    killed = host.start(["sh", "-c", "kill -KILL $$"], os.environ)
    assert killed.wait(GONE_SECONDS) == -signal.SIGKILL
    before = set(processes_of(host))
    stood_for = host.start(["sh", "-c", "echo ready; exec sleep 600"], os.environ)
    assert stood_for.stdout.readline() == "ready\n"
    assert len(set(processes_of(host)) - before) == 1
    stood_for.kill()
    wait_for(lambda: set(processes_of(host)) == before, GONE_SECONDS)


def test_another_process_that_has_the_number_of_a_hosts_keeper_is_not_taken_for_it(cluster):
    host = dataclasses.replace(cluster.hosts[0], keeper=os.getpid())
    with pytest.raises(RuntimeError, match=f"the virtual host of process {os.getpid()} is gone"):
        host.run("true")


def namespaces(pids):
    """Each namespace of these processes."""
    found = set()
    for pid in pids:
        for kind in KINDS:
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found


BUSY = """
import time
until = time.monotonic() + 1
while time.monotonic() < until:
    pass
print(time.process_time())
"""


def test_hosts_have_their_share_of_cores_by_control_groups_that_go_with_them():
    require_ssh()
    with cluster_of(2, cores_per_host=0.5) as cluster:
        # It may be less, where others want this machine's cores as well.
        assert 0 < float(on_head(cluster, "ssh", "host1", shlex.join([sys.executable, "-c", BUSY]))) < 0.6
        groups = [group for folder, _ in cores._parents() for group in folder.glob(f"lockstep-{os.getpid()}-*")]
        assert len(groups) == 2
    assert not any(group.exists() for group in groups)


MAKER = """
import sys
from common.launching.virtual_hosts.description import Cable
from tests.hosts import cluster_of
with cluster_of(2, link=Cable(100e6, 0.001)) as cluster:
    cluster.hosts[1].run("sh", "-c", "setsid sleep 600 > /dev/null 2>&1 &")
    print("made", flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_when_the_maker_is_killed():
    interfaces = set(psutil.net_if_stats())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", MAKER], cwd=ROOT, text=True, **pipes) as process:
        assert process.stdout.readline() == "made\n"
        pids = {each.pid for each in psutil.Process(process.pid).children(recursive=True)}
        made = namespaces(pids) - namespaces([os.getpid()])
        held = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for pid in pids for kind in KINDS]
        assert len(pids) >= 8
        assert len(made) == 6 + 2 * 4
        process.kill()
        wait_for(lambda: not any(map(is_running, pids)), GONE_SECONDS)
        # They can't be anybody else's yet, since this process still has them open.
        assert not made & namespaces(filter(is_running, psutil.pids()))
        assert set(psutil.net_if_stats()) == interfaces
        for descriptor in held:
            os.close(descriptor)


def test_where_namespaces_cannot_be_made_one_sentence_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="unshare of util-linux not found: install util-linux"), virtual_hosts(2):
        pass
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2; exit 1\n")
    unshare.chmod(0o755)
    refused = r"doesn't let this user make network namespaces .*Operation not permitted.*root"
    with pytest.raises(UserError, match=refused), virtual_hosts(2):
        pass
