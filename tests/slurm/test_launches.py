"""Launches over two nodes of a real Slurm: by torchrun, TF_CONFIG and mpirun, and one that scancel ends."""

import subprocess
import sys
import time

import pytest

from common.paths import ROOT
from common.records import certificate
from common.records.files import read_records
from common.records.training import Record

pytestmark = pytest.mark.slurm

LAUNCHES = (sys.executable, "-m", "tests.slurm.launches")
ALLOCATION = ("salloc", "--nodes=2", "--ntasks-per-node=1")


@pytest.fixture(scope="module")
def made(slurm, tmp_path_factory):
    """The folder with the certificates of a strategy of each launcher, all made in one allocation."""
    folder = tmp_path_factory.mktemp("slurm")
    strategies = ("torch_ddp", "tf_multi_worker_mirrored", "torch_sync_sgd=backend:mpi")
    result = slurm.run(*ALLOCATION, *LAUNCHES, str(folder), "2", "0", *strategies, seconds=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_each_launcher_starts_its_ranks_on_both_nodes_and_they_follow_the_oracle(made):
    records = read_records(made, Record)
    assert {record.strategy: record.reason for record in records.values()} == {
        "torch_ddp": None,
        "tf_multi_worker_mirrored": None,
        "torch_sync_sgd": None,
    }
    assert {tuple(host.name for host in record.hosts) for record in records.values()} == {("host1", "host2")}
    compared = certificate.compare(records, made)
    assert len(compared) == 3
    assert certificate.deviating(compared) == []


def test_records_say_what_slurm_decided(made):
    allocations = [record.allocation for record in read_records(made, Record).values()]
    assert len({each.job for each in allocations}) == 1
    assert {(each.partition, each.nodes, tuple(each.cores_per_node)) for each in allocations} == {
        ("all", "host[1-2]", (1, 1))
    }


def test_no_node_has_the_folder_for_temporary_files_of_another(slurm):
    making = 'mkdir "$TMPDIR/of-one-node" && sleep 1 && rmdir "$TMPDIR/of-one-node"'
    result = slurm.run(*ALLOCATION, "srun", "sh", "-c", making)
    assert result.returncode == 0, result.stderr


def test_where_slurm_has_pmix_srun_starts_what_meets_over_mpi(slurm, tmp_path, nothing_is_left):
    if slurm.run(*ALLOCATION, "srun", "--mpi=pmix", "true").returncode:
        pytest.skip("Slurm can't load PMIx: install Debian's libpmix-dev")
    names = ("torch_sync_sgd", "horovod_torch")
    strategies = [f"{name}=backend:mpi,mpi_starter:srun" for name in names]
    result = slurm.run(*ALLOCATION, *LAUNCHES, str(tmp_path), "2", "0", *strategies, seconds=300)
    records = read_records(tmp_path, Record)
    assert {(each.strategy, each.status, each.options["mpi_starter"]) for each in records.values()} == {
        (name, "ok", "srun") for name in names
    }, result.stdout
    compared = certificate.compare(records, tmp_path)
    assert len(compared) == 2
    assert certificate.deviating(compared) == []


def test_nothing_of_launches_that_went_well_is_left(made, nothing_is_left):
    """The fixture looks."""


def test_a_step_that_scancel_ends_is_named_and_all_of_its_launch_ends(slurm, tmp_path, nothing_is_left):
    command = slurm.command(*ALLOCATION, *LAUNCHES, str(tmp_path), "2", "1000000", "torch_ddp")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        log = tmp_path / "torch_ddp-digits-strong-2w-2h-01.log"
        deadline = time.monotonic() + 60
        while not (log.exists() and "rank" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        [step] = slurm.run("squeue", "--steps", "--noheader", "--format=%i", "--nodelist=host2").stdout.split()[:1]
        assert slurm.run("scancel", step).returncode == 0
        printed, _ = process.communicate(timeout=60)
    assert "failed host2 was lost (scancel ended the step or the job): start it again." in printed
