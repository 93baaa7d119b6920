"""The folder of one session, which goes on in it where it was interrupted, by the same code, packages and variables.

An edit of the README or of a report doesn't change what launches measure, so it begins no new folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from common.declarations.catalogue import families
from common.environments import inventory
from common.files import write_atomically
from common.launching.inheritance import world_variables
from common.measurement import machine
from common.paths import ROOT
from common.records import variables as obeyed

FINISHED = "finished"
"""The file that a folder has from the end of its session on."""

_OPTIONS, _FINGERPRINT = "options.txt", "fingerprint.txt"

_PREFIXES = (
    *("CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GLIBC_TUNABLES", "GLOO_", "GOMP_", "KMP_", "LD_PRELOAD"),
    *("MALLOC_", "MKL_", "NCCL_", "NPY_", "OMP_", "OMPI_MCA_", "ONEDNN_", "OPENBLAS_", "PJRT_", "PMIX_"),
    *("PRTE_MCA_", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_MPI_TYPE", "UCX_", "XLA_"),
)
"""How the names of variables begin that libraries of several frameworks obey; families declare the other ones."""

_OF_TERRAFORM = re.compile(
    r"TF_(APPEND_USER_AGENT|DATA_DIR|IGNORE|INPUT|IN_AUTOMATION|REATTACH_PROVIDERS|WORKSPACE"
    r"|LOG|(CLI|CLOUD|HTTP|LOG|PLUGIN|REGISTRY|STATE|TOKEN|VAR)_\w+)"
)
"""Variables of Terraform's, some of them secrets (developer.hashicorp.com/terraform/cli/config)."""

_OF_IMPORTS = {("KMP_DUPLICATE_LIB_OK", "True"), ("KMP_INIT_AT_FORK", "FALSE")}
"""What threadpoolctl and scikit-learn set when they are imported."""


def unfinished_or_new(results: Path, kind: str, options: str, moves: bool = False) -> Path:
    """The newest folder of this kind in `results` that was begun as this and didn't come to its end, else a new one.

    `options` say what was asked for. A folder goes on only with the same code, packages, variables and machine; where
    they alone differ, that is printed. A session that `moves` goes on on another machine of the same kind as well. A
    new folder keeps the variables that the user had set and frameworks obey. Raises UserError where no folder can be
    made.
    """
    variables = obeyed_variables()
    begun_with = fingerprint(variables, moves)
    if variables:
        print(f"Frameworks obey variables that are set here: {obeyed.in_words(variables)}.", flush=True)
    for folder in sorted(results.glob(f"*-{kind}"), reverse=True):
        if (folder / FINISHED).exists() or _text(folder / _OPTIONS) != options:
            continue
        if _text(folder / _FINGERPRINT) == begun_with:
            return folder
        print(f"{folder} doesn't go on: code, packages, variables or machine changed since it was begun.", flush=True)
        break
    folder = results / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{kind}"
    obeyed.keep(folder, variables)
    write_atomically(folder / _FINGERPRINT, begun_with.encode())
    write_atomically(folder / _OPTIONS, options.encode())
    return folder


def fingerprint(variables: Mapping[str, str], moves: bool = False) -> str:
    """Lines that change with the code that launches run, what is installed, the machine, and these variables.

    Of the machine its kind alone counts where the session `moves` from one to another.
    """
    host = machine.host_facts()
    facts = ["" if moves else host.name, host.processor, host.cores, host.core_limit, host.gpus]
    packages = hashlib.sha256("\n".join(sorted(installed())).encode()).hexdigest()
    lines = [f"code {code_digest()}", f"installed {packages}", f"machine {json.dumps(facts)}"]
    return "\n".join([*lines, f"variables {json.dumps(variables)}"])


def code_digest(root: Path = ROOT) -> str:
    """SHA-256 of the names and contents of all files that launches import, and of pyproject.toml."""
    code = [path for pattern in ("common", "*_impl", "pyproject.toml") for path in root.glob(pattern)]
    content = hashlib.sha256()
    for path in sorted(path for top in code for path in (top, *top.rglob("*"))):
        is_code = path.suffix != ".md" and "__pycache__" not in path.parts
        # An editor's own files are hidden.
        if path.is_file() and is_code and not path.name.startswith("."):
            content.update(f"{path.relative_to(root)}\0".encode())
            content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def installed() -> list[str]:
    """Every distribution with its version, in each environment that launches run in and in this program's own."""
    names = {name for family in families().values() for name in (family.environment, family.environment_for_gpus)}
    prefixes = [inventory.FOLDER / name for name in sorted(filter(None, names))]
    distributions = [
        f"{prefix.name}: {distribution}"
        for prefix in (*prefixes, Path(sys.prefix))
        for distribution in machine.distributions(prefix.glob("lib/python*/site-packages"))
    ]
    return [f"Python {platform.python_version()}", *distributions]


def obeyed_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that frameworks and their libraries obey, by name, but for another world's and what imports set.

    Launches on this machine inherit them. Hosts that are reached by ssh have those of their own.
    """
    prefixes = (*_PREFIXES, *(prefix for family in families().values() for prefix in family.variables))
    foreign = world_variables(environment)
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(prefixes)
        and not (name in foreign or _OF_TERRAFORM.fullmatch(name) or (name, value) in _OF_IMPORTS)
    }


def order_seed(folder: Path, asked_for: int | None) -> int:
    """Seed of the order of launches: the one that the folder was begun with, else the one asked for, else a new one."""
    marker = folder / "order_seed.txt"
    if not marker.exists():
        write_atomically(marker, str(secrets.randbelow(2**31) if asked_for is None else asked_for).encode())
    return int(marker.read_text(encoding="utf-8"))


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
