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
from dataclasses import dataclass
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
        if program and _minor(version) == minor:
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
    program = uv.program()
    lock_file = inventory.FOLDER / "making.lock"
    ensure_writable(lock_file)
    with locked(lock_file, "Another process is making the environments of this checkout; waiting for it ...") as lock:
        sentences = {}
        unfinished = [each for each in wanted if options or not each.is_made(version)]
        index_options, variables = uv.settings() if unfinished else ([], {})
        for environment in unfinished:
            started = time.monotonic()
            # A change of the script alone needs no packages, and so no network.
            lacks_packages = options or not environment.has_packages(version)
            environment.made.unlink(missing_ok=True)
            environment.failed.unlink(missing_ok=True)
            environment.log.write_bytes(b"")
            maker = _Maker(environment, lock, "" if shutil.which("nvidia-smi") else advice)
            cause = None
            if lacks_packages:
                anew = options or _output_of(str(environment.python), "-c", _VERSION) != version
                cause = maker.unpack_python(program, python, variables) if anew else None
                cause = cause or maker.install_packages(program, [*index_options, *options], variables)
            cause = cause or maker.run_script()
            if cause:
                sentences[environment.name] = _conclude(environment, cause)
                continue
            environment.made.write_text(json.dumps(environment.ingredients(version), indent=1), encoding="utf-8")
            print(f"{environment.name}: made in {in_words(time.monotonic() - started)}", flush=True)
        return sentences


@dataclass(frozen=True)
class _Maker:
    """Takes the steps by which one environment is made; each returns the cause where it fails."""

    environment: Environment
    lock: int
    """Descriptor of the lock on all environments, which what is started here holds as well."""
    advice: str
    """What is printed when libraries for GPUs are downloaded."""

    def unpack_python(self, program: str, python: str, variables: Mapping[str, str]) -> str | None:
        """Give the environment its own Python, in place of all that was there."""
        folder = inventory.FOLDER / self.environment.name
        shutil.rmtree(folder, ignore_errors=True)
        command = [program, "venv", "--quiet", "--no-project", "--python", python, str(folder)]
        return _cause_of_uv(self.environment.log) if self._run(command, variables) else None

    def install_packages(self, program: str, options: Sequence[str], variables: Mapping[str, str]) -> str | None:
        """Install what the environment needs, and nothing else; what an interrupted try has left is kept."""
        command = [program, "pip", "install", "--python", str(self.environment.python), "--exact", "--compile-bytecode"]
        command += ["--constraint", str(CONSTRAINTS), *options, *self.environment.requirements]
        if self._run(command, variables):
            return _cause_of_uv(self.environment.log)
        if "Bytecode compiled" not in self.environment.log.read_text(encoding="utf-8"):
            # uv compiles nothing where nothing was left to install, as after an interruption while it compiled.
            (folder,) = (inventory.FOLDER / self.environment.name).glob("lib/python*/site-packages")
            compiler = [str(self.environment.python), "-m", "compileall", "-qq", "-j", "0", str(folder)]
            subprocess.run(compiler, stdin=subprocess.DEVNULL)
        return None

    def run_script(self) -> str | None:
        """Run the environment's script, if it has one. It says its cause last."""
        if not self.environment.script:
            return None
        command = [str(self.environment.python), str(self.environment.script)]
        status = self._run(command, uv.settings_for_pip() | os.environ)
        return _lines_of(self.environment.log)[-1].rstrip(".") if status else None

    def _run(self, command: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run the command, its output in the log and, but for the list of packages, printed; return its status."""
        advice = self.advice
        run = subprocess.Popen(
            command,
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=[self.lock],
        )
        try:
            with self.environment.log.open("a", encoding="utf-8") as log:
                for line in run.stdout or ():
                    log.write(line)
                    if not line.startswith((" + ", " - ", " ~ ")):
                        print(f"{self.environment.name}: {line.rstrip()}", flush=True)
                    if advice and line.startswith(_FOR_GPUS):
                        print(f"\nThis serves NVIDIA GPUs, which this machine doesn't show. {advice}\n", flush=True)
                        advice = ""
            return run.wait()
        finally:
            run.terminate()
            run.wait()


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _output_of(*command: str) -> str:
    """What the command prints; nothing when it fails or doesn't exist."""
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _cause_of_uv(log: Path) -> str:
    """uv's error in one line without a full stop."""
    lines = _lines_of(log)
    # uv marks its errors with `error:`, or draws a cross and a tree before them.
    start = next((number for number, line in enumerate(lines) if re.match(r"error: |\W+ No solution", line)), -1)
    causes = itertools.takewhile(lambda line: not line.startswith(("hint: ", "tip: ", "Usage: ")), lines[start:])
    text = " ".join(re.sub(r"^[^\w`]+", "", line) for line in causes).removeprefix("error: ")
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
