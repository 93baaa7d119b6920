"""What a session must have in common with the one that it goes on with, beside its options: code, packages, variables.

An edit of the README or of a report doesn't change what launches measure, so it isn't part of this.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from common import environments
from common.catalogue import ROOT, families

_CODE = ("common", "*_impl", "pyproject.toml")

_PREFIXES = (
    *("ATEN_", "GLOO_", "GOMP_", "JAX_", "KMP_", "LD_PRELOAD", "MALLOC_", "MKL_", "NCCL_", "OMP_", "OMPI_MCA_"),
    *("OPENBLAS_", "PJRT_", "PMIX_", "PRTE_MCA_", "TF_", "TORCH_", "UCX_", "XLA_"),
)
"""How the names of variables begin that frameworks and their libraries obey."""

_LAUNCHERS = ("PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_", "PMIX_HOSTNAME", "PMIX_ID", "TF_CONFIG")
"""How those of them begin that a launcher sets: ranks, addresses and ports."""


def fingerprint(variables: Mapping[str, str]) -> str:
    """Lines that change with the code that launches run, with what is installed, and with these variables."""
    lines = [f"code {code_digest()}", f"installed {_digest(sorted(installed()))}"]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in variables.items())])


def code_digest(root: Path = ROOT) -> str:
    """SHA-256 of the names and contents of all files that launches import, and of pyproject.toml."""
    files = []
    for pattern in _CODE:
        for path in root.glob(pattern):
            files += [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    content = hashlib.sha256()
    for path in sorted(files):
        if "__pycache__" not in path.parts:
            content.update(f"{path.relative_to(root)}\0".encode())
            content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def installed() -> list[str]:
    """Every distribution with its version, in each environment that launches run in and in this program's own."""
    names = {name for family in families().values() for name in (family.environment, family.environment_for_gpus)}
    prefixes = [environments.FOLDER / name for name in sorted(filter(None, names))]
    return [
        f"{prefix.name}: {distribution.name}"
        for prefix in (*prefixes, Path(sys.prefix))
        for distribution in prefix.glob("lib/python*/site-packages/*.dist-info")
    ]


def obeyed_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that frameworks and their libraries obey, by name, but for those that launchers set.

    Launches on this machine inherit them. Hosts that are reached by ssh have those of their own.
    """
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_PREFIXES) and not name.startswith(_LAUNCHERS)
    }


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
