"""The README of every room: short, and true of the files, the names and the options that it names."""

import ast
import re
from functools import cache

import pytest

from common.paths import ROOT
from tests import commands

PAGES = [document for document in commands.DOCUMENTS if document != "CONTRIBUTING.md"]
READMES = [page for page in PAGES if "/" in page]
WITHOUT_A_README = {"common/laboratory", "common/measurement", "common/observations", "common/records"}
"""Rooms that common/README.md says enough about."""
OF_OTHERS = {
    *("nvidia-smi", "NCCL_SOCKET_IFNAME", "--ssh-identity-file", "torch.optim.Muon"),
    *("Attempt", "(PerReplica:{", "ClusterCoordinator.create_per_worker_dataset."),
}
"""What other programs and libraries have, and nothing here names."""
MOST_LINES = 150
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


@cache
def members_of(path):
    """The names that a module defines, and those that each of its classes has."""
    names = {}
    for node in ast.parse(sources()[path]).body:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            names |= {name.id: set() for name in ast.walk(target or ast.Pass()) if isinstance(name, ast.Name)}
        if isinstance(node, ast.ClassDef):
            inside = [each for each in ast.walk(node) if isinstance(each, ast.AnnAssign | ast.Assign | ast.FunctionDef)]
            words = {getattr(each, "name", "") for each in inside}
            words |= {name for each in inside for name in re.findall(r"\w+", ast.unparse(each).partition("=")[0])}
            names[node.name] = words
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = set()
    return names


def is_defined(dotted, room):
    """Whether a dotted name is a module, what a module defines, or a class and its member; or our code writes it."""
    parts = dotted.split(".")
    modules = [path for path in sources() if path.suffix == ".py"]
    for folder in (ROOT, room):
        for length in range(len(parts), 0, -1):
            path, rest = folder.joinpath(*parts[:length]), parts[length:]
            if path.is_dir() and not rest:
                return True
            if path.with_suffix(".py") in modules:
                names = members_of(path.with_suffix(".py"))
                return not rest or (rest[0] in names and set(rest[1:]) <= names[rest[0]])
    # The last part of a module's path, such as `launch.prepare`, or a class, such as `Run.observe`.
    named = [members_of(path) for path in modules if path.stem == parts[0]]
    if named and any(parts[1] in names and set(parts[2:]) <= names[parts[1]] for names in named):
        return True
    classes = [members_of(path)[parts[0]] for path in modules if parts[0] in members_of(path)]
    if named or classes:
        return any(set(parts[1:]) <= members for members in classes)
    return is_written(dotted)


def is_there(word, room):
    """Whether a word between backticks names a file, an option or a name that there is."""
    if word in OF_OTHERS or word.startswith("~/"):
        return True
    if word.startswith("--"):
        return is_written(word.removeprefix("--no-").removeprefix("--").replace("-", "_")) or is_written(word)
    if "/" in word or re.fullmatch(r"[\w*-]+\.[a-z]{2,8}\d*", word):
        # What every folder of strategies has may be named without the folder.
        if [*ROOT.glob(word), *room.glob(word), *ROOT.glob(f"*_impl/{word}")]:
            return True
        # A folder that the commands themselves make is named in .gitignore.
        folder, _, file = word.rpartition("/")
        if f"/{folder}/" in (ROOT / ".gitignore").read_text().splitlines():
            return not file or is_written(file.partition(".")[0])
        if "/" in word:
            return False
    if "." in word and re.fullmatch(r"[A-Za-z_][\w.]*", word):
        is_output = re.fullmatch(r"\w+\.(pdf|html|sha256|txt)", word)
        return is_defined(word, room) or bool(is_output and is_written(word))
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


@pytest.mark.parametrize("readme", READMES)
def test_a_readme_is_read_in_minutes(readme):
    assert len((ROOT / readme).read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("page", PAGES)
def test_whatever_a_page_names_is_there(page):
    assert missing_in((ROOT / page).read_text(encoding="utf-8"), (ROOT / page).parent) == []


@pytest.mark.parametrize(
    "word",
    [
        *("common/contract/orakel.py", "orakel.py", "run_orakel", "oracle.run_orakel", "launch.prepair"),
        *("common.contract.oracle.run_orakel", "common.contract.orakel", "Reading.mistaken"),
        *("--virtual-host-count", "[the oracle](orakel.py)"),
    ],
)
def test_a_name_that_is_not_there_is_found(word):
    text = word if word.startswith("[") else f"See `{word}`."
    assert len(missing_in(text, ROOT / "common" / "contract")) == 1


@pytest.mark.parametrize(
    "word",
    [
        *("oracle.py", "common/contract/oracle.py", "../paths.py", "manifest.sha256", "results/", "launch.prepare"),
        *("run_oracle", "oracle.run_oracle()", "common.contract.oracle", "Reading.mistakes", "Task.batch"),
        *("--virtual-hosts", "--no-exchange", "torch.mm", "LOSS_TOLERANCE", "[the oracle](oracle.py)"),
    ],
)
def test_a_name_that_is_there_is_not(word):
    text = word if word.startswith("[") else f"See `{word}`."
    assert missing_in(text, ROOT / "common" / "contract") == []
