"""What horovodrun's servers answer to strangers: nothing. Each kind of job gets forged requests while it runs."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from urllib.request import Request

import psutil
import pytest

from common.launching.launch import python_for
from horovod_impl.building import request_signature
from tests.horovod_impl.conftest import STRATEGY, horovodrun
from tests.launching import wait_for, words_of

DEADLINE_SECONDS = 120
KEY = "_HOROVOD_SECRET_KEY"
SECRET = "password-of-the-user"

WORKER = """
import sys, time
from pathlib import Path
import horovod.torch as hvd

def work(folder):
    hvd.init()
    Path(folder, f"ready-{hvd.rank()}").touch()
    while not Path(folder, "finish").exists():
        time.sleep(0.05)
    hvd.barrier()
    print(f"rank {hvd.rank()} ends well", flush=True)
    return hvd.rank()

if __name__ == "__main__":
    work(sys.argv[1])
"""

RUN_FUNCTION = """
import sys
import horovod
from worker import work

if __name__ == "__main__":
    print("results", horovod.run(work, args=(sys.argv[1],), num_proc=2, use_gloo=True))
"""

# What a wrapper of ours around ssh would see of it: its command line, and what it is sent; it runs the command here.
SSH = """#!/bin/sh
shift 3
while [ "$1" = -o ]; do shift 2; done
echo "$*" >> {folder}/ssh-lines
unset _HOROVOD_SECRET_KEY
tee -a {folder}/ssh-inputs | sh -c "$*"
"""


@contextlib.contextmanager
def running(folder, command, **environment):
    """A job of two workers that has come together; it ends when the file `finish` appears in the folder."""
    (folder / "worker.py").write_text(WORKER, encoding="utf-8")
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=folder, env=os.environ | environment, stdin=subprocess.DEVNULL, **output)
    job = psutil.Process(process.pid)
    try:
        wait_for(lambda: process.poll() is not None or len([*folder.glob("ready-*")]) == 2, DEADLINE_SECONDS)
        assert process.poll() is None, process.communicate()[0]
        yield job
        (folder / "finish").touch()
        output, _ = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, output
        assert all(f"rank {rank} ends well" in output for rank in range(2))
    finally:
        (folder / "finish").touch()
        for survivor in [*job.children(recursive=True), job] if process.poll() is None else []:
            with contextlib.suppress(psutil.NoSuchProcess):
                survivor.kill()


def listening(process):
    return [connection.laddr for connection in process.net_connections("tcp") if connection.status == "LISTEN"]


def of_workers(job, name):
    """The value of this variable in the workers' environment, which has to be the same for all."""
    found = set()
    for process in job.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            environment = process.environ()
            if "HOROVOD_RANK" in environment:
                found.add(environment[name])
    (value,) = found
    return value


