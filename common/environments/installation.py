"""Make environments: say what will be downloaded, install it, and keep one's trouble from the others.

The noxfile imports this under the user's Python: it takes the standard library, and virtualenv, which Nox needs itself.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from common.environments import inventory
from common.environments.durations import with_parts
from common.environments.inventory import Environment
from common.errors import UserError
from common.files import ensure_writable, locked

PYTHON_VERSIONS = ("3.13", "3.12", "3.11")
"""The versions that the pinned packages were tried with, in the order in which they are looked for."""

LARGE_BYTES = 20e6
"""Packages from this size on have a row of their own in the table of downloads."""

_VERSION = "import platform; print(platform.python_version())"


@dataclass(frozen=True)
class Download:
    """A package that pip would fetch."""

    name: str
    version: str
    size_bytes: int | None
    """None where the index doesn't tell."""


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


def make(wanted: Sequence[Environment], pip_options: Sequence[str] = (), advice: str = "") -> dict[str, str]:
    """Make those of the environments that aren't finished; return the sentence of each that can't be, by name.

    Before anything is fetched, one table says what will be; `advice` follows it where NVIDIA's libraries are among it
    and the machine has no NVIDIA GPU. A line tells the time and the size of each when it is made, and a last one the
    sums. With `pip_options` the environments are made anew with these options of pip's.
    Raises UserError when no environment at all can be begun: without a Python, or in a folder that can't be written.
    """
    python, version = find_python()
    if not pip_options and all(each.is_made(version) for each in wanted):
        return {}
    lock_file = inventory.FOLDER / "making.lock"
    ensure_writable(lock_file)
    with locked(lock_file, "Another process is making the environments of this checkout; waiting for it ...") as lock:
        began = time.monotonic()
        unfinished = [each for each in wanted if pip_options or not each.is_made(version)]
        # A change of the script alone needs no packages, and so no network.
        lacking = [each for each in unfinished if pip_options or not each.has_packages(version)]
        for environment in unfinished:
            environment.failed.unlink(missing_ok=True)
            environment.log.write_bytes(b"")
        for environment in lacking:
            _unpack_python(environment, python, version, anew=bool(pip_options))
        found, causes = _resolve_all(lacking, pip_options) if lacking else ({}, {})
        if found:
            _print_downloads(list(found.values()), version, advice)
        spent, made = Counter({"preparing": time.monotonic() - began}), []
        for environment in unfinished:
            seconds, cause = {}, causes.get(environment.name)
            if not cause and environment in lacking:
                cause = _install_packages(environment, found, pip_options, lock, seconds)
            cause = cause or _run_script(environment, lock, seconds)
            spent.update(seconds)
            if cause:
                causes[environment.name] = cause
            else:
                environment.made.write_text(json.dumps(environment.ingredients(version), indent=1))
                made.append(_size_on_disk_bytes(environment))
                print(f"{environment.name}: made in {_account(seconds, made[-1])}", flush=True)
        if unfinished:
            print(f"Making environments took {_account(spent, sum(made))}", flush=True)
        return {each.name: _conclude(each, causes[each.name]) for each in unfinished if each.name in causes}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _output_of(*command: str) -> str:
    """What the command prints; nothing when it fails or doesn't exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _unpack_python(environment: Environment, python: str, version: str, anew: bool) -> None:
    """Give the environment its own Python and pip; keep what an interrupted try has left, unless it can't serve.

    Raises UserError when that can't be done.
    """
    environment.made.unlink(missing_ok=True)
    has_pip = _output_of(str(environment.python), "-m", "pip", "--version")
    if not anew and has_pip and _output_of(str(environment.python), "-c", _VERSION) == version:
        return
    folder = inventory.FOLDER / environment.name
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "virtualenv", "--quiet", "--python", python, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        reason = ((run.stderr + run.stdout).strip().splitlines() or ["no message"])[-1]
        raise UserError(f"virtualenv can't make {folder} with {python}: {reason}.")


def _resolve_all(lacking: Sequence[Environment], options: Sequence[str]) -> tuple[dict[str, Download], dict[str, str]]:
    """What pip would fetch, by name, for all environments together, so that all get the same versions.

    Where together they can't be had, each is asked for alone; the causes of those that can't be had are returned as
    well, by environment.
    """
    print(f"Asking pip what the environments need ({', '.join(each.name for each in lacking)}) ...", flush=True)
    everything = sorted({requirement for each in lacking for requirement in each.requirements})
    found, cause = _resolve(lacking[0], everything, options)
    if not cause:
        return found, {}
    causes = {}
    for environment in lacking:
        its_own, cause = _resolve(environment, environment.requirements, options)
        found |= its_own
        if cause:
            causes[environment.name] = cause
    return found, causes


def _resolve(
    environment: Environment, requirements: Sequence[str], options: Sequence[str]
) -> tuple[dict[str, Download], str | None]:
    """What pip would fetch for the requirements, by name; or nothing, and the cause, when pip finds no solution."""
    report = inventory.FOLDER / f"{environment.name}.downloads.json"
    # pip reads the metadata alone: no package is fetched yet.
    command = [*_pip(environment), "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
    with environment.log.open("wb") as output:
        run = subprocess.run([*command, *options, *requirements], stdout=output, stderr=subprocess.STDOUT)
    if run.returncode:
        return {}, _cause_of_pip(environment.log)
    packages = json.loads(report.read_text())["install"]
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(_size_bytes, [package["download_info"]["url"] for package in packages]))
    facts = [package["metadata"] for package in packages]
    found = [Download(each["name"], each["version"], size) for each, size in zip(facts, sizes, strict=True)]
    return {each.name: each for each in found}, None


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
    except (OSError, TypeError, ValueError):
        return None


def _print_downloads(found: Sequence[Download], version: str, advice: str) -> None:
    """The one table of what will be fetched."""
    large = sorted((each for each in found if (each.size_bytes or 0) >= LARGE_BYTES), key=lambda each: -each.size_bytes)
    small = [each for each in found if each not in large]
    unknown = sum(each.size_bytes is None for each in small)
    rows = [(_bytes_of([each]), f"{each.name} {each.version}") for each in large]
    rows += [(_bytes_of(small), f"{len(small)} smaller packages" + f" ({unknown} of unknown size)" * bool(unknown))]
    rows += [(_bytes_of(found), "in all")]
    print(f"\nTo be downloaded for Python {version}, unless pip has it in its cache:\n")
    for size_bytes, what in rows:
        print(f"{size_bytes / 1e6:>9,.0f} MB  {what}")
    for_gpus = _bytes_of([each for each in large if each.name.startswith(("nvidia-", "triton"))])
    if for_gpus and not shutil.which("nvidia-smi"):
        print(f"\n{for_gpus / 1e9:.1f} GB of these serve NVIDIA GPUs, which this machine doesn't show. {advice}")
    print(flush=True)


def _bytes_of(packages: Sequence[Download]) -> int:
    return sum(each.size_bytes or 0 for each in packages)


def _account(seconds: Mapping[str, float], size_bytes: int) -> str:
    """What the time was spent on, and the size of what came of it."""
    return f"{with_parts(seconds)}; {size_bytes / 1e9:.1f} GB on disk"


def _size_on_disk_bytes(environment: Environment) -> int:
    """How large the environment's files are together."""
    walk = os.walk(inventory.FOLDER / environment.name)
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in walk for name in names)


