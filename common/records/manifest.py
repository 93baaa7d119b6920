"""The digest of every file that a session's launches leave, noted when each of them ends.

It finds accidents and edits, not forgers: whoever can write to the folder can write the manifest too. The file is that
of sha256sum(1): `sha256sum --check manifest.sha256` in the folder checks it as well.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from common.files import write_atomically
from common.records.files import record_paths

FILE = "manifest.sha256"

_NOT_NOTED = (".log", ".first", ".cells")
"""How the names of files end that no result rests on."""


@dataclass(frozen=True)
class Differences:
    """What isn't as the manifest says, by paths from the session's folder."""

    exists: bool = False
    """Whether there is a manifest."""
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unnoted: tuple[str, ...] = ()
    """Records that are there, and that no launch of the session has left."""

    @property
    def launches(self) -> set[str]:
        """The launches whose record or weights aren't those that they left, by name."""
        paths = [Path(name) for name in (*self.changed, *self.missing, *self.unnoted)]
        return {path.stem for path in paths if path.parent == Path() and path.suffix in (".json", ".safetensors")}


def files_of(folder: Path, launch: str) -> list[Path]:
    """The files that a launch has left in the folder: its record, its weights, and what else results rest on."""
    return [path for path in folder.glob(f"{launch}.*") if path.is_file() and not path.name.endswith(_NOT_NOTED)]


def note(folder: Path, paths: Iterable[Path]) -> None:
    """Note the digests of these files in the folder's manifest; those that don't exist are noted no longer."""
    noted = read(folder)
    for path in paths:
        name = str(path.resolve().relative_to(folder.resolve()))
        if path.exists():
            noted[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            noted.pop(name, None)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(noted.items())]
    write_atomically(folder / FILE, "".join(lines).encode())


def read(folder: Path) -> dict[str, str]:
    """The digest of every file that was noted, by its path from the folder; empty without a manifest."""
    path = folder / FILE
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return {name: digest for digest, separator, name in (line.partition("  ") for line in lines) if separator}


def check(folder: Path) -> Differences:
    """What in the folder isn't as its manifest says."""
    if not (folder / FILE).exists():
        return Differences()
    changed, missing, noted = [], [], read(folder)
    for name, digest in noted.items():
        path = folder / name
        if not path.is_file():
            missing.append(name)
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            changed.append(name)
    places = {Path(name).parent for name in noted} | {Path()}
    records = {str(path.relative_to(folder)) for place in places for path in record_paths(folder / place)}
    unnoted = sorted(records - noted.keys())
    return Differences(True, tuple(changed), tuple(missing), tuple(unnoted))


def in_words(differences: Differences) -> list[str]:
    """A sentence for each kind of difference; none where there is no manifest or all is as it says."""
    kinds = (
        (differences.changed, "differs from what its launch left", "differ from what their launches left"),
        (differences.missing, "is missing", "are missing"),
        (differences.unnoted, "was left by no launch of this session", "were left by no launch of this session"),
    )
    sentences: list[str] = []
    for names, one, many in kinds:
        if len(names) == 1:
            sentences.append(f"{names[0]} {one}.")
        elif names:
            rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
            sentences.append(f"{len(names)} files {many}: {', '.join(names[:3])}{rest}.")
    return sentences


def summary(differences: Differences) -> str:
    """What the check says, in one line."""
    if not differences.exists:
        return "none were noted when the launches ended, so nothing shows an edited record"
    return " ".join(in_words(differences)) or "as they were noted when the launches ended"
