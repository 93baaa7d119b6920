"""common/measurement/machine.py: what this machine is, which cores a worker gets, and what it sends."""

import fcntl
import mmap
import os
import platform
import signal
import socket
import subprocess
import sys
from importlib import metadata

import pytest

from common.contract.task import Task
from common.errors import UserError
from common.measurement import limits, machine
from common.measurement.machine import Pinning
from common.paths import ROOT
from tests.launching import require_private_networks

CORES = [0, 2, 4, 5, 6, 7, 8, 9]


@pytest.fixture
def affinity(monkeypatch):
    """Eight cores to choose from; what every thread of this process is pinned to, instead of pinning it."""
    pinned = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(CORES))
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cores: pinned.update({thread: list(cores)}))
    return pinned


def test_each_worker_gets_cores_of_its_own_or_those_of_all_its_replicas(affinity):
    pinnings = [machine.pin(Task(), rank, 4) for rank in range(4)]
    assert pinnings == [Pinning([core], oversubscribed=False) for core in (0, 2, 4, 5)]
    assert machine.pin(Task(threads=2), 0, 4, replicas=4).pinned_cores == CORES
    assert machine.pin(Task(), 0, 3, replicas=3).pinned_cores == [0, 2, 4]


@pytest.mark.parametrize(("threads", "workers"), [(1, 9), (2, 5), (9, 1)])
def test_where_cores_do_not_suffice_nothing_is_pinned_and_it_is_said(affinity, threads, workers):
    assert machine.pin(Task(threads=threads), workers - 1, workers) == Pinning([], oversubscribed=True)
    assert affinity == {}


def test_a_thread_that_ends_meanwhile_is_no_error(monkeypatch, affinity):
    def ended(thread, cores):
        raise ProcessLookupError(3, "No such process")

    monkeypatch.setattr(os, "sched_setaffinity", ended)
    assert machine.pin(Task(), 0, 1) == Pinning([0], oversubscribed=False)


def test_every_thread_of_the_process_is_pinned_but_of_one_that_only_coordinates(affinity):
    assert machine.unpinned(Task(threads=2), 4) == Pinning([], oversubscribed=False)
    assert machine.unpinned(Task(threads=2), 5) == Pinning([], oversubscribed=True)
    assert affinity == {}
    machine.pin(Task(), 1, 2)
    assert os.getpid() in affinity
    assert set(affinity) == {int(thread) for thread in os.listdir("/proc/self/task")}
    assert set(map(tuple, affinity.values())) == {(2,)}


def test_memory_counts_from_where_the_watch_began_and_keeps_its_peak():
    # Pages of their own: malloc may give memory that earlier tests freed and that is still resident.
    megabyte = 2**20
    with mmap.mmap(-1, 80 * megabyte) as before:
        before[:: mmap.PAGESIZE] = bytes(80 * megabyte // mmap.PAGESIZE)
    start = machine.watch_memory()
    with mmap.mmap(-1, 40 * megabyte) as held:
        held[:: mmap.PAGESIZE] = bytes(40 * megabyte // mmap.PAGESIZE)
        during = machine.peak_memory() - start
    assert 38 * megabyte < during < 70 * megabyte
    # The kernel sums up its counters of pages now and then, so a peak is known to some pages.
    assert machine.peak_memory() - start > during - megabyte


def test_the_facts_of_the_host_and_the_versions_that_are_installed_are_there():
    facts = machine.host_facts()
    assert facts.name
    assert facts.cores == os.cpu_count()
    assert facts.memory_bytes > 2**27
    assert facts.processor
    assert facts.system == f"{platform.system()} {platform.release()}"
    versions = machine.versions(["pytest", "a-package-that-nobody-has"])
    assert versions["python"] == platform.python_version()
    for package in ("pytest", "numpy", "safetensors"):
        assert versions[package] == metadata.version(package)
    assert "a-package-that-nobody-has" not in versions
    assert "pytest" not in machine.versions()


def test_the_digest_of_what_is_installed_changes_with_a_version_a_package_and_a_build_made_here(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.sysconfig, "get_path", lambda name: tmp_path)
    digests = [machine.packages_digest()]
    assert machine.packages_digest() == digests[0]
    package = tmp_path / "made_up-1.0.dist-info"
    package.mkdir()
    digests.append(machine.packages_digest())
    package = package.rename(tmp_path / "made_up-1.1.dist-info")
    digests.append(machine.packages_digest())
    for build in ("a", "b"):
        (package / "direct_url.json").touch()
        (package / "RECORD").write_text(f"library.so,sha256={build}")
        digests.append(machine.packages_digest())
    assert len({*digests}) == 5


def test_gpus_are_named_in_the_drivers_order_where_there_is_one(monkeypatch):
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 2)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: f"GPU {handle}")
    assert machine.gpu_names() == ["GPU 0", "GPU 1"]
    import pynvml

    def no_driver():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert machine.gpu_names() == []


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A file of a checkout that `machine` takes for ours, and the only commit of that."""

    def git(*arguments):
        identity = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path / "checkout"), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    module = tmp_path / "checkout" / "common" / "machine.py"
    module.parent.mkdir(parents=True)
    module.write_text("first")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--no-verify", "--message", "First")
    monkeypatch.setattr(machine, "ROOT", tmp_path / "checkout")
    return module, git("rev-parse", "HEAD")


def test_the_commit_is_that_of_the_checkout_and_changed_files_are_marked_but_not_new_ones(checkout):
    module, commit = checkout
    (module.parent / "record.json").write_text("{}")
    assert machine.git_commit() == commit
    module.write_text("second")
    assert machine.git_commit() == f"{commit}+changes"


def test_without_git_there_is_no_commit_and_pythons_own_variables_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git_commit() is None
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    monkeypatch.setenv("PYTHONPATH", "/opt/tools")
    assert machine.python_variables() == {"PYTHONDEVMODE": "1", "PYTHONPATH": "/opt/tools"}


def test_a_private_network_is_what_the_launcher_says_it_is_and_its_bytes_are_counted(monkeypatch):
    assert not machine.has_private_network()
    for value, private in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv(machine.PRIVATE_NETWORK, value)
        assert machine.has_private_network() is private
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        before = machine.bytes_sent("lo")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(bytes(1000), receiver.getsockname())
        assert len(receiver.recv(2000)) == 1000
        assert machine.bytes_sent("lo") - before >= 1000


MEASURING = """
import sys
from pathlib import Path
from common.errors import exit_with_one_line
from common.measurement import machine
machine._LOCKED = Path(sys.argv[1])
def measure():
    with machine.alone():
        print("alone", flush=True)
        sys.stdin.read()
