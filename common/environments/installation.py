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

_INSTALLING_NOTHING = {"-h", "--help", "-V", "--version", "--dry-run"}
"""Options with which uv ends well and has installed nothing."""


def find_python() -> tuple[str, str]:
    """The Python for all environments, and its version: this one where it will do, else the newest on PATH.

    Raises UserError when there is none.
    """
    if _minor(platform.python_version()) in PYTHON_VERSIONS:
        return sys.executable, platform.python_version()
    for minor in PYTHON_VERSIONS:
        program = shutil.which(f"python{minor}")
        # pyenv puts a program on PATH for each version that it knows, which only runs for those that are switched on.
        version = (uv.output_of(program, "-c", _VERSION) or "") if program else ""
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
    written, or for an option with which uv installs nothing.
    """
    if installing_nothing := sorted(_INSTALLING_NOTHING & {*options}):
        raise UserError(
            f"{installing_nothing[0]} installs nothing: leave it out. `uv help pip install` has the options that an "
            "environment is made with."
        )
    python, version = find_python()
    if not options and all(each.is_made(version) for each in wanted):
        return {}
    program = uv.program()
    lock_file = inventory.FOLDER / "making.lock"
    ensure_writable(lock_file)
    sentences: dict[str, str] = {}
    with locked(lock_file, "Another process is making the environments of this checkout; waiting for it ...") as lock:
        unfinished = [each for each in wanted if options or not each.is_made(version)]
        index_options, variables = uv.settings() if unfinished else ([], {})
        for environment in unfinished:
            started = time.monotonic()
            maker = _Maker(environment, lock, "" if shutil.which("nvidia-smi") else advice)
            # A change of the script alone needs no packages, and so no network.
            lacks_packages = options or not environment.has_packages(version)
            is_new = (
                options or environment.was_moved or uv.output_of(str(environment.python), "-c", _VERSION) != version
            )
            environment.made.unlink(missing_ok=True)
            environment.failed.unlink(missing_ok=True)
            environment.log.write_bytes(b"")
            try:
                if lacks_packages:
                    maker.install(program, python if is_new else None, [*index_options, *options], variables)
                if environment.script:
                    maker.run([str(environment.python), str(environment.script)], uv.settings_for_pip() | os.environ)
            except UserError as error:
                sentence = f"The environment {environment.name} can't be made: {error}; the log is {environment.log}."
                environment.failed.write_text(sentence + "\n", encoding="utf-8")
                sentences[environment.name] = sentence
                continue
            environment.made.write_text(json.dumps(environment.ingredients(version), indent=1), encoding="utf-8")
            print(f"{environment.name}: made in {in_words(time.monotonic() - started)}", flush=True)
    return sentences


@dataclass(frozen=True)
class _Maker:
    """Takes the steps by which one environment is made; each raises UserError with the cause alone."""

    environment: Environment
    lock: int
    """Descriptor of the lock on all environments, which what is started here holds as well."""
    advice: str
    """What is printed when libraries for GPUs are downloaded."""

    def install(self, program: str, python: str | None, options: Sequence[str], variables: Mapping[str, str]) -> None:
        """Install what the environment needs, and nothing else; what an interrupted try has left is kept.

        With a `python` the environment first gets its own, in place of all that was there.
        """
        if python:
            folder = inventory.FOLDER / self.environment.name
            shutil.rmtree(folder, ignore_errors=True)
            self.run(
                [program, "venv", "--quiet", "--no-project", "--python", python, str(folder)], variables, by_uv=True
            )
        command = [program, "pip", "install", "--python", str(self.environment.python), "--exact", "--compile-bytecode"]
        command += ["--constraint", str(CONSTRAINTS), *options, *self.environment.requirements]
        preferred = {name: value for name, value in self.environment.variables.items() if name not in os.environ}
        if preferred and uv.names_an_index():
            preferred = {}
        try:
            self.run(command, {**variables, **preferred}, by_uv=True)
        except UserError as error:
            if not preferred:
                raise
            settings = ", ".join(f"{name}={value}" for name, value in preferred.items())
            print(f"{self.environment.name}: again without {settings}, since {error}.", flush=True)
            self.run(command, variables, by_uv=True)
        if "Bytecode compiled" not in self.environment.log.read_text(encoding="utf-8", errors="replace"):
            # uv compiles nothing where nothing was left to install, as after an interruption while it compiled.
            packages = next((inventory.FOLDER / self.environment.name).glob("lib/python*/site-packages"))
            compiling = [str(self.environment.python), "-m", "compileall", "-qq", "-j", "0", str(packages)]
            subprocess.run(compiling, stdin=subprocess.DEVNULL)

    def run(self, command: Sequence[str], variables: Mapping[str, str], by_uv: bool = False) -> None:
        """Run the command, its output in the log and, but for the list of packages, printed.

        The cause is uv's error, or the last line of any other program.
        """
        advice = self.advice
        process = subprocess.Popen(
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
                for line in process.stdout or ():
                    log.write(line)
                    if not line.startswith((" + ", " - ", " ~ ")):
                        print(f"{self.environment.name}: {line.rstrip()}", flush=True)
                    if advice and line.startswith(_FOR_GPUS):
                        print(f"\nThis serves NVIDIA GPUs, which this machine doesn't show. {advice}\n", flush=True)
                        advice = ""
            status = process.wait()
        finally:
            process.terminate()
            process.wait()
        if status:
            log = self.environment.log.read_text(encoding="utf-8", errors="replace")
            lines = [line.strip() for line in log.splitlines()]
            lines = [line for line in lines if line] or ["it said nothing"]
            raise UserError(_cause_of_uv(lines) if by_uv else lines[-1].rstrip("."))


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _cause_of_uv(lines: Sequence[str]) -> str:
    """uv's error in one line without a full stop."""
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
