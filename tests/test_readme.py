"""Every command of every document can work as written, and is run: here, by another test, or it takes too long."""

import os
import re

import pytest

from common.declarations import readme
from common.declarations.catalogue import strategies
from common.paths import ROOT
from tests import commands
from tests.commands import WrongCommandError
from tests.conftest import MPI_AS_ROOT, run_command
from tests.reports.records import make_record, named, write_all

STARTED = [
    "nox -l",
    "nox -s tf_mirrored",
    "horovodrun -np 4 python horovod_impl/train.py",
    "nox -s report",
    "nox -s compare -- --plan",
]
"""What is really run as it stands here; the contract's tests run every strategy's session, with options."""

CONTRACT = "test_a_strategy_follows_the_oracle_in_every_case"
ELSEWHERE = {
    rf"nox -s ({'|'.join(strategies())})( -- .+)?": CONTRACT,
    # What the sessions start, by hand.
    r"torchrun --nproc-per-node \d pytorch_impl/ddp\.py": CONTRACT,
    r"horovodrun --gloo -np \d python horovod_impl/train_tensorflow\.py": CONTRACT,
    r"python (tf|jax)_impl/\w+\.py --workers \d( --parameter-servers \d)?": CONTRACT,
    r"nox -s check -- (my_training\.py.*|submissions/)": "test_a_class_has_a_row_for_each_file_however_bad_it_is",
    r"nox -s gpu|PYTHONPATH=\.carried python -m common\.laboratory\.gpu": (
        "test_a_framework_that_hangs_takes_no_more_than_the_time_of_its_launches"
    ),
    "nox -s compare -- --slurm": "test_a_comparison_over_two_nodes_has_a_strategy_of_each_launcher",
    "nox -s compare -- --slurm --submit .+": "test_a_session_is_submitted_and_how_to_follow_it_is_said",
    r"mpirun -np \d python horovod_impl/train_keras\.py": "test_a_launch_of_its_own_follows_the_oracle",
    r"mpirun -np \d python pytorch_impl/sync_sgd\.py": "test_mpirun_by_hand_implies_the_backend_and_follows_the_oracle",
    r".+ torchrun --nnodes 2 .+ pytorch_impl/ddp\.py .+": "test_a_strategy_follows_the_oracle_on_two_hosts",
    "JAX_COORDINATOR_ADDRESS=.+ python jax_impl/.+": "test_processes_that_somebody_else_starts_follow_the_oracle",
    r".+ horovodrun .+ -H \S+ python horovod_impl/train\.py .+": "test_horovod_follows_the_oracle_on_two_hosts",
    r"horovodrun .+ --min-np .+ horovod_impl/train\.py --commit-steps \d+": "test_who_is_left_goes_on_along_the_oracle",
    r"python -m pytorch_impl\.inference": (
        "test_every_batch_size_has_a_row_of_positive_numbers_in_their_intervals_and_the_last_line_is_on_these"
    ),
    r".*nox -s check -- --evidence .+": "test_the_loop_of_the_readme_is_right",
    "nox -s horovod_check": "test_every_collective_is_right",
    r"(python -m reports|nox -s report --)( --results (DIR --out FILE\.pdf|FOLDER))?": (
        "test_in_an_ascii_locale_records_become_a_pdf_and_a_page_without_loading_any_strategy"
    ),
    "nox -s report -- --appendix": "test_an_appendix_has_every_table_in_the_pdf",
    r"nox -s report -- --(figure|out) .+\.svg": "test_a_figure_alone_is_written_where_it_is_asked_for",
    r"nox -s report -- --out .+\.pdf": "test_an_appendix_has_every_table_in_the_pdf",
    "python -m reports .+ --against OTHER": "test_another_folder_stands_beside_the_first",
    "nox -s check -- common/check/exercises/.+": "test_an_exercise_runs_as_it_stands_and_is_told_what_is_missing",
    r"nox -s check -- tests/common/check/gallery --workers 2": "test_a_real_mistake_is_named",
    "nox -s readme": "test_the_tables_are_what_the_declarations_say",
    "nox -s lock": "test_the_list_is_renewed_from_the_groups_and_keeps_what_still_serves",
}
"""Each command, and the name of the test that runs the same program with options that make it shorter."""

BY_CI = ["nox -s tests", "nox -s tests -- tests/common/contract", "nox -s lint", "nox -s horovod_nccl"]
"""What `.ci/run` runs, the second one as a part of the first."""

