"""Make environments with uv, and keep one's trouble from the others.

The noxfile imports this under the user's Python, so it takes the standard library alone.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.environments import inventory, uv
from common.environments.durations import in_words
from common.environments.inventory import CONSTRAINTS, Environment
from common.errors import UserError
from common.files import ensure_writable, locked
from common.paths import ROOT

PYTHON_VERSIONS = ("3.13", "3.12", "3.11")
"""The versions that the pinned packages were tried with, in the order in which they are looked for."""

_FOR_GPUS = ("Downloading nvidia-", "Downloading triton ")
"""How the lines begin by which uv tells of a large download that serves NVIDIA GPUs."""

_VERSION = "import platform; print(platform.python_version())"


def find_python() -> tuple[str, str]:
    """The Python for all environments, and its version: this one where it will do, else the newest on PATH.

    Raises UserError when there is none.
    """
    if _minor(platform.python_version()) in PYTHON_VERSIONS:
        return sys.executable, platform.python_version()
    for minor in PYTHON_VERSIONS:
        program = shutil.which(f"python{minor}")
        # pyenv puts a program on PATH for each version that it knows, which only runs for those that are switched on.
        version = _output_of(program, "-c", _VERSION) if program else ""
        if _minor(version) == minor:
            return program, version
    versions = f"{', '.join(reversed(PYTHON_VERSIONS[1:]))} or {PYTHON_VERSIONS[0]}"
    raise UserError(
        f"Lockstep needs Python {versions}, but Nox runs under {_minor(platform.python_version())} and none of them is "
        "on PATH: install one of them, or install Nox for one that you have."
    )


def make(wanted: Sequence[Environment], options: Sequence[str] = (), advice: str = "") -> dict[str, str]:
    """Make those of the environments that aren't finished; return the sentence of each that can't be, by name.

    With `options` the environments are made anew with these options of uv's. The `advice` is printed where libraries
    for NVIDIA GPUs are downloaded and the machine has no such GPU.
    Raises UserError when no environment at all can be begun: without a Python or uv, or in a folder that can't be
    written.
    """
    python, version = find_python()
    if not options and all(each.is_made(version) for each in wanted):
        return {}
    uv.program()
    lock_file = inventory.FOLDER / "making.lock"
    ensure_writable(lock_file)
    with locked(lock_file, "Another process is making the environments of this checkout; waiting for it ...") as lock:
        sentences = {}
        for environment in wanted:
            if not options and environment.is_made(version):
                continue
            started = time.monotonic()
            # A change of the script alone needs no packages, and so no network.
            lacks_packages = options or not environment.has_packages(version)
            environment.made.unlink(missing_ok=True)
            environment.failed.unlink(missing_ok=True)
            environment.log.write_bytes(b"")
            cause = _install_packages(environment, python, version, options, advice, lock) if lacks_packages else None
            cause = cause or _run_script(environment, lock)
            if cause:
                sentences[environment.name] = _conclude(environment, cause)
                continue
            environment.made.write_text(json.dumps(environment.ingredients(version), indent=1), encoding="utf-8")
            print(f"{environment.name}: made in {in_words(time.monotonic() - started)}", flush=True)
        return sentences


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _output_of(*command: str) -> str:
    """What the command prints; nothing when it fails or doesn't exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _install_packages(
    environment: Environment, python: str, version: str, options: Sequence[str], advice: str, lock: int
) -> str | None:
    """Give the environment its own Python and what it needs; return the cause where that fails.

    What an interrupted try has left is kept, unless it can't serve.
    """
    index_options, variables = uv.settings()
    if options or _output_of(str(environment.python), "-c", _VERSION) != version:
        folder = inventory.FOLDER / environment.name
        shutil.rmtree(folder, ignore_errors=True)
        command = [uv.program(), "venv", "--quiet", "--no-project", "--python", python, str(folder)]
        if _run(command, environment, variables, lock):
            return _cause_of_uv(environment.log)
    command = [uv.program(), "pip", "install", "--python", str(environment.python), "--exact", "--compile-bytecode"]
    command += ["--constraint", str(CONSTRAINTS), *index_options, *options, *environment.requirements]
    return _cause_of_uv(environment.log) if _run(command, environment, variables, lock, advice) else None


def _run_script(environment: Environment, lock: int) -> str | None:
    """Run the environment's script, if it has one; return the cause, which it says last, where that fails."""
    if not environment.script:
        return None
    command = [str(environment.python), str(environment.script)]
    status = _run(command, environment, uv.settings_for_pip() | os.environ, lock)
    return _lines_of(environment.log)[-1].rstrip(".") if status else None


def _run(
    command: Sequence[str], environment: Environment, variables: Mapping[str, str], lock: int, advice: str = ""
) -> int:
    """Run the command with its output in the log and, but for the list of packages, printed; return its status."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    text = {"encoding": "utf-8", "errors": "replace"}
    run = subprocess.Popen(command, cwd=ROOT, env=variables, pass_fds=[lock], **streams, **text)
    try:
        with environment.log.open("a", encoding="utf-8") as log:
            for line in run.stdout:
                log.write(line)
                if not line.startswith((" + ", " - ", " ~ ")):
                    print(f"{environment.name}: {line.rstrip()}", flush=True)
                if advice and line.startswith(_FOR_GPUS) and not shutil.which("nvidia-smi"):
                    print(f"\nThis serves NVIDIA GPUs, which this machine doesn't show. {advice}\n", flush=True)
                    advice = ""
        return run.wait()
    finally:
        run.terminate()
        run.wait()


def _cause_of_uv(log: Path) -> str:
    """uv's error in one line without a full stop."""
    lines = _lines_of(log)
    start = next((number for number, line in enumerate(lines) if line.startswith(("error: ", "× "))), -1)
    causes = itertools.takewhile(lambda line: not line.startswith(("hint: ", "tip: ", "Usage: ")), lines[start:])
    text = " ".join(line.strip("×╰─▶│ ") for line in causes).removeprefix("error: ")
    text = re.sub(r":? (cause|Caused by): ", ": ", text)
    if request := re.search(r"error sending request for url \((\S+)\)", text):
        return (
            f"the package index didn't answer ({request.group(1)}): check the network and the settings of uv or pip, "
            "and try again"
        )
    return text.rstrip(".")


def _lines_of(log: Path) -> list[str]:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [line for line in lines if line] or ["it said nothing"]


def _conclude(environment: Environment, cause: str) -> str:
    """Keep the sentence that says why the environment can't be had, and return it."""
    sentence = f"The environment {environment.name} can't be made: {cause}; the log is {environment.log}."
    environment.failed.write_text(sentence + "\n", encoding="utf-8")
    return sentence
