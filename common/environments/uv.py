"""uv, which makes the environments: its program, its settings where only pip's are there, and the list of versions.

The noxfile imports this under the user's Python, so it takes the standard library alone.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence

from common.environments.inventory import CONSTRAINTS
from common.errors import UserError
from common.files import cache_folder, ensure_writable
from common.paths import ROOT

_INDEXES = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
}
"""pip's settings of where packages are, each with uv's variables of the same meaning."""

_CONNECTION = {
    "trusted-host": "UV_INSECURE_HOST",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
}
"""pip's settings of how packages are fetched, with uv's variables."""

_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Where Linux distributions keep the certificates that pip trusts, and uv by default doesn't."""


def program() -> str:
    """Return the path of uv, preferably the one that came with Nox. Raises UserError when there is none."""
    try:
        from uv import find_uv_bin

        return os.fsdecode(find_uv_bin())
    except (ImportError, FileNotFoundError):
        path = shutil.which("uv")
    if path:
        return path
    raise UserError('uv, which makes the environments, isn\'t found: run `python3 -m pip install "nox[uv]"`.')


def settings() -> tuple[list[str], dict[str, str]]:
    """Return options and environment variables by which uv fetches packages from where pip would.

    uv's own variables go first: where the user names an index by one of them, pip's indexes are left out.
    """
    pip, options, variables = _settings_of_pip(), [], {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    if not any(os.environ.get(variable) for names in _INDEXES.values() for variable in names):
        for setting, (variable, *_) in _INDEXES.items():
            if setting in pip:
                separator = "," if setting == "find-links" else " "
                variables[variable] = separator.join(pip[setting].split())
        if pip.get("no-index", "").lower() in ("1", "on", "true", "yes"):
            options.append("--no-index")
    # pip takes the best version of all indexes. uv's default is to stop at the first index that has the package.
    variables.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    for setting, variable in _CONNECTION.items():
        if setting in pip:
            variables.setdefault(variable, " ".join(pip[setting].split()))
    if pip.get("keyring-provider") in ("import", "subprocess"):
        # uv knows the program keyring, not its Python package.
        variables.setdefault("UV_KEYRING_PROVIDER", "subprocess")
    bundles = (pip.get("cert"), os.environ.get("REQUESTS_CA_BUNDLE"), *_CERTIFICATES)
    if bundle := next((each for each in bundles if each and os.path.exists(each)), None):
        variables.setdefault("SSL_CERT_FILE", bundle)
    if "UV_CACHE_DIR" not in variables:
        # uv fails where it can't write its cache; pip does without.
        try:
            ensure_writable(cache_folder().parent / "uv" / "CACHEDIR.TAG")
        except UserError:
            variables["UV_NO_CACHE"] = "true"
    for path in (os.environ.get("UV_CONSTRAINT") or pip.get("constraint", "")).split():
        options += ["--constraint", path]
    return options, variables


def names_an_index() -> bool:
    """Return whether the user has said where packages are, by uv's settings or by pip's."""
    of_uv = any(os.environ.get(variable) for names in _INDEXES.values() for variable in names)
    return of_uv or bool({*_INDEXES, "no-index"} & {*_settings_of_pip()})


def settings_for_pip() -> dict[str, str]:
    """Return variables by which pip finds packages at the indexes that the user has named to uv."""
    variables = {}
    for setting, names in _INDEXES.items():
        if value := next((os.environ[name] for name in names if os.environ.get(name)), None):
            # uv takes `name=URL` for an index, and commas between links.
            urls = re.sub(r"(?<!\S)[\w-]+=", "", value.replace(",", " ") if setting == "find-links" else value)
            variables[f"PIP_{setting.replace('-', '_').upper()}"] = urls
    return variables


def _settings_of_pip() -> dict[str, str]:
    """pip's settings for `pip install` by name, such as `index-url`, from its files and from variables."""
    settings = {}
    lists = (output_of(python, "-m", "pip", "config", "list") for python in (sys.executable, "python3"))
    lines = next((text for text in lists if text is not None), "").splitlines()
    for section in ("global.", "install.", ":env:."):
        for line in lines:
            name, _, value = line.partition("=")
            if name.startswith(section) and ast.literal_eval(value):
                settings[name[len(section) :]] = ast.literal_eval(value)
    return settings


def output_of(*command: str) -> str | None:
    """What the command prints; None when it fails or doesn't exist."""
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def lock(groups: Iterable[str], python_version: str, options: Sequence[str]) -> None:
    """Write the list of exact versions for these dependency groups, below the comment with which it begins.

    uv keeps those versions that still serve. Raises UserError when uv finds no solution.
    """
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines(keepends=True)
    header = "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
    index_options, variables = settings()
    command = [program(), "pip", "compile", "--quiet", "--universal", "--python-version", python_version]
    command += ["--no-annotate", "--no-header", "--output-file", str(CONSTRAINTS), *index_options, *options]
    command += [f"--group={group}" for group in groups]
    if subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL).returncode:
        raise UserError(f"{CONSTRAINTS} is as it was, since uv failed: its reason stands above.")
    CONSTRAINTS.write_text(header + CONSTRAINTS.read_text(encoding="utf-8"), encoding="utf-8")
