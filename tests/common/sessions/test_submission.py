"""common/sessions/submission.py: the batch script of a session, and what Slurm says of it."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from common.laboratory import collectives, matrix_products
from common.paths import ROOT
from common.sessions import compare, experiment, submission


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """A function that puts a program named sbatch on the PATH, which prints this and ends so."""

    def put(printed: str, status: int = 0) -> None:
        path = tmp_path / "sbatch"
        path.write_text(f'#!/bin/sh\necho "{printed}" | tee /dev/stderr\nexit {status}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return put


EXPERIMENTS = (collectives.EXPERIMENT, matrix_products.EXPERIMENT)


@pytest.mark.parametrize(
    "arguments",
    [
        compare.Arguments(selection=compare.Selection(slurm=True, submit=True)),
        *(experiment.parse(each, ["--slurm", "--submit"]) for each in EXPERIMENTS),
    ],
)
def test_the_script_repeats_the_command_without_its_submission_and_takes_sbatch_s_words(arguments):
    text = submission.script("some", "some.module", arguments, ["--nodes", "2", "--comment", "two words"])
    assert "#SBATCH --nodes 2 --comment 'two words'\n" in text
    assert text.endswith(f"cd {ROOT} || exit\nexec {sys.executable} -m some.module --slurm\n")
    # B: the script alone is told of the time limit, which is the session by then; its steps would end at USR1.
    assert "#SBATCH --signal=B:USR1@" in text
    assert f"#SBATCH --output={Path('results').resolve()}/slurm-%j.out\n" in text


def test_a_session_is_submitted_and_how_to_follow_it_is_said(tmp_path, sbatch):
    sbatch("17;cluster")
    own = ["--slurm", "--results", str(tmp_path / "results"), "--workers", "2", "--submit"]
    command = [sys.executable, "-m", "common.sessions.compare", *own, "--nodes", "2"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    script = tmp_path / "results/compare.sbatch"
    assert (result.returncode, result.stderr) == (0, "")
    assert script.read_text() in result.stdout
    assert "#SBATCH --nodes 2\n" in script.read_text()
    assert " --workers 2" in script.read_text()
    assert f"is job 17. `tail -F {tmp_path}/results/slurm-17.out` follows it" in result.stdout


def test_a_plan_shows_the_script_and_submits_nothing(tmp_path, sbatch, run_here, capsys):
    sbatch("17")
    submitted = ["--slurm", "--plan", "--submit", "--nodes", "2"]
    run_here(partial(experiment.run, collectives.EXPERIMENT), tmp_path / "results", *submitted)
    assert capsys.readouterr().out.startswith("#!/bin/sh\n#SBATCH --job-name=lockstep-collectives\n")
    assert not (tmp_path / "results").exists()


def test_what_slurm_refuses_is_one_line(tmp_path, sbatch, monkeypatch, refusal, run_here):
    def refused():
        return refusal(lambda: run_here(compare.main, tmp_path, "--slurm", "--submit"))

    sbatch("sbatch: error: invalid partition: x", status=1)
    assert "invalid partition: x): correct the words after --submit." in refused()
    monkeypatch.setenv("PATH", "/nowhere")
    assert "sbatch isn't found" in refused()
