"""What a session must have in common with the one that it goes on with, beside its options: code, packages, variables.

An edit of the README or of a report doesn't change what launches measure, so it isn't part of this.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from common.declarations.catalogue import families
from common.environments import inventory
from common.measurement import machine
from common.paths import ROOT

_PREFIXES = (
    *("CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GLIBC_TUNABLES", "GLOO_", "GOMP_", "JAX_", "KMP_", "LD_PRELOAD"),
    *("MALLOC_", "MKL_", "NCCL_", "NPY_", "OMP_", "OMPI_MCA_", "ONEDNN_", "OPENBLAS_", "PJRT_", "PMIX_"),
    *("PRTE_MCA_", "UCX_", "XLA_"),
)
"""How the names of variables begin that libraries of several frameworks obey; families declare the other ones."""

_OF_LAUNCHERS = re.compile(
    r"TF_CONFIG|OMPI_MCA_(PREFIXES|cpu_type|initial_wdir|num_procs)|(OMPI|PRTE)_MCA_(ess|orte|pmix|prte)\w*"
    r"|PMIX_(RANK|NAMESPACE|HOSTNAME|ID|VERSION|KEEPALIVE_PIPE|BFROP_BUFFER_TYPE|GDS_MODULE|SECURITY_MODE|PREFIX"
    r"|PARAM_FILE_PASSED|(DSTORE|LAUNCHER|PTL|SERVER)_\w+|\w*TMPDIR)"
)
"""What a launcher tells its processes, such as ranks, addresses and ports."""

_OF_TERRAFORM = re.compile(
    r"TF_(APPEND_USER_AGENT|DATA_DIR|IGNORE|INPUT|IN_AUTOMATION|REATTACH_PROVIDERS|WORKSPACE"
    r"|LOG|(CLI|CLOUD|HTTP|LOG|PLUGIN|REGISTRY|STATE|TOKEN|VAR)_\w+)"
)
"""Variables of Terraform's, some of them secrets (developer.hashicorp.com/terraform/cli/config)."""

_OF_IMPORTS = {("KMP_DUPLICATE_LIB_OK", "True"), ("KMP_INIT_AT_FORK", "FALSE")}
"""What threadpoolctl and scikit-learn set when they are imported."""


def fingerprint(variables: Mapping[str, str]) -> str:
    """Lines that change with the code that launches run, what is installed, the machine, and these variables."""
    host = machine.host_facts()
    facts = [host.name, host.processor, host.cores, host.gpus]
    packages = hashlib.sha256("\n".join(sorted(installed())).encode()).hexdigest()
    lines = [f"code {code_digest()}", f"installed {packages}", f"machine {json.dumps(facts)}"]
    return "\n".join([*lines, f"variables {json.dumps(variables)}"])


def code_digest(root: Path = ROOT) -> str:
    """SHA-256 of the names and contents of all files that launches import, and of pyproject.toml."""
    code = [path for pattern in ("common", "*_impl", "pyproject.toml") for path in root.glob(pattern)]
    content = hashlib.sha256()
    for path in sorted(path for top in code for path in (top, *top.rglob("*"))):
        # An editor's own files are hidden.
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
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
    """The variables that frameworks and their libraries obey, by name, but for what launchers and imports set.

    Launches on this machine inherit them. Hosts that are reached by ssh have those of their own.
    """
    prefixes = (*_PREFIXES, *(prefix for family in families().values() for prefix in family.variables))
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(prefixes)
        and not (_OF_LAUNCHERS.fullmatch(name) or _OF_TERRAFORM.fullmatch(name) or (name, value) in _OF_IMPORTS)
    }
