"""A Slurm of the tests' own: Debian's daemons on virtual hosts of this machine, gone with the block that made them.

Every virtual host has a slurmd, and the head has the controller, with a munge of their own. What they leave lies in one
folder below /tmp, which hosts share as nodes share a disk.
"""

import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.launching.virtual_hosts.description import TEMPORARY_FOLDER
from common.launching.virtual_hosts.virtual_cluster import VirtualCluster, virtual_hosts

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "cc")
"""What has to be installed: Debian's munge and slurm-wlm, and a compiler of C."""

ALLOCATION = ("salloc", "--nodes=2", "--ntasks-per-node=1")

# A namespace has one user and one group, and the kernel lets nobody in it change groups, which the daemons ask for.
_WITHOUT_GROUPS = """
#include <grp.h>
int setgroups(size_t size, const gid_t *list) { return 0; }
int initgroups(const char *user, gid_t group) { return 0; }
"""

_CONFIGURATION = """
ClusterName=lockstep
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket,ttl=30
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
MpiDefault=none
ReturnToService=2
SlurmdTimeout=5
KillWait=5
TmpFS=/dev/shm
"""
_READY_SECONDS = 30.0


@dataclass(frozen=True)
class SlurmCluster:
    """A Slurm whose controller is on the head of virtual hosts."""

    made: VirtualCluster
    folder: Path
    start: Callable[..., subprocess.Popen[bytes]]
    """Starts a program that ends with the cluster, by a name for its log and its command line."""

    def command(self, *words: str) -> list[str]:
        """The command line that runs `words` on the head, as one of Slurm's clients."""
        # slurmd would set /tmp, which the hosts share here. mpirun names its folders there by process numbers alone,
        # which the hosts have in common: the first launch to end removes the folder of another.
        settings = {"SLURM_CONF": f"{self.folder}/slurm.conf", "TMPDIR": TEMPORARY_FOLDER}
        return self.made.enter(*words, variables=settings)

    def daemon(self, *words: str) -> list[str]:
        """The words that start one of Slurm's daemons on the host where they run."""
        settings = [f"SLURM_CONF={self.folder}/slurm.conf", f"LD_PRELOAD={self.folder}/groups.so"]
        return ["env", *settings, *words, "-D"]

    def run(self, *words: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """What `words` print on the head, and how they end."""
        return subprocess.run(self.command(*words), capture_output=True, encoding="utf-8", timeout=seconds)

    def start_slurmd(self, host: str) -> None:
        """Start the daemon of this node."""
        self.start(host, *self.made.enter("ssh", "-T", host, "exec", *self.daemon("slurmd")))

    def kill_slurmd(self, host: str) -> None:
        """Kill the daemon of this node, by the number that it has noted."""
        pid = (self.folder / f"slurmd-{host}.pid").read_text().strip()
        assert self.run("ssh", "-T", host, "kill", "-KILL", pid).returncode == 0

    def wait_for(self, command: Sequence[str], expected: str, seconds: float = _READY_SECONDS) -> None:
        """Wait until a client of Slurm prints this and nothing else."""
        deadline = time.monotonic() + seconds
        while (printed := self.run(*command).stdout.strip()) != expected:
            assert time.monotonic() < deadline, f"{' '.join(command)} still prints {printed!r}, not {expected!r}."
            time.sleep(0.2)


@contextmanager
def slurm_cluster() -> Generator[SlurmCluster]:
    """A Slurm with two nodes of a core each. Raises UserError where there can't be virtual hosts."""
    with ExitStack() as ends:
        # Not pytest's folder: the path of a socket has at most 107 characters (unix(7)).
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp")))
        made = ends.enter_context(virtual_hosts(2))
        names = made.description.names
        nodes = f"NodeName={','.join(names)} CPUs=1 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES\n"
        (folder / "slurm.conf").write_text(_CONFIGURATION.format(folder=folder) + nodes)
        for name in ("state", *(f"spool-{name}" for name in names)):
            (folder / name).mkdir()
        key, library = folder / "munge.key", folder / "groups.so"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(compiler, input=_WITHOUT_GROUPS.encode(), check=True)
        of_munge = [f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("socket", "key-file", "pid-file")]
        of_munge += [f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]

        def start(name: str, *command: str) -> subprocess.Popen[bytes]:
            log = ends.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            ends.callback(process.wait)
            ends.callback(process.terminate)
            return process

        start("munged", *made.enter("munged", "--foreground", "--force", *of_munge))
        cluster = SlurmCluster(made, folder, start)
        start("slurmctld", *made.enter(*cluster.daemon("slurmctld", "-i")))
        for name in names:
            cluster.start_slurmd(name)
        try:
            cluster.wait_for(["sinfo", "--noheader", "--format=%T"], "idle")
            yield cluster
        except AssertionError as error:
            error.add_note("\n".join(path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log")))
            raise
