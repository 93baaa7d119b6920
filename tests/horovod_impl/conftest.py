"""What Horovod's tests share: two hosts with ssh between them, and horovodrun on the first of them."""

import dataclasses
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from common.contract.task import Task
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.contract.worlds import contract_task
from tests.hosts import VirtualHost, processes_of, require_ssh, two_hosts
from tests.launching import wait_for, words_of

STRATEGY = find("horovod_torch")


SECRET = "it's $HOME \"quoted\", and nobody else's"
"""What the user keeps in a variable."""


def horovodrun(workers: int, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command line of horovodrun over Gloo, by which so many workers of its Python get these arguments."""
    python = python_for(STRATEGY)
    return [str(python.parent / "horovodrun"), "--gloo", *options, "-np", str(workers), str(python), *arguments]


SETTLE_SECONDS = 20.0
"""How long what has failed may take to end everywhere; far below any deadline."""


@dataclass(frozen=True)
class Site:
    """Two hosts that reach each other by ssh and share no disk: each has a folder of its own at the same path."""

    hosts: tuple[VirtualHost, VirtualHost]
    disks: tuple[Path, Path]
    """Where each host's folder is seen from outside."""
    mount_point: Path
    """Where each host sees its own."""
    servers: tuple[frozenset[int], frozenset[int]]
    """What runs on each host before any test starts something there."""

    def task(self, workers: int, **overrides: object) -> Task:
        """The contract's task, on the CPU, since both hosts would find the same GPU."""
        task = contract_task("digits", workers, self.mount_point, device="cpu")
        return dataclasses.replace(task, record=self.mount_point / "run.json", **overrides)

    def start(self, controller: str, hosts: str, task: Task, *options: str) -> subprocess.Popen:
        """horovodrun on the first host; `hosts` is what follows its -H."""
        world = [f"--{controller}", "-np", str(task.workers), "-H", hosts]
        script = [STRATEGY.script, *to_arguments(task, STRATEGY.options())]
        # Horovod remembers for an hour which hosts it has reached, by their names, which are the same in every test.
        command = ["horovodrun", *world, "--disable-cache", *options, "python", *script]
        # As after `source activate`.
        path = f"{python_for(STRATEGY).parent}:{os.environ['PATH']}"
        variables = {"PATH": path, "OMP_NUM_THREADS": "1", "USERS_SECRET": SECRET}
        return self.hosts[0].start(command, os.environ | variables)

    def command_lines(self) -> list[str]:
        """Those of all processes on both hosts."""
        return [" ".join(words_of(psutil.Process(pid))) for host in self.hosts for pid in processes_of(host)]

    def workers(self, number: int) -> list[psutil.Process]:
        """The processes on a host that train."""
        processes = [psutil.Process(pid) for pid in processes_of(self.hosts[number])]
        return [process for process in processes if words_of(process)[1:2] == [STRATEGY.script]]

    def wait_until_idle(self) -> None:
        """Return when what a test started has ended on both hosts; fail when something is left."""
        servers = {pid for pids in self.servers for pid in pids}
        with suppress(AssertionError):
            wait_for(lambda: {pid for host in self.hosts for pid in processes_of(host)} <= servers, SETTLE_SECONDS)
            return
        raise AssertionError(f"Still running: {self.command_lines()}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two hosts on which Horovod can start."""
    require_ssh()
    mount_point = tmp_path / "work"
    mount_point.mkdir()
    with two_hosts() as hosts:
        disks = []
        for host in hosts:
            disk = tmp_path / host.name
            disk.mkdir()
            host.run("mount", "--bind", str(disk), str(mount_point))
            disks.append(disk)
        servers = tuple(frozenset(processes_of(host)) for host in hosts)
        yield Site(hosts, tuple(disks), mount_point, servers)
