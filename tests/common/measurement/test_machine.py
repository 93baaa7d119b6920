"""common/measurement/machine.py: what this machine is, which cores a worker gets, and what it sends."""

import mmap
import os
import platform
import socket
from importlib import metadata
from unittest.mock import Mock

import pytest

from common.contract.task import Task
from common.measurement import limits, machine
from common.measurement.machine import Pinning
from tests.common.conftest import commit, git

CORES = [0, 2, 4, 5, 6, 7, 8, 9]


@pytest.fixture
def affinity(monkeypatch):
    """Eight cores to choose from; what every thread of this process is pinned to, instead of pinning it."""
    pinned = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(CORES))
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cores: pinned.update({thread: list(cores)}))
    return pinned


@pytest.mark.parametrize(
    ("threads", "place", "cores"),
    [
        # Of each local rank, of how many, with how many replicas.
        (1, (3, 4), [5]),
        (2, (1, 4), [4, 5]),
        (2, (0, 4, 4), CORES),
        (1, (0, 3, 3), [0, 2, 4]),
        (1, (8, 9), None),
        (2, (4, 5), None),
    ],
)
def test_each_worker_gets_cores_of_its_own_or_of_its_replicas_or_none_where_they_do_not_suffice(
    affinity, threads, place, cores
):
    assert machine.pin(Task(threads=threads), *place) == Pinning(cores or [], oversubscribed=cores is None)
    assert [*affinity.values()] == [cores for _ in affinity]
    assert bool(affinity) is (cores is not None)


def test_every_thread_of_the_process_that_is_still_there_is_pinned_but_of_one_that_only_coordinates(
    affinity, monkeypatch
):
    assert machine.unpinned(Task(threads=2), 4) == Pinning([], oversubscribed=False)
    assert machine.unpinned(Task(threads=2), 5) == Pinning([], oversubscribed=True)
    assert affinity == {}
    machine.pin(Task(), 1, 2)
    assert os.getpid() in affinity
    assert set(affinity) == {int(thread) for thread in os.listdir("/proc/self/task")}
    assert set(map(tuple, affinity.values())) == {(2,)}
    monkeypatch.setattr(os, "sched_setaffinity", Mock(side_effect=ProcessLookupError))
    assert machine.pin(Task()) == Pinning([0], oversubscribed=False)


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
    assert (facts.cores, facts.system) == (os.cpu_count(), f"{platform.system()} {platform.release()}")
    assert facts.name
    assert facts.processor
    assert facts.memory_bytes > 2**27
    installed = {name: metadata.version(name) for name in ("pytest", "numpy", "scikit-learn", "safetensors")}
    versions = {"python": platform.python_version(), **installed}
    assert machine.versions(["pytest", "a-package-that-nobody-has"]) == versions
    del versions["pytest"]
    assert machine.versions() == versions


def test_the_digest_of_what_is_installed_changes_with_a_version_a_package_and_a_build_made_here(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.sysconfig, "get_path", lambda name: tmp_path)
    digests = [machine.packages_digest()]
    assert machine.packages_digest() == digests[0]
    (tmp_path / "made_up-1.0.dist-info").mkdir()
    digests.append(machine.packages_digest())
    package = (tmp_path / "made_up-1.0.dist-info").rename(tmp_path / "made_up-1.1.dist-info")
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

    def no_driver():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert machine.gpu_names() == []


def test_the_commit_is_that_of_the_checkout_and_changed_files_are_marked_but_not_new_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    git(tmp_path, "init", "--quiet")
    first = commit(tmp_path, {"machine.py": "first"})
    (tmp_path / "record.json").write_text("{}")
    assert machine.git_commit() == first
    (tmp_path / "machine.py").write_text("second")
    assert machine.git_commit() == f"{first}+changes"


def test_without_git_there_is_no_commit_and_pythons_own_variables_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git_commit() is None
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)
    for name, value in (("UNBUFFERED", "1"), ("SAFEPATH", ""), ("DEVMODE", "1"), ("PATH", "/opt/tools")):
        monkeypatch.setenv(f"PYTHON{name}", value)
    assert machine.python_variables() == {"PYTHONDEVMODE": "1", "PYTHONPATH": "/opt/tools"}


def test_a_private_network_is_what_the_launcher_says_it_is_and_its_bytes_are_counted(monkeypatch):
    assert not machine.has_private_network()
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    assert machine.has_private_network()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        before = machine.bytes_sent("lo")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(bytes(1000), receiver.getsockname())
        assert len(receiver.recv(2000)) == 1000
        assert machine.bytes_sent("lo") - before >= 1000


@pytest.fixture
def refused(monkeypatch, tmp_path, refusal):
    """A function that expects to be refused to measure by a lock of this test's, and returns why."""
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(machine, "_LOCKED", tmp_path / "locked")
    monkeypatch.setattr(machine, "_CLAIM", f"\0lockstep-measures-{os.getpid()}")
    return lambda: refusal(lambda: machine.alone().__enter__())


def test_comparisons_in_two_networks_or_with_two_folders_exclude_each_other_until_one_ends_and_need_the_folder(
    refused, monkeypatch, tmp_path
):
    held = "Another comparison or benchmark runs on this machine"
    with machine.alone():
        with monkeypatch.context() as network:
            network.setattr(machine, "_CLAIM", f"{machine._CLAIM}-elsewhere")
            assert refused().startswith(f"{held} (process {os.getpid()} of ")
        with monkeypatch.context() as container:
            container.setattr(machine, "_LOCKED", tmp_path)
            assert refused().startswith(f"{held}, and each would measure the other")
    with machine.alone():
        pass
    monkeypatch.setattr(machine, "_LOCKED", tmp_path / "nowhere")
    assert "let root mount it" in refused()


def test_a_program_that_inherits_the_lock_measures_and_leaves_it_to_its_parent(refused, monkeypatch):
    with machine.alone() as lock:
        monkeypatch.setattr(machine, "_CLAIM", f"{machine._CLAIM}-of-a-child")
        monkeypatch.setenv(machine.MEASURES, str(lock))
        with machine.alone():
            pass
        other = os.open(machine._LOCKED, os.O_RDONLY)
        for pretended in (str(other), "none", "999999"):
            monkeypatch.setenv(machine.MEASURES, pretended)
            assert "Another comparison or benchmark runs on this machine" in refused()
        os.close(other)
