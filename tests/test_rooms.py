"""Every document: short, and true of the files, the names and the options that it names.

So is what stands beside the code for those who pick it up: versions, the workflow, hooks and templates.
"""

import re
import sys
import tomllib
from functools import cache

import pytest

from common.paths import ROOT
from tests import commands
from tests.conftest import run_command

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
READMES = [page for page in commands.DOCUMENTS if "/" in page]
WITHOUT_A_README = {"common/laboratory", "common/measurement", "common/observations", "common/records"}
"""Rooms that common/README.md says enough about."""
OF_OTHERS = {
    *("nvidia-smi", "NCCL_SOCKET_IFNAME", "--ssh-identity-file", "--ssh-port", "torch.optim.Muon"),
    *("btl_tcp_eager_limit", "btl_tcp_rndv_eager_limit"),
    *("Attempt", "(PerReplica:{", "ClusterCoordinator.create_per_worker_dataset.", "my_module.py"),
}
"""What other programs and libraries have, and nothing here names."""
MOST_LINES = dict.fromkeys(READMES, 150) | {"README.md": 200}
KINDS = ("py", "patch", "h")


@cache
def sources():
    """The text of all code that a README may speak of, by path; not this file, which names what there isn't."""
    globs = (
        "noxfile.py",
        *(f"{top}/**/*.{kind}" for top in ("common", "*_impl", "reports", "tests") for kind in KINDS),
    )
    return {path: path.read_text() for glob in globs for path in ROOT.glob(glob) if path.name != "test_rooms.py"}


@cache
def is_written(name):
    """Whether the code has this name, as a whole word."""
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?!\w)")
    return any(name in text and word.search(text) for text in sources().values())


def is_there(word, room):
    """Whether a word between backticks names a file, an option or a name that there is."""
    if word in OF_OTHERS or word.startswith("~/"):
        return True
    if word.startswith("--"):
        return is_written(word.removeprefix("--no-").removeprefix("--").replace("-", "_")) or is_written(word)
    if "/" in word or word.endswith(".py"):
        word, _, test = word.partition("::")
        # What every folder of strategies has may be named without the folder.
        if [*ROOT.glob(word), *room.glob(word), *ROOT.glob(f"*_impl/{word}")]:
            return not test or f"def {test}(" in (ROOT / word).read_text()
        # A folder that the commands themselves make is named in .gitignore.
        folder, _, file = word.rpartition("/")
        is_made = f"/{folder}/" in (ROOT / ".gitignore").read_text().splitlines()
        return is_made and (not file or is_written(file.partition(".")[0]))
    return all(is_written(name) for name in re.findall(r"[A-Za-z_]\w+", word))


def missing_in(text, room):
    """What a README names between backticks, or links to, and there isn't."""
    spans = [span for span in commands.spans_in(text) if not commands.PROGRAMS.match(span)]
    words = {word.rstrip(",").removesuffix("()") for span in spans for word in span.split()}
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    return sorted({each for each in words if not is_there(each, room)} | {x for x in links if not (room / x).exists()})


def test_every_room_has_a_readme():
    rooms = {
        str(path.parent.relative_to(ROOT)) for glob in ("*", "common/*") for path in ROOT.glob(f"{glob}/__init__.py")
    }
    assert {readme.removesuffix("/README.md") for readme in READMES} == rooms - WITHOUT_A_README | {
        "tests",
        "reports/example",
        "common/contract/algorithms",
    }


@pytest.mark.parametrize("page", MOST_LINES)
def test_a_readme_is_read_in_minutes(page):
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= MOST_LINES[page]


@pytest.mark.parametrize("page", commands.DOCUMENTS)
def test_whatever_a_page_names_is_there(page):
    assert missing_in((ROOT / page).read_text(encoding="utf-8"), (ROOT / page).parent) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("`common/contract/orakel.py`", "`common/contract/oracle.py`"),
        ("`orakel.py`", "`oracle.py`"),
        ("`oracle.run_orakel`", "`oracle.run_oracle()`"),
        ("`common.contract.oracle.run_orakel`", "`common.contract.oracle.run_oracle`"),
        ("`--virtual-host-count`", "`--virtual-hosts`"),
        ("`result/`", "`results/`"),
        ("`tests/test_rooms.py::test_orakel`", "`tests/test_rooms.py::test_every_room_has_a_readme`"),
        ("[the oracle](orakel.py)", "[the oracle](oracle.py)"),
    ],
)
def test_a_name_that_is_not_there_is_found_and_no_other(wrong, right):
    room = ROOT / "common" / "contract"
    assert len(missing_in(f"See {wrong} and {right}.", room)) == 1
    assert missing_in(f"See {right}.", room) == []


def test_every_document_has_the_version_of_the_project():
    [cited] = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert cited == newest[1] == PROJECT["project"]["version"]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/*.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_what_other_programs_read_follows_their_schema(schema, files):
    paths = [str(path) for path in ROOT.glob(files)]
    assert paths
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    status, output = run_command(command)
    assert status == 0, output


def test_the_workflow_runs_what_continuous_integration_runs_on_every_supported_python():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    [listed] = re.findall(r"python: \[(.+)\]", workflow)
    supported = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["project"]["requires-python"])
    assert listed == ", ".join(f'"3.{minor}"' for minor in range(int(supported[1]), int(supported[2])))
    assert "- run: .ci/run\n" in workflow


def test_every_line_that_students_are_shown_is_in_its_file():
    text = (ROOT / "STUDENTS.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^\[[^\]\n]+\]\(([^)\n]+)\)\n\n```python\n(.+?)```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    for path, block in blocks:
        lines = {line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()}
        assert {line.strip() for line in block.splitlines()} - {"..."} <= lines, path


def test_hooks_run_programs_and_files_that_there_are():
    entries = re.findall(r"entry: (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert entries
    for entry in entries:
        program, *words = entry.split()
        assert program == ".nox/tools/bin/python"
        assert [word for word in words if "/" in word and not (ROOT / word).exists()] == []
        module = words[words.index("-m") + 1]
        assert any(pin.startswith(f"{module}==") for pin in PROJECT["dependency-groups"]["dev"] if isinstance(pin, str))