def _install_packages(
    environment: Environment, found: dict[str, Download], options: Sequence[str], lock: int, seconds: dict[str, float]
) -> str | None:
    """Install what the environment needs, in the versions that were found; return the cause where it fails.

    What this takes is noted in `seconds`.
    """
    versions = inventory.FOLDER / f"{environment.name}.versions.txt"
    versions.write_text("".join(f"{each.name}=={each.version}\n" for each in found.values()))
    pip = [*_pip(environment), "--progress-bar", "raw", "--constraint", str(versions), *options]
    news = partial(_timed_news_of_pip, seconds=seconds)
    status = _run([*pip, *environment.requirements], environment, news, lock)
    return _cause_of_pip(environment.log) if status else None


def _run_script(environment: Environment, lock: int, seconds: dict[str, float]) -> str | None:
    """Run the environment's script, if it has one; return the cause, which it says last, where that fails.

    What this takes is noted in `seconds`.
    """
    if not environment.script:
        return None
    started = time.monotonic()
    status = _run([str(environment.python), str(environment.script)], environment, iter, lock)
    seconds["building"] = time.monotonic() - started
    last = _lines_of(environment.log)[-1]
    if status:
        return last.rstrip(".")
    if sys.stdout.isatty():
        # The line tells what the script's steps took, and was printed over.
        print(f"{environment.name}: {last}", flush=True)
    return None


def _run(
    command: Sequence[str], environment: Environment, news: Callable[[Iterable[str]], Iterator[str]], lock: int
) -> int:
    """Run the command with its output in the log and the news of it on the terminal; return its exit status."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    run = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[lock], **streams)

    def kept_lines() -> Iterator[str]:
        with environment.log.open("a") as output:
            for line in run.stdout:
                if not line.startswith("Progress "):
                    output.write(line)
                yield line.rstrip()

    try:
        width = 0
        for text in news(kept_lines()):
            width = _show(f"{environment.name}: {text}", width)
        _show("", width)
        return run.wait()
    finally:
        run.terminate()
        run.wait()


def _timed_news_of_pip(lines: Iterable[str], seconds: dict[str, float]) -> Iterator[str]:
    """The same as _news_of_pip; what finding and downloading packages takes, then installing, is noted in `seconds`."""
    part, started = "downloading", time.monotonic()
    for text in _news_of_pip(lines):
        if text.startswith("installing "):
            seconds[part] = time.monotonic() - started
            part, started = "installing", time.monotonic()
        yield text
    seconds[part] = time.monotonic() - started


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


def _cause_of_pip(log: Path) -> str:
    """The last error in pip's log, in one line without a full stop."""
    lines = _lines_of(log)
    error = next((line for line in reversed(lines) if line.startswith("ERROR: ")), lines[-1]).removeprefix("ERROR: ")
    # pip that reaches no index says that there is no such package.
    if error.startswith("No matching distribution") and any(line.startswith("WARNING: Retrying ") for line in lines):
        return "pip's package index didn't answer: check the network and pip's settings, and try again"
    return error.rstrip(".")


def _lines_of(log: Path) -> list[str]:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return [line for line in lines if line] or ["it said nothing"]


def _conclude(environment: Environment, cause: str) -> str:
    """Keep the sentence that says why the environment can't be had, and return it."""
    sentence = f"The environment {environment.name} can't be made: {cause}; the log is {environment.log}."
    environment.failed.write_text(sentence + "\n")
    return sentence
