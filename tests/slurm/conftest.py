"""A Slurm for the tests of this folder, and a look at what they leave in it."""

import shutil

import pytest

from common.errors import UserError
from tests.slurm.cluster import PROGRAMS, slurm_cluster


@pytest.fixture(scope="session")
def slurm():
    """A Slurm of two nodes with a core each; made once, since it starts ten processes."""
    for name in PROGRAMS:
        if not shutil.which(name):
            pytest.skip(f"No Slurm of the tests' own: the program {name} isn't found")
    try:
        with slurm_cluster() as cluster:
            yield cluster
    except UserError as error:
        pytest.skip(f"No test hosts: {str(error).removeprefix('No virtual hosts: ')}")


@pytest.fixture
def nothing_is_left(slurm):
    """After the test no job, step, process or folder of its launches is left on any node, within a few seconds."""
    yield
    slurm.wait_for(["squeue", "--noheader", "--format=%i %T"], "")
    for name in slurm.made.description.names:
        # A process by the launch that it belongs to, in the way of common/launching/hosts/supervisor.py.
        looking = "grep -lz ^LOCKSTEP_LAUNCH= /proc/[0-9]*/environ 2> /dev/null; ls -d /var/tmp/lockstep-* 2> /dev/null"
        slurm.wait_for(["ssh", "-T", name, f"{looking}; true"], "")
