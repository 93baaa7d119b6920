"""What machine this is: its processors, memory and versions, the cores a worker is pinned to, the bytes on its wire."""

import fcntl
import hashlib
import os
import platform
import socket
import subprocess
import sysconfig
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

import psutil

from common.declarations.slurm import is_task
from common.errors import UserError
from common.measurement import limits, startup
from common.paths import ROOT
from common.records.header import Machine
from common.records.site import site

PRIVATE_NETWORK = "LOCKSTEP_PRIVATE_NETWORK"
"""Environment variable that the launcher sets to 1 where this launch has a network namespace to itself."""

MEASURES = "LOCKSTEP_MEASURES"
"""Environment variable with the number of the descriptor by which a program inherits the lock of `alone`."""

_LOCKED = Path("/dev/shm")
"""What `alone` locks: in memory, so never shared by machines, and never tidied up as /tmp is."""

_CLAIM = "\0lockstep-measures"
"""The abstract socket that `alone` binds as well."""

_PACKAGES = ("numpy", "scikit-learn", "safetensors")
"""Distributions that every launch uses."""


def host_facts() -> Machine:
    """The machine's name, processor, cores, memory in bytes, GPUs and kernel."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return Machine(
        name=socket.gethostname(),
        processor=next(models, platform.machine()),
        cores=os.cpu_count(),
        core_limit=limits.of_this_process().cores,
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpu_names(),
        system=f"{platform.system()} {platform.release()}",
    )


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Versions of Python, and of those of our distributions and of these `packages` that are installed here."""
    by_name = {"python": platform.python_version()}
    for package in (*packages, *_PACKAGES):
        with suppress(metadata.PackageNotFoundError):
            by_name[package] = metadata.version(package)
    return by_name


def distributions(folders: Iterable[Path]) -> list[str]:
    """The name and version of every distribution installed in these folders, sorted.

    One that was installed from a file of this machine (PEP 610) comes with the digest of its files as well.
    """
    names: list[str] = []
    for distribution in (each for folder in folders for each in folder.glob("*.dist-info")):
        files, name = distribution / "RECORD", distribution.name
        if (distribution / "direct_url.json").exists() and files.exists():
            name += f" {hashlib.sha256(files.read_bytes()).hexdigest()}"
        names.append(name)
    return sorted(names)


def python_variables() -> dict[str, str]:
    """The variables that are set and that Python itself obeys, but for those that a launch sets."""
    names = sorted(name for name in os.environ if name.startswith("PYTHON") and name != "PYTHONUNBUFFERED")
    return {name: os.environ[name] for name in names if os.environ[name]}


