"""A cluster of TensorFlow processes: read from TF_CONFIG and checked, or started here with a TF_CONFIG each.

tf.distribute brings no launcher. Each process finds TF_CONFIG in its environment, a JSON object that names the
cluster's tasks and the process's own task (tensorflow.org/guide/distributed_training).
"""

import json
import os
import re
import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from common.declarations import arguments
from common.declarations.library import Library
from common.declarations.strategy import Strategy
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError, UserError
from common.launching.inheritance import drop_proxies
from common.launching.launch import environment_for
from common.launching.processes import REPORT_SECONDS, end_at_deadline, free_ports, run_tasks
from common.launching.programs import Request, refuse_early
from tf_impl.strategies import ParameterServerOptions, cluster_is_given

_REMEDY = "correct it, or unset it to start all processes here"
_NAMES = {"worker": "worker", "chief": "chief", "ps": "parameter server"}


@dataclass(frozen=True)
class Cluster:
    """The tasks of the cluster, and this process's own task."""

    addresses: dict[str, list[str]]
    """`host:port` of every task, by job: chief, worker, ps."""
    job: str
    """This process's job."""
    index: int
    """This process's task within its job, from 0."""

    @property
    def address(self) -> str:
        """This process's `host:port`."""
        return self.addresses[self.job][self.index]

    def all_addresses(self, *jobs: str) -> list[str]:
        """The addresses of these jobs' tasks, job by job in the given order."""
        return [address for job in jobs for address in self.addresses.get(job, [])]

    def neighbours(self, *jobs: str) -> list[str]:
        """The addresses of these jobs' tasks on this process's own host, in the order of `all_addresses`."""
        host = _host(self.address)
        return [address for address in self.all_addresses(*jobs) if _host(address) == host]


def start_unless_given(program: Strategy | Library, description: str) -> None:
    """Start the whole cluster here, unless one is given. Wait for its end and exit with its status.

    Every process runs this script again with the same command line and a TF_CONFIG of its own. With parameter servers
    there are a coordinator and the servers beside the workers. That cluster ends with the coordinator, and a worker
    that a signal ended is started again, a few times. Raises UserError for a command line that every process would
    refuse, and LaunchFailedError when a process failed.
    """
    if isinstance(program, Strategy):
        limits, options = arguments.parse_command_line(program, description)
    else:
        limits, options = arguments.parse(Sweep, description), program.options
    if cluster_is_given():
        return
    workers = limits.workers or 1
    refuse_early(program, Request(limits, workers, options))
    counts, waited_for, restarted = {"worker": workers}, None, range(0)
    if isinstance(options, ParameterServerOptions):
        # The coordinator comes first, since the launcher waits for the first task alone.
        counts, waited_for = {"chief": 1} | counts | {"ps": options.parameter_servers}, 1
        restarted = range(1, 1 + workers)
    environment = environment_for(program, limits)
    run_tasks(tasks_of(counts), environment, limits.deadline_seconds, waited_for, restarted)


def tasks_of(counts: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """The TF_CONFIG of each task of a cluster on this machine, by the task's name; `counts` has the tasks of a job."""
    ports = iter(free_ports(sum(counts.values())))
    addresses = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()}
    tasks = {}
    for job, count in counts.items():
        for index in range(count):
            config = {"cluster": addresses, "task": {"type": job, "index": index}}
            tasks[f"{_NAMES[job]} {index}"] = {"TF_CONFIG": json.dumps(config)}
    return tasks


def from_tf_config(jobs: Collection[str]) -> Cluster:
    """The cluster that TF_CONFIG names, whose tasks belong to `jobs`.

    Raises UserError when TF_CONFIG is malformed or contradicts itself.
    """
    try:
        content = json.loads(os.environ["TF_CONFIG"])
        addresses = {job: list(tasks) for job, tasks in content["cluster"].items()}
        job, index = content["task"]["type"], content["task"]["index"]
    except ValueError as error:
        raise UserError(f"TF_CONFIG isn't JSON ({error}): {_REMEDY}.") from error
    except (KeyError, TypeError, AttributeError) as error:
        form = '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
        raise UserError(f"TF_CONFIG doesn't have the form {form}: {_REMEDY}.") from error
    if unknown := [each for each in addresses if each not in jobs]:
        raise UserError(
            f"TF_CONFIG names the job {unknown[0]!r}, and this strategy has {' and '.join(jobs)}: {_REMEDY}."
        )
    all_addresses = [address for tasks in addresses.values() for address in tasks]
    for address in all_addresses:
        if not isinstance(address, str) or not re.fullmatch(r".+:\d{1,5}", address) or not 0 < _port(address) < 65536:
            raise UserError(f"TF_CONFIG names the address {address!r}, which isn't host:port: {_REMEDY}.")
        if all_addresses.count(address) > 1:
            raise UserError(f"TF_CONFIG gives {address} to several tasks: {_REMEDY}.")
    if job not in addresses:
        raise UserError(f"TF_CONFIG says that this is a {job!r}, but its cluster has no such job: {_REMEDY}.")
    count = len(addresses[job])
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
        raise UserError(
            f"TF_CONFIG says that this is {job} {index}, and the cluster has {count}, counted from 0: {_REMEDY}."
        )
    return Cluster(addresses, job, index)


def meet(cluster: Cluster, deadline_seconds: float) -> None:
    """Listen on this task's port until every task of the cluster listens on its own, then free the port.

    TensorFlow waits for a task without end, in C++ that holds the interpreter's lock. No signal and no thread of Python
    gets through then, so the processes meet here first. Raises UserError when this task's port is taken, and
    LaunchFailedError when a task doesn't come in time. From here on the process ends itself at the deadline.
    """
    end_at_deadline(deadline_seconds)
    drop_proxies()
    deadline = time.monotonic() + deadline_seconds
    with socket.socket() as listener:
        # Otherwise the port would be taken for a minute after the last cluster left it (tcp(7), TIME_WAIT).
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", _port(cluster.address)))
        except OSError as error:
            raise UserError(
                f"Port {_port(cluster.address)} of {_NAMES[cluster.job]} {cluster.index} is taken ({error.strerror}): "
                "end the program that listens there, or give the task another port in TF_CONFIG."
            ) from error
        listener.listen(128)
        for job, addresses in cluster.addresses.items():
            for index, address in enumerate(addresses):
                while not is_reachable(address):
                    if time.monotonic() > deadline - REPORT_SECONDS:
                        raise LaunchFailedError(
                            f"{_NAMES[job]} {index} ({address}) didn't start within the deadline of "
                            f"{deadline_seconds:g} s: start it on its machine, or correct its address in TF_CONFIG."
                        )
                    time.sleep(0.1)


def serve_until_gone(address: str) -> None:
    """Return once a server of TensorFlow has answered on `address` and no process listens there any more.

    A server of TensorFlow would stay for ever. With this it leaves together with its coordinator. To be reachable isn't
    enough at first: the coordinator may still wait in `meet` for others, and frees its port before its server takes it.
    """
    while not _answers(address):
        time.sleep(0.1)
    while is_reachable(address):
        time.sleep(1)


def _answers(address: str) -> bool:
    """Whether a gRPC server listens on `host:port`: it speaks first (RFC 9113, section 3.4), and `meet` never does."""
    try:
        with socket.create_connection((_host(address), _port(address)), timeout=5) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


def is_reachable(address: str) -> bool:
    """Whether a process listens on `host:port`."""
    try:
        socket.create_connection((_host(address), _port(address)), timeout=5).close()
    except OSError:
        return False
    return True


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
