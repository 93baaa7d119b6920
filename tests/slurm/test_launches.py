"""Launches over two nodes of a real Slurm: by torchrun, TF_CONFIG and mpirun."""

import sys

import pytest

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


def assert_right(folder, expected):
    """Fail unless there is a launch of each of these strategies, over both nodes, that follows the oracle."""
    records = read_records(folder, Record)
    assert {record.strategy: record.reason for record in records.values()} == dict.fromkeys(expected)
    assert {tuple(host.name for host in record.hosts) for record in records.values()} == {("host1", "host2")}
    compared = certificate.compare(records, folder)
    assert len(compared) == len(expected)
    assert certificate.deviating(compared) == []
    return records.values()


def test_each_launcher_starts_its_ranks_on_both_nodes_and_they_follow_the_oracle(made):
    records = assert_right(made, ["torch_ddp", "tf_multi_worker_mirrored", "torch_sync_sgd"])
    # Records say what Slurm decided.
    allocations = [record.allocation for record in records]
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
    slurm.run(*ALLOCATION, *LAUNCHES, str(tmp_path), "2", "0", *strategies, seconds=300)
    assert {record.options["mpi_starter"] for record in assert_right(tmp_path, names)} == {"srun"}


def test_nothing_of_launches_that_went_well_is_left(made, nothing_is_left):
    """The fixture looks."""
