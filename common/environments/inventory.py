"""Which environments there are below `.nox`, what each is made from, and whether it is finished.

Beside each lie `NAME.log` and, where the last try to make it failed, `NAME.failed`, one sentence. A finished one holds
`made.json`, which says what it was made from. Standard library only: the noxfile imports this under the user's Python.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import NotInstalledError
from common.paths import ROOT

FOLDER = ROOT / ".nox"
"""Where the environments are."""

CONSTRAINTS = Path(__file__).with_name("constraints.txt")
"""The exact version of every package that is installed."""


@dataclass(frozen=True)
class Environment:
    """What an environment is made from."""

    name: str
    requirements: tuple[str, ...]
    """What uv installs, such as `numpy==2.4.6`."""
    script: Path | None = None
    """What its Python runs then, such as a build; a change of a file in the script's folder makes it run again."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """uv's variables that choose a build of a package, where the user names no index and the build's own answers."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return FOLDER / self.name / "bin" / "python"

    @property
    def log(self) -> Path:
        """What making it printed."""
        return FOLDER / f"{self.name}.log"

    @property
    def failed(self) -> Path:
        """The sentence that says why it couldn't be made."""
        return FOLDER / f"{self.name}.failed"

    @property
    def made(self) -> Path:
        """What it was made from; it is written last."""
        return FOLDER / self.name / "made.json"

    def ingredients(self, python_version: str) -> dict[str, object]:
        """What the environment depends on; another Python, version, build or folder makes it outdated."""
        digests: dict[str, str] = {}
        if self.script:
            folder = self.script.parent
            sources = [path for path in sorted(folder.rglob("*.*")) if path.suffix != ".pyc"]
            digests = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources}
        return {
            "python": python_version,
            "folder": self._folder,
            "requirements": sorted(self.requirements),
            "constraints": hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest(),
            "script": digests,
        }

    def is_made(self, python_version: str) -> bool:
        """Whether it is finished, and made from what it should be."""
        return self._made_from() == self.ingredients(python_version)

    def has_packages(self, python_version: str) -> bool:
        """Whether it lacks nothing, or its script's work alone."""
        made, wanted = self._made_from(), self.ingredients(python_version)
        return all(made.get(name) == wanted[name] for name in ("python", "folder", "requirements", "constraints"))

    @property
    def was_moved(self) -> bool:
        """Whether it was finished in another folder, whose interpreter its programs still name."""
        return self._made_from().get("folder", self._folder) != self._folder

    @property
    def _folder(self) -> str:
        return str((FOLDER / self.name).resolve())

    def _made_from(self) -> dict[str, object]:
        try:
            return json.loads(self.made.read_text(encoding="utf-8")) if self.python.exists() else {}
        except (OSError, ValueError):
            return {}


def python_of(name: str) -> Path | None:
    """The interpreter of an environment that is finished, or None where nobody has tried to make it.

    Raises NotInstalledError when it is unfinished, with what went wrong.
    """
    environment = Environment(name, ())
    if environment.failed.exists():
        raise NotInstalledError(environment.failed.read_text(encoding="utf-8").strip())
    if environment.made.exists():
        return environment.python
    if (FOLDER / name).exists():
        raise NotInstalledError(f"The environment {name} isn't finished: run `nox -s {name}`, which goes on with it.")
    return None
