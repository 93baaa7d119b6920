"""common/measurement/limits.py: what control groups allow, by files as the kernel writes them."""

import os

import pytest

from common.measurement import limits
from common.measurement.limits import Limits

V2 = "0::/system.slice/slurmstepd.scope/job_7/step_3/user/task_0\n"
V1 = "11:memory:/slurm/uid_0/job_7/step_3\n4:cpu,cpuacct:/slurm/uid_0/job_7\n1:name=systemd:/\n0::/\n"
UNLIMITED_V1 = str(2**63 - 4096)


@pytest.fixture
def mounted(tmp_path):
    """A function that writes the files of control groups, and returns the folder that they are mounted in."""

    def write(**files: str):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        return tmp_path

    return write


def test_the_tightest_group_on_the_way_up_counts_in_either_version(mounted):
    job = "system.slice/slurmstepd.scope/job_7"
    files = {f"{job}/memory.max": "2147483648", f"{job}/step_3/memory.max": "max", f"{job}/cpu.max": "150000 100000"}
    assert limits.of_this_process(V2, mounted(**files)) == Limits(memory_bytes=2**31, cores=1.5)
    files = {
        "memory/slurm/uid_0/job_7/step_3/memory.limit_in_bytes": UNLIMITED_V1,
        "memory/slurm/uid_0/job_7/memory.limit_in_bytes": "1073741824",
        "cpu,cpuacct/slurm/uid_0/job_7/cpu.cfs_quota_us": "200000",
        "cpu,cpuacct/slurm/uid_0/job_7/cpu.cfs_period_us": "100000",
    }
    assert limits.of_this_process(V1, mounted(**files)) == Limits(memory_bytes=2**30, cores=2.0)


@pytest.mark.parametrize("groups", [V1, V2, "0::/\n", ""])
def test_without_any_limit_there_is_none(mounted, groups):
    files = {
        "memory.max": "max",
        "cpu.max": "max 100000",
        "memory/slurm/memory.limit_in_bytes": UNLIMITED_V1,
        "cpu/slurm/cpu.cfs_quota_us": "-1",
        "cpu/slurm/cpu.cfs_period_us": "100000",
    }
    assert limits.of_this_process(groups, mounted(**files)) == Limits()


@pytest.mark.parametrize(("quota", "cores"), [(None, 2), (0.5, 1), (1.0, 1), (1.5, 1), (2.0, 2), (8.0, 2)])
def test_a_quota_counts_as_cores_as_far_as_the_affinity_goes(quota, cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5})
    monkeypatch.setattr(limits, "of_this_process", lambda: Limits(cores=quota))
    assert limits.usable_cores() == cores


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        (
            V2,
            {
                "system.slice/cpu.max": "100000 100000",
                "system.slice/cpu.stat": "usage_usec 9\nnr_throttled 3\nthrottled_usec 1500000\n",
                "cpu.stat": "usage_usec 9\nthrottled_usec 900000000\n",
            },
        ),
        (
            V1,
            {
                "cpu,cpuacct/slurm/cpu.cfs_quota_us": "100000",
                "cpu,cpuacct/slurm/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/slurm/cpu.stat": "nr_periods 70\nnr_throttled 3\nthrottled_time 1500000000\n",
                # Of groups in one another each counts its own.
                "cpu,cpuacct/slurm/uid_0/cpu.cfs_quota_us": "200000",
                "cpu,cpuacct/slurm/uid_0/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/slurm/uid_0/cpu.stat": "nr_periods 70\nnr_throttled 1\nthrottled_time 300000000\n",
            },
        ),
    ],
)
def test_throttled_time_is_that_of_groups_with_a_quota_in_either_version(groups, files, mounted):
    mount = mounted(**files)
    for name in ("cpu", "cpuacct"):
        (mount / name).symlink_to("cpu,cpuacct")
    assert limits.throttled_seconds(limits.throttles(groups, mount)) == pytest.approx(1.5)


def test_without_a_quota_nothing_is_throttled(mounted):
    files = {"cpu.max": "max 100000", "cpu.stat": "throttled_usec 1500000"}
    assert limits.throttles(V2, mounted(**files)) == []
    assert limits.throttled_seconds([]) == 0.0
