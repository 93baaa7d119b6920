"""Make the environments below `.nox`: say what will be downloaded, install it, and keep one's trouble from the others.

The noxfile imports this under the Python that Nox runs with: it takes the standard library, and virtualenv, which Nox
needs itself. Beside each environment lie `NAME.log` and, where the last try failed, `NAME.failed`, one sentence. A
finished environment holds `made.json`, which says what it was made from; an unfinished one is gone on with.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from common.errors import NotInstalledError, UserError

PYTHON_VERSIONS = ("3.13", "3.12", "3.11")
"""The versions that the pinned packages were tried with, in the order in which they are looked for."""

FOLDER = Path(__file__).parent.parent / ".nox"
"""Where the environments are."""

LARGE_BYTES = 20e6
"""Packages from this size on have a row of their own in the table of downloads."""

_VERSION = "import platform; print(platform.python_version())"


@dataclass(frozen=True)
class Environment:
    """What an environment is made from."""

    name: str
    requirements: tuple[str, ...]
    """What pip installs, such as `torch==2.13.0`."""
    script: Path | None = None
    """What its Python runs then, such as a build; a change of a file in the script's folder makes it run again."""

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return FOLDER / self.name / "bin" / "python"

    def ingredients(self, python_version: str) -> dict[str, object]:
        """What the environment depends on; another Python, pin or build makes it outdated."""
        folder = self.script.parent if self.script else None
        sources = [path for path in sorted(folder.rglob("*.*")) if path.suffix != ".pyc"] if folder else []
        digests = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources}
        return {"python": python_version, "requirements": sorted(self.requirements), "script": digests}


@dataclass(frozen=True)
class Download:
    """A package that pip would fetch."""

    name: str
    version: str
    url: str
    size_bytes: int | None
    """None where the index doesn't tell."""


class _NotMadeError(Exception):
    """Why an environment can't be made: the cause, without a full stop."""


def python_of(name: str) -> Path | None:
    """The interpreter of an environment that is finished, or None where nobody has tried to make it.

    Raises NotInstalledError when it is unfinished, with what went wrong.
    """
    failed = FOLDER / f"{name}.failed"
    if failed.exists():
        raise NotInstalledError(failed.read_text().strip())
    if (FOLDER / name / "made.json").exists():
        return FOLDER / name / "bin" / "python"
    if (FOLDER / name).exists():
        raise NotInstalledError(f"The environment {name} isn't finished: run `nox -s {name}`, which goes on with it.")
    return None


def find_python() -> str:
    """The Python for all environments: the one that runs this where its version will do, else the newest on PATH.

    Raises UserError when there is none.
    """
    if _minor(sys.version) in PYTHON_VERSIONS:
        return sys.executable
    for version in PYTHON_VERSIONS:
        program = shutil.which(f"python{version}")
        # pyenv puts a program on PATH for each version that it knows, which only runs for those that are switched on.
        if program and _minor(_output_of(program, "-c", _VERSION)) == version:
            return program
    versions = f"{', '.join(reversed(PYTHON_VERSIONS[1:]))} or {PYTHON_VERSIONS[0]}"
    raise UserError(
        f"Lockstep needs Python {versions}, but Nox runs under {_minor(sys.version)} and none of them is on PATH: "
        "install one of them, or install Nox for one that you have."
    )


def make(environments: Sequence[Environment], pip_options: Sequence[str] = (), advice: str = "") -> dict[str, str]:
    """Make those of the environments that aren't finished; return the sentence of each that can't be, by name.

    Before anything is fetched, one table says what will be; `advice` follows it where NVIDIA's libraries are among it
    and the machine has no NVIDIA GPU. With `pip_options` the environments are made anew with these options of pip's.
    Raises UserError when no environment at all can be begun: without a Python, or in a folder that can't be written.
    """
    python = find_python()
    version = _output_of(python, "-c", _VERSION)
    if not pip_options and all(_is_made(environment, version) for environment in environments):
        return {}
    with _lock() as lock:
        unfinished = [each for each in environments if pip_options or not _is_made(each, version)]
        # A change of the script alone needs no packages, and so no network.
        lacking = [each for each in unfinished if pip_options or not _has_packages(each, version)]
        for environment in unfinished:
            (FOLDER / f"{environment.name}.failed").unlink(missing_ok=True)
            (FOLDER / f"{environment.name}.log").write_bytes(b"")
        for environment in lacking:
            _unpack_python(environment, python, version, anew=bool(pip_options))
        found, failed = _resolve_all(lacking, pip_options) if lacking else ({}, {})
        _print_downloads(found, version, advice)
        for environment in unfinished:
            name, started, cause = environment.name, time.monotonic(), failed.get(environment.name)
            if not cause and environment in lacking:
                cause = _install_packages(environment, found, pip_options, lock)
            cause = cause or _run_script(environment, version, lock)
            if cause:
                failed[name] = cause
            else:
                print(f"{name}: made in {time.monotonic() - started:.0f} s", flush=True)
        return {name: _conclude(name, cause) for name, cause in failed.items()}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _output_of(*command: str) -> str:
    """What the command prints; nothing when it fails or doesn't exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _made_from(environment: Environment) -> dict[str, object]:
    """What a finished environment was made from; nothing where it isn't finished."""
    try:
        return json.loads((FOLDER / environment.name / "made.json").read_text()) if environment.python.exists() else {}
    except (OSError, ValueError):
        return {}


