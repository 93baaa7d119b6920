"""Refuses modules on PYTHONPATH that hide a package: one of ours, of the standard library, or an installed one.

Python looks there before it looks anywhere else (docs.python.org, PYTHONPATH). Standard library only: the noxfile
imports this under the user's Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from common.environments import inventory
from common.errors import UserError
from common.paths import ROOT


def refuse() -> None:
    """Raise UserError for the first module on PYTHONPATH that hides another one."""
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if not entries:
        return
    installed = {
        module: site for site in inventory.FOLDER.glob("*/lib/python*/site-packages") for module, _ in _modules_in(site)
    }
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    for entry in entries:
        for module, path in _modules_in(Path(entry)):
            taken = module in ours or module in sys.stdlib_module_names or module in installed
            if taken and Path(entry).resolve() not in (ROOT, installed.get(module)):
                raise UserError(
                    f"PYTHONPATH names {entry}, where {path.name} takes the place of the package {module}: unset "
                    "PYTHONPATH, or take this folder out of it."
                )


def _modules_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """The name and the path of every module in the folder; a folder without `__init__.py` takes nobody's place."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix in (".py", ".so") or (path / "__init__.py").is_file():
            yield path.name.partition(".")[0], path
