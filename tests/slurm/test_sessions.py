"""Sessions in a real Slurm: a comparison, and one that is submitted, stopped before its time limit, and goes on."""

import json
import re
import sys

import pytest

from tests.slurm.cluster import ALLOCATION

pytestmark = pytest.mark.slurm

COMPARE = (sys.executable, "-m", "common.sessions.compare", "--slurm")
FINISHED = ["squeue", "--noheader", "--format=%i %T"]


def records_in(folder):
    [session] = folder.glob("*-quick")
    return {path.stem: json.loads(path.read_text()) for path in session.glob("*.json")}


def test_a_comparison_over_two_nodes_has_a_strategy_of_each_launcher(slurm, tmp_path, nothing_is_left):
    strategies = ("torch_ddp", "tf_multi_worker_mirrored", "horovod_torch", "jax_data_parallel")
    words = ("--workers", "2", "--repetitions", "1", "--strategies", *strategies)
    paths = ("--results", str(tmp_path), "--out", str(tmp_path / "report.pdf"))
    result = slurm.run(*ALLOCATION, *COMPARE, *words, *paths, seconds=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "12 launches: 12 ok, 0 unsupported, 0 failed." in result.stdout
    assert (tmp_path / "report.pdf").exists()
    records = [record for record in records_in(tmp_path).values() if record["strategy"] in strategies]
    assert {tuple(host["name"] for host in record["hosts"]) for record in records} == {("host1", "host2")}
    # Records say what Slurm decided.
    facts = {"partition": "all", "nodes": "host[1-2]", "cores_per_node": [1, 1]}
    assert all(record["allocation"].items() >= facts.items() for record in records)
    assert len({record["allocation"]["job"] for record in records}) == 1


def test_a_submitted_comparison_stops_before_its_time_limit_and_goes_on_in_the_next_job(slurm, tmp_path):
    words = ("--workers", "2", "--repetitions", "6", "--strategies", "torch_ddp", "--results", str(tmp_path))
    command = (*COMPARE, *words, "--out", str(tmp_path / "report.pdf"), "--submit", "--nodes=2", "--ntasks-per-node=1")
    first = slurm.run(*command, "--time=2")
    assert re.search(r"compare.sbatch is job \d+\. `tail -F ", first.stdout), first.stdout + first.stderr
    slurm.wait_for(FINISHED, "", 180)
    made = records_in(tmp_path)
    assert 0 < len(made) < 13
    [log] = tmp_path.glob("slurm-*.out")
    assert "Interrupted: start it again with the same options and it goes on here." in log.read_text()
    second = slurm.run(*command, "--time=10")
    assert second.returncode == 0, second.stderr
    slurm.wait_for(FINISHED, "", 300)
    *_, log = sorted(tmp_path.glob("slurm-*.out"))
    records = records_in(tmp_path)
    jobs = {name: record["allocation"]["job"] for name, record in records.items()}
    assert len({*jobs.values()}) == 2, log.read_text()
    assert {record["status"] for record in records.values()} == {"ok"}
    # Every round is of one job, but for certificates, which belong to none.
    rounds = {}
    for name, job in jobs.items():
        if not name.endswith("certificate"):
            rounds.setdefault(name.rpartition("-")[2], []).append(job)
    whole = [of_round for of_round in rounds.values() if len(of_round) == 2]
    assert len(whole) >= 6
    assert all(len({*of_round}) == 1 for of_round in whole)
    assert (tmp_path / "report.pdf").exists(), log.read_text()
