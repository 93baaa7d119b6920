"""The files of another commit, beside this checkout: what a comparison against that commit launches as well."""

import math
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.declarations.catalogue import families
from common.errors import UserError
from common.files import write_atomically
from common.paths import ROOT
from common.records.files import EARLIER_VERSIONS
from common.records.header import SCHEMA_VERSION

RECORDS = "against_records"
"""The folder in a comparison's folder that has the records and logs of the other checkout."""

_RECORD_MODULES = ("common/records/header.py", "common/records/training.py")
"""Where a commit has the version of its records: earlier ones in the second module."""

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables by which a git hook that starts a comparison would name its own repository, whichever is asked for."""


@dataclass(frozen=True)
class Against:
    """The commit that this checkout is compared with."""

    rev: str
    """The commit as it was asked for."""
    commit: str
    here: str
    """This checkout's commit, `+changes` where files differ from it."""
    tolerance: float
    """By which share a step may take longer here."""
    notes: tuple[str, ...] = ()
    """Sentences on what differs between both and isn't compared."""


def find(rev: str, tolerance: float, root: Path = ROOT) -> Against:
    """The commit that `rev` names in the checkout `root`.

    Raises UserError where there is none, where its records can't be compared with this program's, where the files here
    don't differ from it, and for a tolerance that can't be meant.
    """
    if not 0 <= tolerance < math.inf:
        raise UserError(f"--tolerance {tolerance:g}: give a share of 0 or more, such as 0.05.")
    top = _git(root, "rev-parse", "--show-cdup")
    if "safe.directory" in top.stderr:
        raise UserError(
            f"git doesn't trust {root}, which another user owns: run `git config --global --add safe.directory "
            f"{shlex.quote(str(root))}`."
        )
    if top.returncode or top.stdout.strip():
        raise UserError(
            f"{root} isn't a git checkout, so there is no commit to compare with: clone the repository, or leave out "
            "--against-commit."
        )
    commit = _commit(rev, root)
    difference = _git(root, "diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", commit, "--").stdout
    new_code = _git(root, "ls-files", "--others", "--exclude-standard", "--", "*.py").stdout
    if not difference and not new_code:
        raise UserError(
            f"Nothing differs between {rev} and the files here: commit or change something, or name an earlier commit."
        )
    head = _git(root, "rev-parse", "HEAD").stdout.strip()
    changed = _git(root, "status", "--porcelain", "--untracked-files=no").stdout or new_code
    _check_records(rev, commit, head, root)
    here = head + ("+changes" if changed else "")
    return Against(rev=rev, commit=commit, here=here, tolerance=tolerance, notes=_notes(rev, commit, root))


@contextmanager
def other_checkout(against: Against, folder: Path, root: Path = ROOT) -> Generator[Path]:
    """The files of the other commit below a comparison's `folder`, with the environments of `root`; then they go.

    It is a repository of its own, which its launches' records name, without a copy of the history: its alternate object
    store is that of `root` (gitrepository-layout(5)). `git clone --shared` would lack commits that no branch of a
    shallow checkout has, such as those that CI fetched. Raises UserError where git can't fill it.
    """
    checkout = folder.resolve() / "against"
    # That of a comparison that was killed.
    shutil.rmtree(checkout, ignore_errors=True)
    try:
        objects = root / _git(root, "rev-parse", "--git-path", "objects").stdout.strip()
        made = _git(root, "init", "--quiet", "--template=", str(checkout))
        if made.returncode == 0:
            write_atomically(checkout / ".git/objects/info/alternates", os.fsencode(objects.resolve()) + b"\n")
            # A user's own hooks needn't know of it.
            made = _git(checkout, "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "--detach", against.commit)
        if made.returncode:
            [*_, line] = ["", *made.stderr.strip().splitlines()]
            raise UserError(
                f"git can't check {against.rev} out into {checkout} ({line}): make room there, or fetch what is "
                "missing."
            )
        if (root / ".nox").exists():
            (checkout / ".nox").symlink_to(root / ".nox")
        (folder / RECORDS).mkdir(exist_ok=True)
        yield checkout
    finally:
        # Not what its link to the environments leads to.
        shutil.rmtree(checkout, ignore_errors=True)


def _commit(rev: str, root: Path) -> str:
    commit = _git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}")
    if commit.returncode == 0:
        return commit.stdout.strip()
    if _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        raise UserError(
            f"There is no commit '{rev}' in this shallow checkout: run `git fetch --unshallow` first (in CI, check out "
            "with a fetch depth of 0)."
        )
    raise UserError(f"There is no commit '{rev}' here: name one that `git log --all` shows, or run `git fetch` first.")


def _check_records(rev: str, commit: str, head: str, root: Path) -> None:
    """Raises UserError where this program couldn't read the commit's records."""
    later = "name a later commit of this project"
    # A module that isn't there is an empty one.
    modules = "\n".join(_git(root, "show", f"{commit}:{place}").stdout for place in _RECORD_MODULES)
    version = re.search(r"^SCHEMA_VERSION = (\d+)$", modules, re.MULTILINE)
    if version is None:
        raise UserError(f"{rev} has no records that could be compared: {later}.")
    if int(version[1]) not in (*EARLIER_VERSIONS, SCHEMA_VERSION):
        other_way = f"check that commit out, and compare it with --against-commit {head[:10]}"
        raise UserError(
            f"{rev} writes records of schema version {version[1]}, this checkout of {SCHEMA_VERSION}, which can't be "
            f"compared: {other_way if int(version[1]) > SCHEMA_VERSION else later}."
        )


def _notes(rev: str, commit: str, root: Path) -> tuple[str, ...]:
    """What the environments, which are this checkout's, keep from being compared."""
    theirs = _git(root, "show", f"{commit}:pyproject.toml").stdout
    ours = (root / "pyproject.toml").read_text(encoding="utf-8") if (root / "pyproject.toml").exists() else ""
    missing = sorted(_requirements(theirs) - _requirements(ours))
    notes = [f"Both run in this checkout's environments, though {rev} pins {', '.join(missing)}."] if missing else []
    for build in sorted({str(Path(family.build).parent) for family in families().values() if family.build}):
        if _git(root, "diff", "--quiet", commit, "--", build).returncode == 1:
            notes.append(f"Both run with what this checkout's {build} built, which differs in {rev}.")
    return tuple(notes)


def _requirements(pyproject: str) -> set[str]:
    groups = tomllib.loads(pyproject).get("dependency-groups", {}).values()
    return {requirement for group in groups for requirement in group if isinstance(requirement, str)}


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """How a git command ended in `root`. Raises UserError without git."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    # Messages that can be told apart, and no lock that a user's own git would meet.
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(root), *arguments]
    try:
        # As names of files are decoded.
        return subprocess.run(command, env=environment, capture_output=True, errors="surrogateescape")
    except FileNotFoundError as error:
        raise UserError("--against-commit needs git, which isn't installed: install it.") from error
