"""Workers of Horovod that can't join: each ends with the reason, in one line."""

import pytest

from common.declarations.catalogue import find
from common.errors import FAILED_STATUS
from common.launching.launch import python_for
from common.launching.processes import free_ports
from tests.conftest import run_command
from tests.grid import in_grid

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


@pytest.mark.parametrize(
    "strategy", in_grid(["horovod_torch", "horovod_tensorflow", "horovod_keras"], ["horovod_torch"])
)
def test_a_rendezvous_that_nobody_answers_for_is_named(strategy):
    """To the first of two workers on this machine, as horovodrun would start it."""
    [port] = free_ports(1)
    place = {"RANK": 0, "SIZE": 2, "LOCAL_RANK": 0, "LOCAL_SIZE": 2, "CROSS_RANK": 0, "CROSS_SIZE": 1}
    gloo = {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "GLOO_IFACE": "lo", "HOSTNAME": "localhost"}
    address = {"GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": port}
    settings = {f"HOROVOD_{name}": str(value) for name, value in (place | gloo | address).items()}
    command = [str(python_for(find(strategy))), find(strategy).script, "--preset", "digits", "--workers", "2"]
    status, output = run_command([*command, "--device", "cpu"], **settings, _HOROVOD_SECRET_KEY="key")
    assert status == FAILED_STATUS, output
    assert "Traceback" not in output
    [line] = [line for line in output.splitlines() if line.startswith("lockstep: failed: ")]
    assert line.startswith("lockstep: failed: Horovod could not join the workers (")
    assert f"Failed to connect to 127.0.0.1:{port}: Connection refused" in line


@pytest.mark.grid
def test_who_initializes_again_gets_no_old_address_from_horovodruns_rendezvous():
    assert run_command([str(python_for(find("horovod_torch"))), "-c", FORGETS_ADDRESSES]) == (0, "200\n404\n")