def _is_made(environment: Environment, version: str) -> bool:
    return _made_from(environment) == environment.ingredients(version)


def _has_packages(environment: Environment, version: str) -> bool:
    made, wanted = _made_from(environment), environment.ingredients(version)
    return all(made.get(name) == wanted[name] for name in ("python", "requirements"))


@contextlib.contextmanager
def _lock() -> Iterator[int]:
    """Only one process at a time makes environments here; gives the lock's file descriptor.

    The lock ends with the last process that has the descriptor: where this one was killed, with what it had started.
    """
    try:
        FOLDER.mkdir(exist_ok=True)
        file = (FOLDER / "making.lock").open("w")
    except OSError as error:
        raise UserError(
            f"{FOLDER} can't be written ({error.strerror}): use a checkout that you may write to."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another process is making the environments of this checkout; waiting for it ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _unpack_python(environment: Environment, python: str, version: str, anew: bool) -> None:
    """Give the environment its own Python and pip; keep what an interrupted try has left, unless it can't serve.

    Raises UserError when that can't be done.
    """
    folder = FOLDER / environment.name
    (folder / "made.json").unlink(missing_ok=True)
    has_pip = _output_of(str(environment.python), "-m", "pip", "--version")
    if not anew and has_pip and _output_of(str(environment.python), "-c", _VERSION) == version:
        return
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "virtualenv", "--quiet", "--python", python, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        reason = ((run.stderr + run.stdout).strip().splitlines() or ["no message"])[-1]
        raise UserError(f"virtualenv can't make {folder} with {python}: {reason}.")


def _resolve_all(
    environments: Sequence[Environment], pip_options: Sequence[str]
) -> tuple[dict[str, Download], dict[str, str]]:
    """What pip would fetch, by name, for all environments together, so that all get the same versions.

    Where together they can't be had, each is asked for alone; the causes of those that can't be had are returned as
    well, by environment.
    """
    print(f"Asking pip what {_listed([each.name for each in environments])} will take ...", flush=True)
    everything = sorted({requirement for each in environments for requirement in each.requirements})
    try:
        return _resolve(environments[0], everything, pip_options), {}
    except _NotMadeError:
        found: dict[str, Download] = {}
        failed = {}
    for environment in environments:
        try:
            found |= _resolve(environment, environment.requirements, pip_options)
        except _NotMadeError as error:
            failed[environment.name] = str(error)
    return found, failed


def _resolve(environment: Environment, requirements: Sequence[str], options: Sequence[str]) -> dict[str, Download]:
    """What pip would fetch for the requirements, by name. Raises _NotMadeError when pip finds no solution."""
    report, log = FOLDER / f"{environment.name}.downloads.json", FOLDER / f"{environment.name}.log"
    # pip reads the metadata alone: no package is fetched yet.
    command = [*_pip(environment), "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
    with log.open("ab") as output:
        run = subprocess.run([*command, *options, *requirements], stdout=output, stderr=subprocess.STDOUT)
    if run.returncode:
        raise _NotMadeError(_cause_in(log))
    packages = json.loads(report.read_text())["install"]
    urls = [package["download_info"]["url"] for package in packages]
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(_size_bytes, urls))
    found = {}
    for package, url, size in zip(packages, urls, sizes, strict=True):
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        found[name] = Download(name, version, url, size)
    return found


def _pip(environment: Environment) -> list[str]:
    return [str(environment.python), "-m", "pip", "install", "--disable-pip-version-check"]


def _size_bytes(url: str) -> int | None:
    """How large the file is, or None where its server doesn't tell."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return os.path.getsize(urllib.request.url2pathname(parts.path))
        certificates = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=10, context=certificates) as response:
            return int(response.headers["Content-Length"])
    except (OSError, TypeError, ValueError, urllib.error.URLError):
        return None


def _print_downloads(found: dict[str, Download], version: str, advice: str) -> None:
    """The one table of what will be fetched."""
    if not found:
        return
    large = sorted(
        (each for each in found.values() if (each.size_bytes or 0) >= LARGE_BYTES), key=lambda each: each.name
    )
    small = [each for each in found.values() if (each.size_bytes or 0) < LARGE_BYTES]
    unknown = sum(each.size_bytes is None for each in small)
    print(f"\nTo be downloaded for Python {version}, unless pip has it in its cache:\n")
    for each in sorted(large, key=lambda each: -each.size_bytes):
        print(f"{each.size_bytes / 1e6:>9,.0f} MB  {each.name} {each.version}")
    note = f" ({unknown} of unknown size)" if unknown else ""
    print(f"{sum(each.size_bytes or 0 for each in small) / 1e6:>9,.0f} MB  {len(small)} smaller packages{note}")
    print(f"{sum(each.size_bytes or 0 for each in found.values()) / 1e6:>9,.0f} MB  in all\n", flush=True)
    for_gpus = sum(each.size_bytes or 0 for each in large if each.name.startswith(("nvidia-", "triton")))
    if for_gpus and not shutil.which("nvidia-smi"):
        print(
            f"{for_gpus / 1e9:.1f} GB of these serve NVIDIA GPUs, which this machine doesn't show. {advice}\n",
            flush=True,
        )


def _install_packages(
    environment: Environment, found: dict[str, Download], options: Sequence[str], lock: int
) -> str | None:
    """Install what the environment needs, in the versions that were found; return the cause where it fails."""
    log, versions = FOLDER / f"{environment.name}.log", FOLDER / f"{environment.name}.versions.txt"
    versions.write_text("".join(f"{each.name}=={each.version}\n" for each in found.values()))
    pip = [*_pip(environment), "--progress-bar", "raw", "--constraint", str(versions), *options]
    status = _run([*pip, *environment.requirements], log, environment.name, _news_of_pip, lock)
    return _cause_in(log) if status else None


def _run_script(environment: Environment, version: str, lock: int) -> str | None:
    """Run the environment's script, if it has one, and call it finished; return the cause where that fails."""
    log, ingredients = FOLDER / f"{environment.name}.log", environment.ingredients(version)
    if environment.script:
        command = [str(environment.python), str(environment.script)]
        if _run(command, log, environment.name, iter, lock):
            return _cause_in(log)
    (FOLDER / environment.name / "made.json").write_text(json.dumps(ingredients, indent=1))
    return None


def _run(
    command: Sequence[str], log: Path, name: str, news: Callable[[Iterable[str]], Iterator[str]], lock: int
) -> int:
    """Run the command with its output in the log and the news of it on the terminal; return its exit status."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    run = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[lock], **streams)

    def kept_lines() -> Iterator[str]:
        with log.open("a") as output:
            for line in run.stdout:
                if not line.startswith("Progress "):
                    output.write(line)
                yield line.rstrip()

    try:
        width = 0
        for text in news(kept_lines()):
            width = _show(f"{name}: {text}", width)
        _show("", width)
        return run.wait()
    finally:
        run.terminate()
        run.wait()


def _news_of_pip(lines: Iterable[str]) -> Iterator[str]:
    """What of pip's output, with `--progress-bar raw`, tells how far it is: large files by parts, then installing."""
    package, shown, parts = "", -1, 50 if sys.stdout.isatty() else 4
    for line in lines:
        if download := re.match(r"\s+Downloading (\S+?)-\d\S* \(", line):
            package, shown = download.group(1), -1
        elif progress := re.fullmatch(r"Progress (\d+) of (\d+)", line):
            done, total = map(int, progress.groups())
            if total >= LARGE_BYTES and parts * done // total > shown:
                shown = parts * done // total
                yield f"downloading {package}, {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        elif line.startswith("Installing collected packages: "):
            yield f"installing {line.count(',') + 1} packages ..."


def _show(text: str, width: int) -> int:
    """Print the text, on a terminal over the last one, which was `width` wide; return how wide this one is."""
    if not sys.stdout.isatty():
        if text:
            print(text, flush=True)
        return 0
    text = text[: shutil.get_terminal_size().columns - 1]
    print(f"\r{text.ljust(width)}" + ("" if text else "\r"), end="", flush=True)
    return len(text)


def _cause_in(log: Path) -> str:
    """What the log says last of an error, in one line without a full stop."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if silent := [line for line in lines if line.startswith("WARNING: Retrying ")]:
        reason = re.search(r"\((\w*Error|\w+Timeout\w*)", silent[-1])
        what = f" ({reason.group(1)})" if reason else ""
        return f"pip's package index didn't answer{what}: check the network and pip's settings, and try again"
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it said nothing"])[-1].rstrip(".")


def _conclude(name: str, cause: str) -> str:
    """Keep the sentence that says why the environment can't be had, and return it."""
    log = FOLDER / f"{name}.log"
    sentence = f"The environment {name} can't be made: {cause}; the log is {log}."
    (FOLDER / f"{name}.failed").write_text(sentence + "\n")
    return sentence


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
