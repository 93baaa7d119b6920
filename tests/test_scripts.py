"""The scripts as a user starts them by hand, with the framework's own launcher or in the wrong environment."""

import ast
import re
import runpy
import sys

import pytest

from common.declarations.arguments import parse_command_line
from common.declarations.catalogue import find, strategies, ways
from common.paths import ROOT
from tests import commands
from tests.conftest import run_command

SCRIPTS = {name: strategy.script for name, strategy in strategies().items()}
OF_MATRICES = {way.script for way in ways().values() if way.kind != "naive"}


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


@pytest.mark.parametrize("script", sorted({*SCRIPTS.values(), "pytorch_impl/inference.py", *OF_MATRICES}))
def test_a_script_looks_for_its_framework_before_it_imports_it(script, refused):
    [family] = {each.family.environment for each in strategies().values() if each.script == script} or {"torch"}
    missing = f"lockstep: {family} isn't installed for {sys.executable}: run `nox -s {family}`"
    assert refused(script).startswith(missing)


@pytest.mark.parametrize("strategy", SCRIPTS)
def test_the_help_of_every_script_lists_its_options_and_says_by_a_command_that_can_work_how_to_start_it(
    strategy, capsys
):
    source = (ROOT / SCRIPTS[strategy]).read_text()
    description = ast.get_docstring(ast.parse(source))
    [command] = re.findall(r"To start it: `(.+?)`", description)
    assert SCRIPTS[strategy] in command
    commands.check(command)
    # So its help is headed by what it says here.
    assert re.search(r"parse_command_line\([A-Z_]+, __doc__\)", source)
    with pytest.raises(SystemExit):
        parse_command_line(find(strategy), description, ["--help"])
    shown = capsys.readouterr().out
    assert "To start it:" in shown
    assert "--learning-rate" in shown


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("python pytorch_impl/ddp.py --workers 2", 2, "torchrun --nproc-per-node"),
        # torchrun adds an account of its own.
        (
            "torchrun --standalone --nproc-per-node 2 pytorch_impl/ddp.py --workers 4",
            1,
            "--workers 4, but torchrun started 2: give both the same number",
        ),
    ],
)
def test_a_script_without_a_world_of_its_workers_is_one_line_that_says_what_is_missing(command, status, said, tmp_path):
    program, *words = command.split()
    path = commands.environment_of(command) / "bin" / program
    ended, output = run_command([str(path), *words, "--record", str(tmp_path / "record")])
    assert (ended, said in output) == (status, True), output
    assert not list(tmp_path.iterdir())


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
