"""pytorch_impl/ray_train.py: Ray ends with its launch, and at an address it is a cluster that has the workers."""

import os
import subprocess
import sys
import tempfile

import psutil
import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.paths import ROOT
from common.records import certificate
from common.records.files import read_records
from common.records.training import Record
from tests.launching import assert_record_follows, is_running, require_private_networks, wait_for, words_of

LAUNCH = (sys.executable, "-m", "common.launching.launch", "torch_ray", "--workers", "2")
ENDLESS = ("--steps", "1000000")

CLUSTER = """
LOCKSTEP_PRIVATE_NETWORK=1 $PYTHON -c "from common.launching import private_network; private_network.enter()"
$RAY start --head --node-ip-address 127.0.0.1 --port 6379 --num-cpus 2 --include-dashboard false \\
    --object-store-memory 80000000 --temp-dir $TMPDIR/ray > $TMPDIR/head.log 2>&1 || exit 99
$LAUNCH --address 127.0.0.1:6379 --steps 60 --momentum 0.5 --record $FOLDER/run.json --checkpoint $FOLDER/weights; echo
$LAUNCH --address 127.0.0.1:6379 --workers 4; echo
$LAUNCH --address 127.0.0.1:6380; echo
$COMPARE --strategies torch_ray --address 127.0.0.1:6379 --workers 2 --repetitions 1 --results $FOLDER/sessions \\
    --out $FOLDER/report.pdf; echo $?
$RAY stop > /dev/null 2>&1
"""
"""One launch that ends well, two that are refused, and a comparison, beside a cluster of one node and two CPUs."""


@pytest.fixture
def temporary():
    """A folder whose name leaves room for Ray's sockets, and is the launch's for temporary files."""
    with tempfile.TemporaryDirectory(prefix="lr", dir="/tmp") as folder:
        yield folder


def started(temporary, folder, *options):
    """A launch of two workers in the middle of training, and all of its processes."""
    python_for(find("torch_ray"))
    variables = os.environ | {"TMPDIR": temporary}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    command = [*LAUNCH, *options, "--deadline-seconds", "400", "--record", str(folder / "run.json")]
    launch = subprocess.Popen(command, cwd=ROOT, env=variables, **streams)
    assert any("samples/s" in line for line in launch.stdout), "It never trained."
    processes = psutil.Process(launch.pid).children(recursive=True)
    assert len(workers_of(processes)) == 2
    return launch, processes


def workers_of(processes):
    """The processes of Ray's workers, which Ray has given other titles than their command lines."""
    return [process for process in processes if "RayTrainWorker" in " ".join(words_of(process))]


def test_a_worker_that_is_killed_ends_the_launch_by_one_sentence_and_nobody_and_nothing_is_left(temporary, tmp_path):
    launch, processes = started(temporary, tmp_path, *ENDLESS)
    workers_of(processes)[1].kill()
    last = launch.communicate(timeout=120)[0].splitlines()[-1]
    assert (launch.returncode, last.startswith("lockstep: failed: rank ")) == (1, True), last
    assert " was lost, so all processes were ended" in last
    assert not any(is_running(process) for process in processes)
    assert not os.listdir(temporary)


@pytest.mark.grid
def test_ray_starts_the_workers_again_which_go_on_from_the_checkpoint(temporary, tmp_path):
    checkpoints = ["--checkpoint-steps", "100", "--checkpoint", str(tmp_path / "weights")]
    launch, processes = started(temporary, tmp_path, "--steps", "3000", "--max-restarts", "1", *checkpoints)
    wait_for((tmp_path / "weights").exists)
    workers_of(processes)[1].kill()
    output = launch.communicate(timeout=400)[0]
    assert launch.returncode == 0, output
    assert assert_record_follows(tmp_path).first_step > 0
    assert not any(is_running(process) for process in processes)
    assert not os.listdir(temporary)


@pytest.mark.grid
def test_where_the_launch_itself_is_killed_ray_ends_too(temporary, tmp_path):
    launch, processes = started(temporary, tmp_path, *ENDLESS)
    launch.kill()
    launch.communicate(timeout=60)
    wait_for(lambda: not any(is_running(process) for process in processes))


def test_at_an_address_the_workers_are_the_clusters_and_what_cannot_be_had_is_refused_in_one_line(temporary, tmp_path):
    require_private_networks()
    python = python_for(find("torch_ray"))
    words = {"PYTHON": sys.executable, "RAY": str(python.with_name("ray")), "LAUNCH": " ".join(LAUNCH)}
    words |= {"COMPARE": f"{sys.executable} -m common.sessions.compare"}
    command = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    result = subprocess.run(
        [*command, "sh", "-c", CLUSTER],
        cwd=ROOT,
        env=os.environ | words | {"FOLDER": str(tmp_path), "TMPDIR": temporary, "HOME": temporary},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    record = assert_record_follows(tmp_path)
    assert (record.world_size, record.options["address"]) == (2, "127.0.0.1:6379")
    assert (record.private_network, record.wire_bytes_per_step) == (False, None)
    assert record.checkpoint == "weights"
    assert "came back from the cluster" in result.stdout
    assert "lockstep: The Ray cluster at 127.0.0.1:6379 has 2 CPUs for 4 workers: start fewer, or add" in result.stderr
    assert "lockstep: No Ray cluster answers at 127.0.0.1:6380 (Connection refused): start it there" in result.stderr
    [session] = (tmp_path / "sessions").glob("*-quick")
    compared = read_records(session, Record)
    assert [each.status for each in compared.values()] == ["ok"] * 3, result.stdout
    assert {each.options["address"] for each in compared.values()} == {"127.0.0.1:6379"}
    assert not certificate.deviating(certificate.compare(compared, session))
    assert (tmp_path / "report.pdf").exists()
