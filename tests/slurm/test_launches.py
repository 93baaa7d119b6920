"""Launches over two nodes of a real Slurm, what ends one from outside, and what can't begin.

Each ending is one line that names the node, and leaves nothing.
"""

import contextlib
import subprocess
import sys

import psutil
import pytest

from common.paths import ROOT
from common.records import certificate
from common.records.files import read_records
from common.records.training import Record
from tests.launching import wait_for
from tests.slurm.cluster import ALLOCATION

pytestmark = pytest.mark.slurm

LAUNCHES = (sys.executable, "-m", "tests.slurm.launches")
LONG = ("1000000", "torch_ddp")
"""More steps on both nodes than a test takes."""


@contextlib.contextmanager
def launching(slurm, folder, *allocation):
    """A launch that trains, as a process; whatever is left of it after the block is ended."""
    command = slurm.command("salloc", "--nodes=2", "--ntasks-per-node=1", *allocation, *LAUNCHES, str(folder), *LONG)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            wait_for(lambda: len(workers_of(slurm)) == 2)
            yield process
        finally:
            process.terminate()


def workers_of(slurm):
    """The processes of this Slurm that train."""
    return [each for each in processes_of(slurm, "pytorch_impl/ddp.py") if "RANK" in each.environ()]


def processes_of(slurm, word):
    """The clients of this Slurm, and what they have started, with this word in the command line."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            if word in (process.info["cmdline"] or []):
                is_ours = process.environ().get("SLURM_CONF") == f"{slurm.folder}/slurm.conf"
                found += [process] if is_ours else []
    return found


def printed_by(process):
    return process.communicate(timeout=120)[0]


@pytest.mark.parametrize("of", ["the job", "a step"])
def test_what_scancel_ends_takes_all_of_its_launch_with_it_and_is_named(slurm, tmp_path, nothing_is_left, of):
    steps = ["--steps", "--nodelist=host2"] if of == "a step" else []
    with launching(slurm, tmp_path) as process:
        [number, *_] = slurm.run("squeue", *steps, "--noheader", "--format=%i").stdout.split()
        assert slurm.run("scancel", number).returncode == 0
        assert "was lost (scancel ended the step or the job)" in printed_by(process)


def test_the_time_limit_is_named(slurm, tmp_path, nothing_is_left):
    with launching(slurm, tmp_path, "--time=1") as process:
        assert "was lost at the time limit of the allocation" in printed_by(process)


def test_a_killed_session_leaves_nothing(slurm, tmp_path, nothing_is_left):
    with launching(slurm, tmp_path) as process:
        # The one that srun and salloc have in common comes last.
        *_, session = processes_of(slurm, "tests.slurm.launches")
        session.kill()
        process.wait(60)


def test_a_killed_srun_ends_its_launch_in_one_line(slurm, tmp_path, nothing_is_left):
    with launching(slurm, tmp_path) as process:
        processes_of(slurm, "--nodelist=host2")[0].kill()
        assert "failed host" in printed_by(process)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        # More cores than the allocation has.
        ("SLURM_JOB_CPUS_PER_NODE=9(x2)", "host1 takes no step of this allocation (More processors requested"),
        ("SLURM_JOB_ID=99999", "host1 takes no step of this allocation (Invalid job id"),
    ],
)
def test_a_step_that_can_not_start_is_one_line(slurm, tmp_path, nothing_is_left, variable, words):
    result = slurm.run(*ALLOCATION, "env", variable, *LAUNCHES, str(tmp_path), *LONG)
    [line] = [line for line in result.stderr.splitlines() if line.startswith("lockstep: ")]
    assert words in line


def test_a_slurmd_that_is_killed_is_one_line_and_the_node_comes_back(slurm, tmp_path, nothing_is_left):
    with launching(slurm, tmp_path) as process:
        slurm.kill_slurmd("host2")
        printed = printed_by(process)
    slurm.start_slurmd("host2")
    slurm.wait_for(["sinfo", "--noheader", "--format=%T"], "idle", 60)
    assert "was lost (a node of the job has failed): see `sinfo --list-reasons`." in printed


def test_a_node_that_is_drained_still_ends_what_it_has(slurm, tmp_path, nothing_is_left):
    drain = ["scontrol", "update", "nodename=host2", "reason=test"]
    launch = [*LAUNCHES, str(tmp_path), "200", "torch_ddp"]
    program = f"{' '.join([*drain, 'state=drain'])} && exec {' '.join(launch)}"
    try:
        result = slurm.run(*ALLOCATION, "sh", "-c", program)
        assert "torch_ddp-digits-strong-2w-2h-01: ok" in result.stdout, result.stdout + result.stderr
    finally:
        slurm.run(*drain, "state=resume")
        slurm.wait_for(["sinfo", "--noheader", "--format=%T"], "idle")


@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_what_meets_over_mpi_is_started_on_both_nodes_and_follows_the_oracle(slurm, tmp_path, nothing_is_left, starter):
    if starter == "srun" and slurm.run(*ALLOCATION, "srun", "--mpi=pmix", "true").returncode:
        pytest.skip("Slurm can't load PMIx: install Debian's libpmix-dev")
    names = ("torch_sync_sgd", "horovod_torch")
    strategies = [f"{name}=backend:mpi,mpi_starter:{starter}" for name in names]
    result = slurm.run(*ALLOCATION, *LAUNCHES, str(tmp_path), "0", *strategies, seconds=300)
    assert result.returncode == 0, result.stdout + result.stderr
    records = read_records(tmp_path, Record)
    ended = {record.strategy: (record.reason, record.options["mpi_starter"]) for record in records.values()}
    assert ended == dict.fromkeys(names, (None, starter))
    assert {tuple(host.name for host in record.hosts) for record in records.values()} == {("host1", "host2")}
    compared = certificate.compare(records, tmp_path)
    assert (len(compared), certificate.deviating(compared)) == (len(names), [])


def test_no_node_has_the_folder_for_temporary_files_of_another(slurm):
    making = 'mkdir "$TMPDIR/of-one-node" && sleep 1 && rmdir "$TMPDIR/of-one-node"'
    result = slurm.run(*ALLOCATION, "srun", "sh", "-c", making)
    assert result.returncode == 0, result.stderr