def packages_digest() -> str:
    """SHA-256 of Python's version and of every distribution of this environment; it takes 1 ms."""
    lines = [f"Python {platform.python_version()}", *distributions([Path(sysconfig.get_path("purelib"))])]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def gpu_names() -> list[str]:
    """Names of the NVIDIA GPUs that the driver shows, in its order; none without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


class Threaded(Protocol):
    """What says how many threads each worker computes with, such as a task."""

    threads: int


@dataclass(frozen=True)
class Pinning:
    """Where a process computes: the cores it is kept on, or none where its machine has fewer cores than threads."""

    pinned_cores: list[int]
    oversubscribed: bool
    bound_by_slurm: bool = False
    """Whether srun, which started this process, keeps it there; else it has pinned itself."""


def unpinned(task: Threaded, local_world_size: int) -> Pinning:
    """The pinning of a process that only coordinates `local_world_size` others on this machine."""
    # Every process of a launch comes by here once, when its imports are done.
    startup.leave_word(f"{startup.UP}{os.getpid()}")
    return Pinning([], oversubscribed=_exceeds_cores(task, local_world_size))


def pin(task: Threaded, local_rank: int = 0, local_world_size: int = 1, replicas: int = 1) -> Pinning:
    """Keep this process, and every thread it starts from now on, on cores of its own, where cores suffice.

    A process that holds several `replicas` gets the cores of all of them. One that Slurm has bound stays where it is.
    """
    startup.leave_word(f"{startup.UP}{os.getpid()}")
    if is_task() and os.environ.get("SLURM_CPU_BIND_TYPE", "none") != "none":
        cores = sorted(os.sched_getaffinity(0))
        return Pinning(cores, oversubscribed=task.threads * replicas > len(cores), bound_by_slurm=True)
    if _exceeds_cores(task, local_world_size):
        return Pinning([], oversubscribed=True)
    first = local_rank * task.threads
    cores = sorted(os.sched_getaffinity(0))[first : first + task.threads * replicas]
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # A thread may end meanwhile.
            os.sched_setaffinity(int(thread), cores)
    return Pinning(cores, oversubscribed=False)


def _exceeds_cores(task: Threaded, local_world_size: int) -> bool:
    launch_site = site()
    threads = local_world_size * task.threads
    return bool(launch_site and launch_site.oversubscribed) or threads > limits.usable_cores()


@contextmanager
def alone() -> Generator[int]:
    """Measure in the block, which nothing else of ours does on this machine meanwhile; gives the lock's descriptor.

    A child that is given the descriptor, and its number in the variable `MEASURES`, may measure as well, and holds the
    lock on. Raises UserError where another comparison or benchmark runs here: each would measure the other as well.

    The lock is flock(2) of a folder that every user can open and only root can replace, and ends with the processes
    that hold it. Where the network is shared but not the folder, as in some containers and batch jobs, an abstract
    socket (unix(7)) does the same. A user may hold them on purpose: the refusal names the process.
    """
    lock = _open_lock()
    try:
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise _refusal(_holder()) from error
            try:
                claim.bind(_CLAIM)
            except OSError as error:
                raise _refusal("") from error
            yield lock
    finally:
        # Never unlocked: whoever else has inherited the lock holds it on.
        os.close(lock)


def _open_lock() -> int:
    """A new descriptor of what is locked: of the lock that was inherited, where there is one."""
    with suppress(KeyError, ValueError, OSError):
        inherited = os.dup(int(os.environ[MEASURES]))
        if os.path.samestat(os.fstat(inherited), _LOCKED.stat()):
            return inherited
        os.close(inherited)
    try:
        return os.open(_LOCKED, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UserError(
            f"{_LOCKED} can't be opened ({error.strerror}), and comparisons of all users take turns by it: let root "
            f"mount it, by `mount -t tmpfs -o mode=1777 tmpfs {_LOCKED}`."
        ) from error


def _holder() -> str:
    """The process that has taken the lock, and its user, in parentheses; empty where it can't be seen from here."""
    about = _LOCKED.stat()
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    # As in "1: FLOCK ADVISORY WRITE 4711 00:1b:1 0 EOF" (proc(5), /proc/locks).
    with suppress(OSError, psutil.Error):
        for words in map(str.split, Path("/proc/locks").read_text(encoding="utf-8").splitlines()):
            if words[1] == "FLOCK" and words[5] == place:
                process = psutil.Process(int(words[4]))
                return f" (process {process.pid} of {process.username()})"
    return ""


def _refusal(holder: str) -> UserError:
    return UserError(
        f"Another comparison or benchmark runs on this machine{holder}, and each would measure the other as well: wait "
        "for its end, or end it."
    )


def git_commit() -> str | None:
    """The commit of this checkout, with `+changes` where files differ from it; None outside a checkout."""
    # No hash is as long as this, and no tag is named.
    whole = ["--always", "--abbrev=64", "--exclude=*", "--dirty=+changes"]
    try:
        command = ["git", "-C", str(ROOT), "describe", *whole]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def has_private_network() -> bool:
    """Whether the launcher gave this launch a network namespace, and with it byte counters, of its own."""
    return os.environ.get(PRIVATE_NETWORK) == "1"


def counted_interface() -> str | None:
    """The network interface whose bytes are this launch's: its own loopback, or this host's way to its other hosts.

    None where it shares all of them with others.
    """
    if has_private_network():
        return "lo"
    launch_site = site()
    return launch_site.interface if launch_site and len(launch_site.hosts) > 1 else None


def bytes_sent(interface: str) -> int:
    """Bytes that have been sent over this network interface, packet headers included."""
    return psutil.net_io_counters(pernic=True)[interface].bytes_sent


def watch_memory() -> int:
    """This process's resident bytes now; from now on `peak_memory` tells how far they rise."""
    with suppress(OSError):  # Where it isn't allowed, an earlier peak counts too.
        # Resets VmHWM, the largest resident memory so far (proc(5), /proc/pid/clear_refs).
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return psutil.Process().memory_info().rss


def peak_memory() -> int:
    """The largest resident bytes of this process since `watch_memory`."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    # In KiB, though it says kB (proc(5)).
    [kibibytes] = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return kibibytes * 1024
