"""Every document: short, and true of the files, the names and the options that it names."""

import re
from functools import cache

import pytest

from common.paths import ROOT
from tests import commands

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
