"""Workers of Horovod that can't reach each other, or lose each other: each ends with the reason, in one line.

Workers are started as horovodrun starts them, with a rendezvous of the test's own, which can lead them astray.
"""

import contextlib
import http.server
import os
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator

import pytest

from common.declarations.catalogue import find
from common.errors import FAILED_STATUS
from common.launching.launch import python_for
from common.paths import ROOT

DEADLINE_SECONDS = 60
CLOSED_PORT = 256
"""Of a peer that isn't there. As Gloo compares ports it is below any of a worker's, and of two workers the one with the
higher port calls the other."""

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


class Rendezvous(http.server.BaseHTTPRequestHandler):
    """What horovodrun's rendezvous does for those who sign, for everybody."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.values[self.path] = self.rfile.read(length)
        self.answer(200)

    def do_GET(self) -> None:
        value = self.server.values.get(self.path)
        self.answer(404 if value is None else 200, value or b"")

    def do_DELETE(self) -> None:
        self.answer(200)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class AddressOfNobody(Rendezvous):
    """Tells each worker an address of its peer at which nobody listens."""

    def do_GET(self) -> None:
        own = self.server.values.get(self.path.replace("/1", "/0"))
        if own and self.path.endswith("/1"):
            # A sockaddr_in begins with the family, in the machine's byte order, and the port, in the network's.
            self.answer(200, own[:2] + struct.pack("!H", CLOSED_PORT) + own[4:])
        else:
            super().do_GET()


@contextlib.contextmanager
def rendezvous(handler: type[Rendezvous]) -> Iterator[int]:
    """The port at which a rendezvous listens while the block runs."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.values = {}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def start(arguments: list[str], port: int, rank: int = 0, size: int = 2, **changes: str) -> subprocess.Popen:
    """One worker of `size` on this machine, as horovodrun would start it."""
    place = {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank, "LOCAL_SIZE": size, "CROSS_RANK": 0, "CROSS_SIZE": 1}
    gloo = {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "GLOO_IFACE": "lo", "HOSTNAME": "localhost"}
    address = {"GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": port}
    settings = {f"HOROVOD_{name}": str(value) for name, value in (place | gloo | address).items()}
    return subprocess.Popen(
        [str(python_for(find("horovod_torch"))), *arguments],
        cwd=ROOT,
        env=os.environ | settings | {"_HOROVOD_SECRET_KEY": "key"} | changes,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def end_of(process: subprocess.Popen) -> tuple[int, str]:
    """Its exit status and what it printed, once it has ended by itself."""
    try:
        output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    finally:
        process.kill()
    return process.returncode, output


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def failure_of(strategy: str, port: int, **changes: str) -> str:
    """What the strategy's script says in the one line with which it fails."""
    script = [find(strategy).script, "--preset", "digits", "--workers", "2", "--device", "cpu"]
    status, output = end_of(start(script, port, **changes))
    assert status == FAILED_STATUS, output
    found = [line for line in output.splitlines() if line.startswith("lockstep: failed: ")]
    assert len(found) == 1, output
    assert "Traceback" not in output
    return found[0]


@pytest.mark.parametrize(
    "strategy",
    [
        "horovod_torch",
        pytest.param("horovod_tensorflow", marks=pytest.mark.grid),
        pytest.param("horovod_keras", marks=pytest.mark.grid),
    ],
)
def test_a_rendezvous_that_nobody_answers_for_is_named(strategy):
    port = closed_port()
    line = failure_of(strategy, port)
    assert line.startswith("lockstep: failed: Horovod could not join the workers (")
    assert f"Failed to connect to 127.0.0.1:{port}: Connection refused" in line


@pytest.mark.grid
def test_a_peer_or_an_interface_that_cannot_be_reached_is_named():
    with rendezvous(AddressOfNobody) as port:
        line = failure_of("horovod_torch", port)
    assert f"(connect [127.0.0.1]:{CLOSED_PORT}: Connection refused)" in line
    assert "(Unable to find address for: nothing0)" in failure_of("horovod_torch", 1, HOROVOD_GLOO_IFACE="nothing0")


@pytest.mark.grid
def test_operations_that_are_pending_and_late_ones_end_with_the_reason_why_a_peer_is_gone():
    with rendezvous(Rendezvous) as port:
        workers = [start(["-c", LOSES_ITS_PEER], port, rank) for rank in range(2)]
        [(status, output), _] = [end_of(worker) for worker in workers]
    assert status == 0, output
    for operation in ("pending", "late"):
        reason = rf"^{operation}: Horovod's background thread ended: .*\[127\.0\.0\.1\]:\d+"
        assert re.search(reason, output, re.MULTILINE), output


@pytest.mark.grid
def test_who_has_failed_to_join_may_try_again():
    with rendezvous(Rendezvous) as port:
        status, output = end_of(start(["-c", TRIES_AGAIN], port, size=1))
    assert status == 0, output
    errors = [line for line in output.splitlines() if line.startswith("Horovod initialization failed: ")]
    assert ["Unsupported controller" in error for error in errors] == [True, False], output
    assert "can't be reached" in errors[1]
    assert output.splitlines()[-1] == "joined 1"


@pytest.mark.grid
def test_who_initializes_again_gets_no_old_address_from_horovodruns_rendezvous():
    assert end_of(start(["-c", FORGETS_ADDRESSES], 0)) == (0, "200\n404\n")
