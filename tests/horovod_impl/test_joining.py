"""Workers of Horovod that can't reach each other: each ends with the reason, in one line.

Workers are started as horovodrun starts them, with a rendezvous of the test's own, which can lead them astray.
"""

import http.server
import struct
import threading
from typing import ClassVar

import pytest

from common.declarations.catalogue import find
from common.errors import FAILED_STATUS
from common.launching.launch import python_for
from common.launching.processes import free_ports
from tests.conftest import run_command
from tests.grid import in_grid

CLOSED_PORT = 256
"""Of a peer that isn't there. As Gloo compares ports it is below any of a worker's, and of two workers the one with the
higher port calls the other."""

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


class AddressOfNobody(http.server.BaseHTTPRequestHandler):
    """A rendezvous that tells each worker an address of its peer at which nobody listens."""

    protocol_version = "HTTP/1.1"
    values: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_GET(self) -> None:
        own = self.values.get(self.path.replace("/1", "/0"))
        if own and self.path.endswith("/1"):
            # A sockaddr_in begins with the family, in the machine's byte order, and the port, in the network's.
            self.answer(200, own[:2] + struct.pack("!H", CLOSED_PORT) + own[4:])
        else:
            self.answer(200 if own else 404, own or b"")

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def run_worker(arguments: list[str], port: int) -> tuple[int, str]:
    """Exit status and output of the first of two workers on this machine, as horovodrun would start it."""
    place = {"RANK": 0, "SIZE": 2, "LOCAL_RANK": 0, "LOCAL_SIZE": 2, "CROSS_RANK": 0, "CROSS_SIZE": 1}
    gloo = {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "GLOO_IFACE": "lo", "HOSTNAME": "localhost"}
    address = {"GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": port}
    settings = {f"HOROVOD_{name}": str(value) for name, value in (place | gloo | address).items()}
    command = [str(python_for(find("horovod_torch"))), *arguments]
    return run_command(command, deadline_seconds=0, **settings, _HOROVOD_SECRET_KEY="key")


def failure_of(strategy: str, port: int) -> str:
    """What the strategy's script says in the one line with which it fails."""
    script = [find(strategy).script, "--preset", "digits", "--workers", "2", "--device", "cpu"]
    status, output = run_worker(script, port)
    assert status == FAILED_STATUS, output
    found = [line for line in output.splitlines() if line.startswith("lockstep: failed: ")]
    assert len(found) == 1, output
    assert "Traceback" not in output
    return found[0]


@pytest.mark.parametrize(
    "strategy", in_grid(["horovod_torch", "horovod_tensorflow", "horovod_keras"], ["horovod_torch"])
)
def test_a_rendezvous_that_nobody_answers_for_is_named(strategy):
    [port] = free_ports(1)
    line = failure_of(strategy, port)
    assert line.startswith("lockstep: failed: Horovod could not join the workers (")
    assert f"Failed to connect to 127.0.0.1:{port}: Connection refused" in line


@pytest.mark.grid
def test_a_peer_that_cannot_be_reached_is_named():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), AddressOfNobody) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            line = failure_of("horovod_torch", server.server_port)
        finally:
            server.shutdown()
            thread.join()
    assert f"(connect [127.0.0.1]:{CLOSED_PORT}: Connection refused)" in line


@pytest.mark.grid
def test_who_initializes_again_gets_no_old_address_from_horovodruns_rendezvous():
    assert run_worker(["-c", FORGETS_ADDRESSES], 0) == (0, "200\n404\n")