def ask(address, method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection(*address, timeout=DEADLINE_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()


def signed(key, method, path, body=b""):
    """The headers of a signed request, written down anew."""
    digest = hashlib.sha256(body).hexdigest()
    code = hmac.new(key.encode(), f"{method} {path} {digest}".encode(), "sha256").hexdigest()
    return {"Horovod-Body": digest, "Horovod-Signature": code}


def ask_signed(key, address, method, path, body=b""):
    return ask(address, method, path, body, signed(key, method, path, body))


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job of `horovod.run`, which has a key-value store beside the rendezvous that each job has."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "run.py").write_text(RUN_FUNCTION, encoding="utf-8")
    path = f"{folder}:{os.environ.get('PYTHONPATH', '')}"
    command = [str(python_for(STRATEGY)), "run.py", "."]
    with running(folder, command, PYTHONPATH=path, USERS_SECRET=SECRET) as job:
        yield job


@pytest.fixture
def rendezvous(job):
    [address] = [each for each in listening(job) if str(each.port) == of_workers(job, "HOROVOD_GLOO_RENDEZVOUS_PORT")]
    return address


FORGERIES = {
    "unsigned": lambda key, method, path, body: {},
    "signed with another key": lambda key, method, path, body: signed("0" * 64, method, path, body),
    "signed with no key": lambda key, method, path, body: signed("", method, path, body),
    "signed for another method": lambda key, method, path, body: signed(key, "PATCH", path, body),
    "signed for another path": lambda key, method, path, body: signed(key, method, "/global/1", body),
    "signature that isn't text": lambda *request: signed(*request) | {"Horovod-Signature": "\xe9\xff"},
    "only the body's digest": lambda *request: {"Horovod-Body": signed(*request)["Horovod-Body"]},
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_request_is_refused_by_the_rendezvous_and_by_the_store_of_pickles(job, rendezvous, forgery):
    key, path = of_workers(job, KEY), "/scope/name"
    for server in listening(job):
        assert ask_signed(key, server, "PUT", path, b"own")[0] == 200
        for method in ("GET", "PUT", "DELETE", "HEAD", "POST") if server == rendezvous else ("GET", "PUT"):
            body = b"forged" if method == "PUT" else b""
            assert ask(server, method, path, body, forgery(key, method, path, body)) == (403, b"")
        assert ask_signed(key, server, "GET", path) == (200, b"own")


def test_a_stranger_is_refused_before_its_body_is_read_and_a_signature_is_of_its_body_alone(job, rendezvous):
    connection = http.client.HTTPConnection(*rendezvous, timeout=DEADLINE_SECONDS)
    with contextlib.closing(connection):
        connection.putrequest("PUT", "/scope/name")
        connection.putheader("Content-Length", str(2**40))
        connection.endheaders()
        assert connection.getresponse().status == 403
    key, path = of_workers(job, KEY), "/scope/accepted"
    assert ask_signed(key, rendezvous, "PUT", path, b"value")[0] == 200
    assert ask(rendezvous, "PUT", path, b"forged", signed(key, "PUT", path, b"own"))[0] == 403
    assert ask_signed(key, rendezvous, "GET", path) == (200, b"value")
    assert [ask_signed(key, rendezvous, method, path)[0] for method in ("DELETE", "GET")] == [200, 404]


def test_servers_are_on_the_loopback_and_neither_key_nor_environment_on_a_command_line(job):
    assert [address.ip for address in listening(job)] == ["127.0.0.1"] * 2
    key = of_workers(job, KEY)
    assert len(key) == 64
    lines = [" ".join(words_of(process)) for process in psutil.process_iter()]
    assert any("HOROVOD_RANK=1" in line for line in lines), "the command lines of the workers are seen"
    assert [line for line in lines if key in line or SECRET in line] == []
    assert of_workers(job, "USERS_SECRET") == SECRET


def test_each_job_has_a_key_of_its_own_without_which_nothing_is_signed(monkeypatch):
    monkeypatch.setenv(KEY, "of an outer job")
    first, second = request_signature.make_job_key(), request_signature.make_job_key()
    assert len({first, second, b"of an outer job"}) == 3
    assert os.environ[KEY].encode() == second
    monkeypatch.delenv(KEY)
    with pytest.raises(RuntimeError, match="start this process with horovodrun"):
        request_signature.sign(Request("http://127.0.0.1:1/scope/name"))
    with pytest.raises(RuntimeError, match="start this process with horovodrun"):
        request_signature.is_signed("GET", "/scope/name", signed("", "GET", "/scope/name"))


def test_a_pickle_in_the_place_of_an_elastic_worker_is_refused(tmp_path):
    # Unpickled, it calls os.system, which makes a file.
    bomb = base64.b64encode(f"cos\nsystem\n(S'touch {tmp_path}/unpickled'\ntR.".encode())
    (tmp_path / "hosts").write_text("#!/bin/sh\necho localhost:2\n", encoding="utf-8")
    (tmp_path / "hosts").chmod(0o755)
    elastic = ("--min-np", "2", "--host-discovery-script", "./hosts", "--network-interface", "lo")
    with running(tmp_path, horovodrun(2, "worker.py", ".", options=elastic)) as job:
        (address,) = listening(job)
        assert address.ip == "127.0.0.1"
        path = "/worker_addresses/localhost:7"
        assert ask(address, "PUT", path, bomb) == (403, b"")
        assert not (tmp_path / "unpickled").exists()
        with contextlib.suppress(http.client.HTTPException):
            ask_signed(of_workers(job, KEY), address, "PUT", path, bomb)
        assert (tmp_path / "unpickled").exists(), "signed, it is unpickled: it was the signature that kept it out"


def test_a_worker_on_another_machine_gets_the_key_by_standard_input(tmp_path):
    (tmp_path / "ssh").write_text(SSH.format(folder=tmp_path), encoding="utf-8")
    (tmp_path / "ssh").chmod(0o755)
    command = horovodrun(2, "worker.py", ".", options=("--disable-cache", "-H", "198.51.100.7:1,localhost:1"))
    with running(tmp_path, command, PATH=f"{tmp_path}:{os.environ['PATH']}") as job:
        key = of_workers(job, KEY)
    lines = (tmp_path / "ssh-lines").read_text(encoding="utf-8").splitlines()
    assert all(any(program in line for line in lines) for program in ("task_fn", "worker.py"))
    inputs = (tmp_path / "ssh-inputs").read_text(encoding="utf-8").splitlines()
    assert key in inputs
    packed = [decoded(word) for word in inputs]
    assert any(b"export PATH=" in each for each in packed)
    assert not [each for each in (*packed, *map(decoded, " ".join(lines).split())) if key.encode() in each]
    assert not [line for line in lines if key in line]


def decoded(word):
    """What a word may hide in base64."""
    try:
        return base64.b64decode(word, validate=True)
    except ValueError:
        return b""


@pytest.mark.parametrize("shell", ["sh", "bash", "bash --posix"])
def test_a_shell_on_another_machine_exports_what_it_can_and_goes_on(shell):
    """A name that the shell refuses would end it; whatever the line needs for itself would hide the user's."""
    program, *options = shlex.split(shell)
    if not (found := shutil.which(program)):
        pytest.skip(f"No {program} here.")
    sent = {"packed": "the user's", "LINES": "one\n'two'\n", "UMLAUT": "ü", "ä": "refused", "a.b": "refused"}
    sent |= {"UID": "refused", "SHELLOPTS": "refused", "LAST": "exported"}
    environment = {KEY: "the key", request_signature.ENVIRONMENT_VARIABLE: request_signature.packed(sent)}
    [received] = shlex.split(request_signature.RECEIVE_KEY)
    remote = ["env", "-i", found, *options, "-c", f"{received} exec env -0"]
    line = f"{request_signature.SEND_KEY} {shlex.join(remote)}"
    run = subprocess.run(["/bin/sh", "-c", line], env=environment, capture_output=True, encoding="utf-8", check=True)
    exported = dict(each.split("=", 1) for each in run.stdout.split("\0") if each)
    kept = {KEY: "the key", "packed": "the user's", "LINES": "one\n'two'\n", "UMLAUT": "ü", "LAST": "exported"}
    assert {name: value for name, value in exported.items() if name not in {"PWD", "SHLVL", "_"}} == kept
    assert run.stderr == ""


PROGRAM = """
#include "request_signature.h"
#include <iostream>

int main() {
  using namespace request_signature;
  for (std::size_t size; std::cin >> size;) {
    const std::string key(size % 200, '\\xe4'), message(size, '\\xf6');
    std::cout << hexadecimal(sha256(message)) << " " << hexadecimal(hmac_sha256(key, message)) << "\\n";
  }
  std::cout << header_lines("PUT", "/global/0", "a body") << std::flush;
}
"""


def test_workers_hash_and_sign_as_horovodrun_does_and_one_without_the_key_says_why_it_cannot(tmp_path, monkeypatch):
    (tmp_path / "program.cc").write_text(PROGRAM, encoding="utf-8")
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    options = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{Path(request_signature.__file__).parent}"]
    subprocess.run([compiler, *options, "program.cc", "-o", "program"], cwd=tmp_path, check=True)

    def run(**environment):
        text = " ".join(map(str, sizes))
        return subprocess.run(
            [tmp_path / "program"], input=text, env=environment, capture_output=True, encoding="utf-8"
        )

    # Around SHA-256's blocks of 64 bytes, of which 9 are its own, and around the longest key that HMAC doesn't hash.
    sizes = (0, 1, 31, 55, 56, 57, 63, 64, 65, 119, 120, 121, 127, 128, 129, 1000, 100_000)
    lines = []
    for size in sizes:
        key, message = b"\xe4" * (size % 200), b"\xf6" * size
        lines.append(f"{hashlib.sha256(message).hexdigest()} {hmac.new(key, message, 'sha256').hexdigest()}")
    headers = signed("the key", "PUT", "/global/0", b"a body")
    lines += [f"{name}: {code}" for name, code in headers.items()]
    assert run(**{KEY: "the key"}).stdout.splitlines() == lines
    monkeypatch.setenv(KEY, "the key")
    request = Request("http://127.0.0.1:1/global/0", data=b"a body", method="PUT")
    request_signature.sign(request)
    assert dict(request.header_items()).items() >= {name.capitalize(): code for name, code in headers.items()}.items()
    without = run()
    assert without.returncode != 0
    assert "_HOROVOD_SECRET_KEY is not in the environment" in without.stderr
