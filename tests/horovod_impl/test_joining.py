"""Workers of Horovod that can't reach each other, or lose each other: each ends with the reason, in one line."""

import re
import socket

import pytest

from common.declarations.catalogue import find
from common.errors import FAILED_STATUS
from common.launching.launch import python_for
from tests.conftest import run_command
from tests.grid import in_grid
from tests.horovod_impl.conftest import STRATEGY, horovodrun
from tests.launching import output_of

LOSES_ITS_PEER = """
import os, sys, time
import torch
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError

# At its end Horovod asks all workers whether it may remove a set of them.
hvd.init(process_sets=[hvd.ProcessSet([0])])
hvd.allreduce(torch.ones(1), name="together")
if hvd.rank() == 1:
    time.sleep(1)
    os._exit(0)
for operation in ("pending", "late"):
    try:
        hvd.allreduce(torch.ones(1), name=operation)
    except HorovodInternalError as error:
        print(f"{operation}: {error}", flush=True)
"""

TRIES_AGAIN = """
import os, sys
import horovod.torch as hvd

port = os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
for change in ({"HOROVOD_CONTROLLER": "pigeons"}, {"HOROVOD_GLOO_RENDEZVOUS_PORT": "1"}):
    before = dict(os.environ)
    os.environ.update(change)
    try:
        hvd.init()
    except ValueError as error:
        print(error, flush=True)
    hvd.shutdown()
    os.environ.update(before)
hvd.init()
print("joined", hvd.size(), flush=True)
"""

FORGETS_ADDRESSES = """
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from horovod.runner.common.util import request_signature
from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.http.http_server import RendezvousServer

request_signature.make_job_key()
server = RendezvousServer()
port = server.start(address="127.0.0.1")
server.init([SlotInfo("host", rank, rank, 0, 2, 2, 1) for rank in range(2)])


def status(method, path, body=None):
    request = Request(f"http://127.0.0.1:{port}/{path}", data=body, method=method)
    request_signature.sign(request)
    try:
        return urlopen(request).status
    except HTTPError as error:
        return error.code


for rank in range(2):
    status("PUT", f"local_host/{rank}", b"address")
print(status("GET", "local_host/1"))
# Worker 0 is done among the two on its host, and as the only one across hosts, before worker 1 is done.
for path in ("local_host/0", "cross_0/0", "local_host/1"):
    status("DELETE", path)
print(status("GET", "local_host/1"))
server.stop()
"""


def failure_of(strategy: str, port: int, interface: str = "lo") -> str:
    """What a worker says in the one line with which it fails, started as horovodrun starts the first of two.

    The rendezvous should be at this port of the loopback.
    """
    place = {"RANK": 0, "SIZE": 2, "LOCAL_RANK": 0, "LOCAL_SIZE": 2, "CROSS_RANK": 0, "CROSS_SIZE": 1}
    gloo = {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "GLOO_IFACE": interface, "HOSTNAME": "localhost"}
    address = {"GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": port}
    settings = {f"HOROVOD_{name}": str(value) for name, value in (place | gloo | address).items()}
    command = [str(python_for(find(strategy))), find(strategy).script, "--workers", "2", "--device", "cpu"]
    status, output = run_command(command, _HOROVOD_SECRET_KEY="key", **settings)
    assert status == FAILED_STATUS, output
    [line] = [line for line in output.splitlines() if line.startswith("lockstep: failed: ")]
    assert "Traceback" not in output
    return line


@pytest.mark.parametrize(
    "strategy", in_grid(["horovod_torch", "horovod_tensorflow", "horovod_keras"], ["horovod_torch"])
)
def test_a_rendezvous_that_nobody_answers_for_is_named(strategy):
    with socket.socket() as bound:
        # Bound, so that nobody else takes it, and nobody listens there.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        line = failure_of(strategy, port)
    assert line.startswith("lockstep: failed: Horovod could not join the workers (")
    assert f"Failed to connect to 127.0.0.1:{port}: Connection refused" in line


@pytest.mark.grid
def test_an_interface_that_is_not_there_is_named():
    assert "(Unable to find address for: nothing0)" in failure_of("horovod_torch", 1, "nothing0")


@pytest.mark.grid
def test_operations_that_are_pending_and_late_ones_end_with_the_reason_why_a_peer_is_gone():
    status, output = run_command(horovodrun(2, "-c", LOSES_ITS_PEER))
    assert status == 0, output
    for operation in ("pending", "late"):
        reason = rf"{operation}: Horovod's background thread ended: .*\[127\.0\.0\.1\]:\d+"
        assert re.search(reason, output), output


@pytest.mark.grid
def test_who_has_failed_to_join_may_try_again():
    status, output = run_command(horovodrun(1, "-c", TRIES_AGAIN))
    assert status == 0, output
    errors = [line for line in output.splitlines() if "Horovod initialization failed: " in line]
    assert ["Unsupported controller" in error for error in errors] == [True, False], output
    assert "can't be reached" in errors[1]
    assert "joined 1" in output


@pytest.mark.grid
def test_who_initializes_again_gets_no_old_address_from_horovodruns_rendezvous():
    assert output_of(STRATEGY.name, "python", "-c", FORGETS_ADDRESSES) == "200\n404\n"
