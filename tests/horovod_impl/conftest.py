"""What Horovod's tests share: two hosts with ssh between them, and horovodrun on the first of them."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.config import Config, to_arguments
from common.launch import python_for
from tests.contract.test_contract import contract_config
from tests.hosts import Host, ssh_servers, two_hosts

CONTROLLERS = ("gloo", "mpi")
SCRIPT = "horovod_impl/train.py"


def user_environment(**settings: str) -> dict[str, str]:
    """The environment after `source activate`."""
    return (
        os.environ | {"PATH": f"{python_for('horovod').parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"} | settings
    )


@dataclass(frozen=True)
class Site:
    """Two hosts that reach each other by ssh and share no disk: each has a folder of its own at the same path."""

    hosts: tuple[Host, Host]
    identity: Path
    """The private key that lets in on both."""
    disks: tuple[Path, Path]
    """Where each host's folder is seen from outside."""
    mount_point: Path
    """Where each host sees its own."""

    def config(self, workers: int, **overrides: object) -> Config:
        """The contract's config, on the CPU, since both hosts would find the same GPU."""
        files = {"record": self.mount_point / "run.json"}
        return contract_config("digits", workers, self.mount_point, device="cpu", **files | overrides)

    def start(self, controller: str, hosts: str, config: Config, *options: str) -> subprocess.Popen:
        """horovodrun on the first host; `hosts` is what follows its -H."""
        world = [f"--{controller}", "-np", str(config.workers), "-H", hosts]
        # Horovod remembers for an hour which hosts it has reached, by their names, which are the same in every test.
        fixed = ["--disable-cache", "--ssh-identity-file", str(self.identity)]
        # Horovod hands ssh's options to mpirun by a name that Open MPI 5 doesn't know any more.
        environment = user_environment(PRTE_MCA_plm_ssh_args=f"-i {self.identity}")
        command = ["horovodrun", *world, *fixed, *options, "python", SCRIPT, *to_arguments(config)]
        return self.hosts[0].start(command, environment)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two hosts on which Horovod can start."""
    mount_point = tmp_path / "work"
    mount_point.mkdir()
    with two_hosts() as hosts, ssh_servers(hosts, tmp_path / "ssh") as identity:
        disks = []
        for host in hosts:
            disk = tmp_path / host.name
            disk.mkdir()
            host.run("mount", "--bind", str(disk), str(mount_point))
            disks.append(disk)
        yield Site(hosts, identity, tuple(disks), mount_point)
