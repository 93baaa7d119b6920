"""The scripts as a user starts them by hand, with the framework's own launcher or in the wrong environment."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from common.launch import ROOT, framework_of, python_for, strategies
from tests.conftest import run_command

SCRIPTS = {name: str(path.relative_to(ROOT)) for name, path in strategies().items()}


@pytest.mark.parametrize("strategy", sorted(SCRIPTS))
def test_a_script_in_an_environment_without_its_framework_says_so_in_one_line(strategy):
    status, output = run_command([sys.executable, SCRIPTS[strategy]])
    framework = framework_of(strategy)
    assert status == 2
    assert output.startswith(f"lockstep: {framework} isn't installed for {sys.executable}: run `nox -s {framework}`")
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("strategy", sorted(SCRIPTS))
def test_the_help_of_a_script_says_what_it_is_and_lists_every_option(strategy):
    status, output = run_command([str(python_for(framework_of(strategy))), SCRIPTS[strategy], "--help"])
    assert status == 0
    assert "To start it:" in output
    assert "--learning-rate" in output


def test_ddp_without_torchrun_names_torchrun():
    status, output = run_command([str(python_for("torch")), "pytorch_impl/ddp.py", "--workers", "4"])
    assert (status, output.count("\n")) == (2, 1)
    assert "torchrun --nproc-per-node" in output


@pytest.mark.parametrize(
    ("program", "options"),
    [("torchrun", ["--nproc-per-node", "2", "--master-port", "29430"]), ("horovodrun", ["-np", "2"])],
)
def test_a_launcher_whose_world_disagrees_with_workers_is_refused(program, options, tmp_path):
    """The launchers add an account of their own, a traceback of theirs; ours is one line per worker."""
    strategy = "torch_ddp" if program == "torchrun" else "horovod_torch"
    python = python_for(framework_of(strategy))
    script = [SCRIPTS[strategy], "--workers", "4", "--record", str(tmp_path / "run.json")]
    command = [str(python.parent / program), *options, *([str(python)] if program == "horovodrun" else []), *script]
    # As `activate` does: horovodrun looks for mpirun there.
    status, output = run_command(command, PATH=f"{python.parent}:{os.environ['PATH']}")
    assert status != 0
    assert f"--workers 4, but {program} started 2: give both the same number" in output
    assert not (tmp_path / "run.json").exists()


def test_one_worker_alone_of_horovod_is_a_world_of_one():
    status, output = run_command([str(python_for("horovod")), "horovod_impl/train.py", "--workers", "2"])
    assert status == 2
    assert "--workers 2, but horovodrun started 1" in output


@pytest.mark.parametrize(
    ("strategy", "framework"),
    [("horovod_torch", "torch"), ("horovod_tensorflow", "tensorflow"), ("horovod_keras", "tensorflow")],
)
def test_a_horovod_built_without_the_framework_is_named_in_one_line(strategy, framework, tmp_path):
    python = python_for("horovod")
    [installed] = Path(python).parent.parent.glob("lib/python*/site-packages/horovod")
    lacking = shutil.copytree(installed, tmp_path / "horovod", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    others = [path for path in installed.rglob("*.so") if path.parent.name != framework]
    for path in others:
        shutil.copy(path, lacking / path.relative_to(installed))
    status, output = run_command([str(python), SCRIPTS[strategy]], PYTHONPATH=str(tmp_path))
    assert others
    assert (status, len(output.splitlines())) == (2, 1)
    assert output.startswith(f"lockstep: this build of Horovod lacks {framework}: run `nox -s horovod`")
