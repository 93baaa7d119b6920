"""Every command in the README works as it is written there."""

import os
import re
import subprocess

import pytest

from common.config import Config
from common.launch import ROOT

BY_HAND = {"nox -s compare", "nox -s tests", "nox -s contract", "python3 -m pip install nox"}
"""These take too long inside the tests, or would run them again; they are tried by hand, from a fresh clone."""

WITH_PLACES = {
    "python -m reports --results DIR --out FILE.pdf",
    "pip install torch==2.13.0",
}
"""These name what a reader has to fill in; tests/reports runs the first, the environments the last."""

MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""CI may be root of its container, which Open MPI's mpirun refuses unless told so; a user isn't."""

ADDED = {
    "nox -s benchmark": " -- --strategies torch_ddp --preset pathway --workers 1 --launches 1",
    "nox -s report": " -- --results {folder} --out {folder}/report.pdf",
}
"""What the tests add to a command that would otherwise take many minutes or want an earlier comparison."""

ENVIRONMENTS = {"pytorch_impl": "torch", "tf_impl": "tensorflow", "horovod_impl": "horovod", "nox ": "tools"}
"""Which environment a command with this word is typed in."""


def commands():
    text = (ROOT / "README.md").read_text()
    fences = re.findall(r"```(\w*)\n(.*?)```", text, re.S)
    blocks = [line for language, block in fences if not language for line in block.splitlines()]
    words = blocks + re.findall(r"`([^`\n]+)`", re.sub(r"```\w*\n.*?```", "", text, flags=re.S))
    programs = ("nox ", "torchrun ", "mpirun ", "horovodrun ", "python ", "python3 ", "pip ")
    return {word for word in words if word.startswith(programs)} - BY_HAND - WITH_PLACES


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_of_the_readme_works_as_written(command, tmp_path, launch):
    if command == "nox -s report":
        assert launch("torch_single", Config()).status == 0
    [name] = [name for word, name in ENVIRONMENTS.items() if word in command]
    environment = ROOT / ".nox" / name
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    result = subprocess.run(
        command + ADDED.get(command, "").format(folder=tmp_path),
        shell=True,
        cwd=ROOT,
        env=os.environ | {"PATH": path, "VIRTUAL_ENV": str(environment)} | MPI_AS_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )
    assert result.returncode == 0, result.stdout


def test_the_commands_that_the_project_promises_are_in_the_readme():
    promised = {
        "horovodrun -np 4 python horovod_impl/train.py",
        "torchrun --nproc-per-node 4 pytorch_impl/ddp.py",
        "python tf_impl/mirrored.py --workers 4",
        "nox -s tf_mirrored",
    }
    assert promised <= commands()


@pytest.mark.parametrize("name", ["pytorch_impl", "tf_impl", "horovod_impl"])
def test_every_strategy_has_a_row_and_a_session(name):
    from common.launch import strategies

    text, sessions = (ROOT / "README.md").read_text(), (ROOT / "noxfile.py").read_text()
    for strategy, path in strategies().items():
        if path.parent.name == name:
            assert f"| `{strategy}` |" in text
            assert f"def {strategy}(" in sessions
