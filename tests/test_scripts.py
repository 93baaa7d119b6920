"""The scripts as a user starts them by hand, with the framework's own launcher or in the wrong environment."""

import ast
import re
import runpy
import sys

import pytest

from common.declarations.arguments import parse_command_line
from common.declarations.catalogue import find, strategies
from common.launching.launch import python_for
from common.launching.processes import free_ports
from common.paths import ROOT
from tests import commands
from tests.conftest import run_command

SCRIPTS = {name: strategy.script for name, strategy in strategies().items()}

ONE_OF_EACH_FAMILY = list({each.family.title: name for name, each in strategies().items() if each.quick}.values())
"""What is started for real; of the others it is enough that they say and call the same."""


def words_without_framework(framework):
    """How the one line begins that a script prints where its framework is missing."""
    return f"lockstep: {framework} isn't installed for {sys.executable}: run `nox -s {framework}`"


@pytest.fixture
def refused(monkeypatch, capsys):
    """A function that runs a script in this process, which has no framework, and returns the line it refuses with."""

    def run(script: str) -> str:
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ending:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        assert ending.value.code == 2
        [line] = capsys.readouterr().err.splitlines()
        return line

    return run


@pytest.mark.parametrize("strategy", ONE_OF_EACH_FAMILY)
def test_a_script_in_an_environment_without_its_framework_says_so_in_one_line(strategy):
    status, output = run_command([sys.executable, SCRIPTS[strategy]])
    assert (status, output.count("\n")) == (2, 1)
    assert output.startswith(words_without_framework(find(strategy).family.environment))


@pytest.mark.parametrize("strategy", SCRIPTS)
def test_a_script_looks_for_its_framework_before_it_imports_it(strategy, refused):
    assert refused(SCRIPTS[strategy]).startswith(words_without_framework(find(strategy).family.environment))


def test_the_measurement_of_the_forward_pass_looks_for_torch_before_it_imports_it(refused):
    assert refused("pytorch_impl/inference.py").startswith(words_without_framework("torch"))


@pytest.mark.parametrize("strategy", ONE_OF_EACH_FAMILY)
def test_the_help_of_a_script_says_what_it_is_and_lists_every_option(strategy):
    status, output = run_command([str(python_for(find(strategy))), SCRIPTS[strategy], "--help"])
    assert status == 0
    assert "To start it:" in output
    assert "--learning-rate" in output


@pytest.mark.parametrize("strategy", SCRIPTS)
def test_the_help_of_every_script_says_by_a_command_that_can_work_how_to_start_it(strategy, capsys):
    source = (ROOT / SCRIPTS[strategy]).read_text()
    description = ast.get_docstring(ast.parse(source))
    [command] = re.findall(r"To start it: `(.+?)`", description)
    assert SCRIPTS[strategy] in command
    commands.check(command)
    # So its help is headed by what it says here.
    assert re.search(r"parse_command_line\([A-Z_]+, __doc__\)", source)
    with pytest.raises(SystemExit):
        parse_command_line(find(strategy), description, ["--help"])
    assert "To start it:" in capsys.readouterr().out


def test_ddp_without_torchrun_names_torchrun():
    status, output = run_command([str(python_for(find("torch_ddp"))), "pytorch_impl/ddp.py", "--workers", "4"])
    assert (status, output.count("\n")) == (2, 1)
    assert "torchrun --nproc-per-node" in output


def test_torchrun_whose_world_disagrees_with_workers_is_refused(tmp_path):
    """torchrun adds an account of its own; ours is one line per worker."""
    torchrun = [str(python_for(find("torch_ddp")).parent / "torchrun"), "--nproc-per-node", "2"]
    port = ["--master-port", str(free_ports(1)[0])]
    status, output = run_command(
        [*torchrun, *port, SCRIPTS["torch_ddp"], "--workers", "4", "--record", str(tmp_path / "r")]
    )
    assert status != 0
    assert "--workers 4, but torchrun started 2: give both the same number" in output
    assert not list(tmp_path.iterdir())


def test_one_worker_alone_of_horovod_is_a_world_of_one():
    status, output = run_command([str(python_for(find("horovod_torch"))), "horovod_impl/train.py", "--workers", "2"])
    assert status == 2
    assert "--workers 2, but the launcher started 1" in output


@pytest.mark.parametrize(
    ("strategy", "framework"),
    [(name, each.framework) for name, each in strategies().items() if each.family.environment == "horovod"],
)
def test_a_horovod_built_without_the_framework_is_named(strategy, framework, refused, tmp_path, monkeypatch):
    [other] = {"torch", "tensorflow"} - {framework}
    for path in ("horovod/__init__.py", f"horovod/{other}/mpi_lib.so"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert refused(SCRIPTS[strategy]).startswith(f"lockstep: this build of Horovod lacks {framework}: run `nox -s hor")
