"""Ray around a training: connecting to it, what it says of workers that failed, and the files that come back.

Without an address Ray is started on this machine for this launch alone. At an address its workers may be anywhere, so
this checkout's code and the launch's files go there and come back through Ray.
"""

import dataclasses
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import ray
from ray.train import TrainingFailedError, WorkerGroupError
from ray.train.torch import TorchTrainer

from common import errors
from common.contract.task import Task
from common.errors import LaunchFailedError, UserError, print_note
from common.files import write_atomically
from common.launching.processes import end_at_deadline
from common.paths import ROOT, new_record
from pytorch_impl.strategies import RAY_OBJECT_STORE_BYTES, RAY_TRAIN, RayOptions

_ANSWER_SECONDS = 10
"""What a cluster has for accepting a connection."""


@dataclass(frozen=True)
class Job:
    """What every worker is told."""

    task: Task
    options: RayOptions
    workers: int
    checkpoint: bytes | None = field(default=None, repr=False)
    """What the workers go on from, where they can't read it themselves."""


def job_of(task: Task, options: RayOptions) -> Job:
    """The job that the command line asks for, with absolute paths: Ray's workers have a working folder of their own."""
    paths = {name: value and value.resolve() for name, value in vars(task).items() if isinstance(value, Path)}
    task = dataclasses.replace(task, **{"record": new_record(RAY_TRAIN.name), **paths})
    given = task.checkpoint if options.is_elsewhere else None
    checkpoint = given.read_bytes() if given and given.exists() else None
    return Job(task, options, task.workers or 1, checkpoint)


@contextmanager
def connected(job: Job) -> Iterator[str]:
    """Start Ray on this machine, or connect to the cluster at `--address`. Give a folder for Ray's own files.

    Raises UserError where no cluster answers or it has too few CPUs, and where the folder's name is too long.
    """
    end_at_deadline(job.task.deadline_seconds)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_ENABLE_PRINT_PATCH": "0"}
    quiet = {"logging_level": logging.ERROR, "log_to_driver": job.options.is_elsewhere}
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        try:
            if job.options.address:
                _connect(job, job.options.address, quiet)
            else:
                _lend_output(f"{folder}/output")
                # Else Ray would leave the token by which its processes know one another in the user's home.
                os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
                ray.init(
                    "local",
                    num_cpus=job.workers,
                    object_store_memory=RAY_OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    _temp_dir=folder,
                    **quiet,
                )
            yield folder
        except OSError as error:
            # unix(7): a socket's path has at most 107 bytes, of which Ray's own names take 64.
            if "AF_UNIX" not in str(error):
                raise
            raise UserError(
                f"Ray can't have sockets in {folder}, whose name is too long: set TMPDIR to /tmp."
            ) from error
        finally:
            ray.shutdown()


def _connect(job: Job, address: str, quiet: dict) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    remedy = "start it there by `ray start --head`, or correct --address"
    try:
        if not port.isdecimal():
            raise UserError(f"--address {address}: give HOST:PORT from a node of the cluster, else ray://HOST:PORT.")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise UserError(f"No Ray cluster answers at {address} ({error.strerror or error}): {remedy}.") from error
    code = {"py_modules": [str(ROOT / "common"), str(ROOT / "pytorch_impl")]}
    variables = {"env_vars": {"OMP_NUM_THREADS": str(job.task.threads)}}
    try:
        ray.init(address, runtime_env=code | variables, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).strip().partition("\n")[0].rstrip(".")
        raise UserError(
            f"The Ray cluster at {address} refuses this machine ({first}): give both the same versions of Ray and "
            "Python, and the same RAY_AUTH_MODE and RAY_AUTH_TOKEN."
        ) from error
    cpus = ray.cluster_resources().get("CPU", 0)
    if cpus < job.workers:
        raise UserError(
            f"The Ray cluster at {address} has {cpus:g} CPUs for {job.workers} workers: start fewer, or add nodes."
        )


def has_gpus(job: Job) -> bool:
    """Whether each worker gets a GPU of its own."""
    enough = ray.cluster_resources().get("GPU", 0) >= job.workers
    return job.task.device == "gpu" or (job.task.device == "auto" and enough)


def fit(trainer: TorchTrainer, job: Job) -> None:
    """Train, and write the files that come back. Raises what a worker raised, or LaunchFailedError for a lost one."""
    try:
        files = trainer.fit().return_value
    except WorkerGroupError as error:
        # Ray wraps both what a worker raised and the loss of one.
        failures = sorted(error.worker_failures.items())
        if lost := [rank for rank, each in failures if hasattr(each, "health_check_failure")]:
            raise LaunchFailedError(f"rank {lost[0]} was lost, so all processes were ended.") from error
        for _, each in failures:
            raised = getattr(each, "_base_exc", each)
            if isinstance(raised, (UserError, LaunchFailedError)):
                raise raised from error
        raise
    except TrainingFailedError as error:
        first = str(error.__cause__ or error).strip().rpartition("\n")[2].rstrip(".")
        raise LaunchFailedError(f"Ray gave up ({first}): see Ray's logs.") from error
    for path, content in files.items():
        write_atomically(Path(path), content)
    if files:
        print_note(f"the record came back from the cluster: {job.task.record}.")


def work(job: Job, folder_of_ray: str, train: Callable[[Task, RayOptions], None]) -> dict[str, bytes]:
    """Run in every worker: `train`, and return the files that are to come back, by the paths where they belong.

    Where the workers are elsewhere, each reads and writes in a folder of its own, and rank 0's files come back.
    """
    errors.note_main_began()
    task = job.task
    with tempfile.TemporaryDirectory() as folder:
        if job.options.is_elsewhere:
            checkpoint = task.checkpoint and Path(folder, task.checkpoint.name)
            task = dataclasses.replace(task, record=Path(folder, task.record.name), checkpoint=checkpoint)
            if checkpoint and job.checkpoint is not None:
                checkpoint.write_bytes(job.checkpoint)
        else:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(f"{folder_of_ray}/output")
                _, lent, *_ = socket.recv_fds(connection, 1, 2)
            for descriptor, own in zip(lent, (1, 2), strict=True):
                os.dup2(descriptor, own)
        try:
            train(task, job.options)
        except (UserError, LaunchFailedError) as error:
            # A launch that trains already can only fail; who says so is known here alone.
            raise LaunchFailedError(f"{errors.speaker}{error}") if errors.speaker else error from error
        return {str(job.task.record.with_name(path.name)): path.read_bytes() for path in Path(folder).iterdir()}


def _lend_output(path: str) -> None:
    """Lend this process's output, at a socket at this path, to workers of this machine: Ray would keep it in files."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()

    def lend() -> None:
        while True:
            with server.accept()[0] as connection:
                socket.send_fds(connection, [b"1"], [1, 2])

    Thread(target=lend, daemon=True).start()