TOO_LONG = {
    r"nox -s compare( -- --(strategies|preset|models|hosts|virtual-hosts|against-commit) .+)?": "ten minutes or more",
    "nox -s compare -- --profile full": "hours",
    "nox -s collectives( -- .+)?": "six minutes, and more with more sizes",
    "nox -s faults( -- .+)?": "12 minutes, and some for few strategies",
    "nox -s exchanges( -- .+)?": "15 minutes, and some for few strategies",
    "nox -s predict( -- .+)?": "seconds after a comparison and collectives, which it makes where there are none",
    "nox -s (matrix_products|loader_workers)": "two to three minutes, and five",
    "nox -s convergence( -- .+)?": "about 20 minutes over a slow link",
    "nox -s calibrate": "45 minutes",
    "nox -s calibrate -- --repetitions 12": "a few minutes",
    "nox -s contract( -- -k .+)?": "hours; CI runs the part of it that isn't the grid",
    "nox -s slurm": "nine minutes, run once a week",
    "nox -s hosts": "ten minutes; CI launches over virtual hosts as well",
    "nox -s tests -- --fast": "minutes; CI runs all of it in `nox -s tests`",
    "nox -s soak -- --minutes 60": "an hour",
    "nox -s (mutants( -- --since main)?|benchmark)": "half an hour, on a machine with nothing else to do",
    "nox -s (tools|jax|accelerate)": "minutes of downloads",
    "nox -s (torch tensorflow horovod|torch horovod -- --torch-backend cpu)": "minutes of downloads",
}
"""Commands that take more than two minutes, and how long. Their names and options are checked all the same."""

UNCHECKED = {
    'python3 -m pip install "nox[uv]"': "CI begins with it",
    "pip install torch==2.13.0": "the environments are made with this version",
    "python3 -m pip install pre-commit": "it needs the network",
}
"""What isn't ours, and why nothing here runs it."""


ADDED = {"nox -s report": " -- --results {folder} --out {folder}/report.pdf"}
"""What the tests add to a command that would otherwise want an earlier comparison."""


def every_command():
    texts = [(ROOT / document).read_text(encoding="utf-8") for document in commands.DOCUMENTS]
    return {each for text in texts for each in commands.commands_in(text)} - {*UNCHECKED}


@pytest.mark.parametrize("command", sorted(every_command() - {*STARTED}))
def test_a_command_names_what_exists_and_its_options_parse(command):
    commands.check(command)


@pytest.mark.parametrize("command", sorted(every_command()))
def test_a_command_is_run_here_or_by_another_test_or_takes_more_than_two_minutes(command):
    patterns = [each for each in [*ELSEWHERE, *TOO_LONG] if re.fullmatch(each, command)]
    # A strategy's session that is started here is one of those that the contract's tests start as well.
    assert len(patterns) == 1 or command in BY_CI or command in STARTED


def test_nothing_is_listed_that_no_document_has_and_what_the_project_promises_is_in_the_readme():
    written, in_readme = every_command(), commands.commands_in((ROOT / "README.md").read_text(encoding="utf-8"))
    by_hand = {"torchrun --nproc-per-node 4 pytorch_impl/ddp.py", "python tf_impl/mirrored.py --workers 4"}
    assert {*STARTED, *by_hand} <= in_readme
    assert {*BY_CI} <= written
    assert [each for each in [*ELSEWHERE, *TOO_LONG] if not any(re.fullmatch(each, one) for one in written)] == []


def test_the_tests_that_run_commands_are_there():
    every_test = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert [name for name in ELSEWHERE.values() if every_test.count(f"\ndef {name}(") != 1] == []


def test_ci_runs_what_is_left_to_it():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert all(any(line.endswith(command.partition(" -- ")[0]) for line in lines) for command in BY_CI)


@pytest.mark.parametrize("command", STARTED)
def test_a_command_of_the_readme_works_as_written(command, tmp_path):
    write_all(tmp_path, named(make_record("torch_single"), make_record("torch_ddp", 2)))
    environment = commands.environment_of(command)
    variables = {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(environment)}
    command += ADDED.get(command, "").format(folder=tmp_path)
    status, output = run_command(["sh", "-c", command], deadline_seconds=340, **variables, **MPI_AS_ROOT)
    assert status == 0, output


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("noxx -s torch_ddp", "no program noxx"),
        ("nox -s torch_dpd", "no session torch_dpd"),
        ("nox -s torch_ddp --workers 4", "come after --"),
        ("nox -s torch_ddp -- --workers 3", "doesn't divide by 3 workers"),
        ("nox -s compare -- --profile fast", "--profile fast"),
        ("nox -s horovod_check -- --frameworks torch", "Nobody knows which options horovod_impl/check.py has"),
        ("torchrun --nproc-per-nod 4 pytorch_impl/ddp.py", "--nproc-per-nod"),
        ("torchrun --nproc-per-node 4 pytorch_impl/dpd.py", "no pytorch_impl/dpd.py to run"),
        ("horovodrun -np 4 python horovod_impl/train.py --jit-compile", "no effect on horovod_torch"),
        ("python tf_impl/mirrored.py --worker-count 4", "--worker-count"),
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
