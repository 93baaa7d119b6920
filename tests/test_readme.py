"""Every command of every document can work as written; some are run here."""

import os
import subprocess

import pytest

from common.declarations import readme
from common.declarations.catalogue import strategies
from common.paths import ROOT
from tests import commands
from tests.commands import WrongCommandError
from tests.reports.records import make_record, named, write_all

STARTED = [
    "nox -l",
    "nox -s tf_mirrored",
    "horovodrun -np 4 python horovod_impl/train.py",
    "nox -s report",
    "nox -s compare -- --plan",
]
"""What is run here as it stands. Other tests run the same programs with options that make them shorter."""

PROMISED = [
    "horovodrun -np 4 python horovod_impl/train.py",
    "torchrun --nproc-per-node 4 pytorch_impl/ddp.py",
    "python tf_impl/mirrored.py --workers 4",
    "nox -s tf_mirrored",
]

UNCHECKED = {
    'python3 -m pip install "nox[uv]"',
    "pip install torch==2.13.0",
    "python3 -m pip install pre-commit",
}
"""What isn't ours."""

MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""CI may be root of its container, which Open MPI's mpirun refuses unless told so; a user isn't."""

ADDED = {"nox -s report": " -- --results {folder} --out {folder}/report.pdf"}
"""What the tests add to a command that would otherwise want an earlier comparison."""


def every_command():
    texts = [(ROOT / document).read_text(encoding="utf-8") for document in commands.DOCUMENTS]
    return {each for text in texts for each in commands.commands_in(text)} - UNCHECKED


@pytest.mark.parametrize("command", sorted(every_command() - {*STARTED}))
def test_a_command_names_what_exists_and_its_options_parse(command):
    commands.check(command)


def test_what_is_started_here_and_what_the_project_promises_is_written():
    assert {*STARTED} <= every_command()
    assert {*PROMISED} <= commands.commands_in((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", STARTED)
def test_a_command_of_the_readme_works_as_written(command, tmp_path):
    write_all(tmp_path, named(make_record("torch_single"), make_record("torch_ddp", 2)))
    environment = commands.environment_of(command)
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


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("noxx -s torch_ddp", "no program noxx"),
        ("nox -s torch_dpd", "no session torch_dpd"),
        ("nox -s torch_ddp --workers 4", "come after --"),
        ("nox -s torch_ddp -- --workers 3", "doesn't divide by 3 workers"),
        ("nox -s compare -- --profile fast", "--profile fast"),
        ("torchrun --nproc-per-nod 4 pytorch_impl/ddp.py", "--nproc-per-nod"),
        ("torchrun --nproc-per-node 4 pytorch_impl/dpd.py", "no pytorch_impl/dpd.py to run"),
        ("horovodrun -np 4 python horovod_impl/train.py --jit-compile", "no effect on horovod_torch"),
        ("python tf_impl", "no script"),
        ("python -m pytorch_impl.inferense", "no pytorch_impl.inferense to run"),
        ("python -m pytorch_impl.inference --batches 4", "Nobody knows which options pytorch_impl.inference has"),
    ],
)
def test_a_mistake_in_a_command_is_found(command, complaint):
    with pytest.raises(WrongCommandError) as found:
        commands.check(command)
    assert complaint in str(found.value)


def test_every_strategy_has_a_session_that_launches_it_with_the_sessions_options():
    for strategy in strategies():
        launches = [
            run[1:] for run in commands.runs_of(strategy, ["--steps", "60"]) if "common.launching.launch" in run
        ]
        assert launches == [["-m", "common.launching.launch", strategy, "--steps", "60"]]


def test_the_tables_are_what_the_declarations_say():
    texts = {path.parent: path.read_text(encoding="utf-8") for path in readme.documents()}
    assert [*readme.documents().values()] == [*texts.values()], "Run `nox -s readme`."
    for name, strategy in strategies().items():
        assert f"| `{name}` | [{strategy.script}]({strategy.script}) | {strategy.summary} |" in texts[ROOT]
        assert "| option | what it does | strategies |" in texts[(ROOT / strategy.script).parent]