exit_with_one_line(measure)
"""


@pytest.fixture
def measuring(tmp_path):
    """A function that measures in a network of its own, until its input ends, by a lock of this test's."""
    require_private_networks()
    own_network = ["unshare", "--user", "--map-root-user", "--net"]
    command = [*own_network, sys.executable, "-c", MEASURING, str(tmp_path)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started = []

    def start(lock=None, inherited=()):
        environment = os.environ | ({} if lock is None else {machine.MEASURES: str(lock)})
        started.append(subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=inherited, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_two_comparisons_in_two_networks_exclude_each_other_until_one_is_killed(measuring):
    first = measuring()
    assert first.stdout.readline() == "alone\n"
    first.send_signal(signal.SIGSTOP)
    output, errors = measuring().communicate(timeout=30)
    assert output == ""
    assert errors.startswith(f"lockstep: Another comparison or benchmark runs on this machine (process {first.pid} of ")
    first.kill()
    first.wait()
    assert measuring().communicate(timeout=30) == ("alone\n", "")


def test_a_program_that_inherits_the_lock_measures_and_leaves_it_to_its_parent(measuring, tmp_path):
    lock, other = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert measuring(lock, [lock]).communicate(timeout=30) == ("alone\n", "")
        for pretended, inherited in ((other, [other]), (lock, []), ("none", [])):
            output, errors = measuring(pretended, inherited).communicate(timeout=30)
            assert output == ""
            assert "Another comparison or benchmark runs on this machine" in errors
    finally:
        os.close(lock)
        os.close(other)


@pytest.mark.parametrize("place", ["nowhere", "fifo", "link"])
def test_without_the_folder_a_comparison_is_refused_with_the_remedy_and_never_waits(place, monkeypatch, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    monkeypatch.setattr(machine, "_LOCKED", tmp_path / place)
    with pytest.raises(UserError, match="let root mount it"), machine.alone():
        pass


@pytest.mark.parametrize(
    ("bind", "cores", "threads", "pinning"),
    [
        ("mask_cpu:", {0, 1}, 1, Pinning([0, 1], oversubscribed=False, bound_by_slurm=True)),
        ("mask_cpu:", {1}, 2, Pinning([1], oversubscribed=True, bound_by_slurm=True)),
        ("none", {0, 1}, 1, Pinning([1], oversubscribed=False)),
    ],
    ids=["bound", "bound to too few", "not bound"],
)
def test_a_task_that_slurm_has_bound_stays_where_it_is(monkeypatch, affinity, bind, cores, threads, pinning):
    variables = {"SLURM_TASK_PID": str(os.getpid()), "SLURM_STEP_NUM_TASKS": "2", "SLURM_CPU_BIND_TYPE": bind}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
    assert machine.pin(Task(threads=threads), 1, 2) == pinning
    assert bool(affinity) is not pinning.bound_by_slurm


def test_a_quota_counts_as_cores_where_workers_are_pinned(monkeypatch, affinity):
    monkeypatch.setattr(limits, "of_this_process", lambda: limits.Limits(cores=1.0))
    assert machine.pin(Task(), 0, 2) == Pinning([], oversubscribed=True)
    assert not affinity
    assert not machine.pin(Task(), 0, 1).oversubscribed
    assert machine.host_facts().core_limit == 1.0
