"""common/measurement/limits.py: what control groups allow, by files as the kernel writes them."""

import os

import pytest

from common.measurement import limits
from common.measurement.limits import Limits

V2 = "0::/system.slice/slurmstepd.scope/job_7/step_3/user/task_0\n"
V1 = "11:memory:/slurm/uid_0/job_7/step_3\n4:cpu,cpuacct:/slurm/uid_0/job_7\n1:name=systemd:/\n0::/\n"
UNLIMITED_V1 = str(2**63 - 4096)

JOB = "system.slice/slurmstepd.scope/job_7"
LIMITED_V2 = {
    "system.slice/memory.max": "4294967296",
    f"{JOB}/memory.max": "2147483648",
    f"{JOB}/step_3/memory.max": "max",
    f"{JOB}/cpu.max": "150000 100000",
    f"{JOB}/cpu.stat": "usage_usec 9\nnr_throttled 3\nthrottled_usec 1500000\n",
    # This group has no quota.
    "cpu.stat": "usage_usec 9\nthrottled_usec 900000000\n",
}
LIMITED_V1 = {
    "memory/slurm/uid_0/job_7/step_3/memory.limit_in_bytes": UNLIMITED_V1,
    "memory/slurm/uid_0/job_7/memory.limit_in_bytes": "1073741824",
    "cpu,cpuacct/slurm/cpu.cfs_quota_us": "200000",
    "cpu,cpuacct/slurm/cpu.cfs_period_us": "100000",
    "cpu,cpuacct/slurm/cpu.stat": "nr_periods 70\nnr_throttled 3\nthrottled_time 1500000000\n",
    # Of groups in one another each counts its own.
    "cpu,cpuacct/slurm/uid_0/cpu.cfs_quota_us": "300000",
    "cpu,cpuacct/slurm/uid_0/cpu.cfs_period_us": "100000",
    "cpu,cpuacct/slurm/uid_0/cpu.stat": "nr_periods 70\nnr_throttled 1\nthrottled_time 300000000\n",
}
UNLIMITED = {
    "memory.max": "max",
    "cpu.max": "max 100000",
    "cpu.stat": "throttled_usec 1500000",
    "memory/slurm/memory.limit_in_bytes": UNLIMITED_V1,
    "cpu/slurm/cpu.cfs_quota_us": "-1",
    "cpu/slurm/cpu.cfs_period_us": "100000",
}


@pytest.mark.parametrize(
    ("groups", "files", "tightest", "throttled_seconds"),
    [
        (V2, LIMITED_V2, Limits(memory_bytes=2**31, cores=1.5), 1.5),
        (V1, LIMITED_V1, Limits(memory_bytes=2**30, cores=2.0), 1.5),
        *((groups, UNLIMITED, Limits(), 0.0) for groups in (V1, V2)),
    ],
)
def test_the_tightest_group_on_the_way_up_counts_and_only_those_with_a_quota_throttle(
    groups, files, tightest, throttled_seconds, tmp_path
):
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    if files is LIMITED_V1:
        for name in ("cpu", "cpuacct"):
            (tmp_path / name).symlink_to("cpu,cpuacct")
    assert limits.of_this_process(groups, tmp_path) == tightest
    assert limits.throttled_seconds(limits.throttles(groups, tmp_path)) == pytest.approx(throttled_seconds)


@pytest.mark.parametrize(("quota", "cores"), [(None, 2), (0.5, 1), (1.5, 1), (8.0, 2)])
def test_a_quota_counts_as_cores_as_far_as_the_affinity_goes(quota, cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5})
    monkeypatch.setattr(limits, "of_this_process", lambda: Limits(cores=quota))
    assert limits.usable_cores() == cores
