"""Build Horovod for torch and TensorFlow, and install it beside them.

    python horovod_impl/build.py

Run it with the Python of an environment that holds the `horovod` dependency group. Horovod is published as source
only, and its last release is older than today's torch and TensorFlow: this downloads that release, makes the few
edits listed in edits.py, compiles it with Gloo (and with MPI, if an MPI C++ compiler is on PATH), and keeps the wheel
below ~/.cache/lockstep/horovod, so that the next environment with the same versions has it in seconds.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from horovod_impl.edits import ADDITIONS, EDITS, Edit

VERSION = "0.28.1"
ARCHIVE_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"

# Horovod's own setup.py fetches what is missing of these over the network, in versions of its choice.
BUILD_REQUIREMENTS = ("pip", "setuptools", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml", "cffi")


class BuildError(Exception):
    """Something that the user can put right; the message is one sentence with cause and remedy."""


def addition_texts() -> dict[str, str]:
    """Return the text of each file that is added to Horovod's source, by the path that it gets there."""
    return {path: Path(__file__).with_name(name).read_text() for name, path in ADDITIONS.items()}


def apply_edits(source: Path, edits: Sequence[Edit]) -> None:
    """Make `edits` in the tree at `source`; raise BuildError at the first that doesn't apply exactly once."""
    for edit in edits:
        file = source / edit.path
        text = file.read_text() if file.exists() else ""
        occurrences = text.count(edit.old)
        if occurrences != 1:
            raise BuildError(
                f"The edit of Horovod's {edit.path} that replaces {edit.old.strip()!r} ({edit.why}) no longer applies, "
                f"since the text occurs {occurrences} times instead of once: bring horovod_impl/edits.py up to date."
            )
        file.write_text(text.replace(edit.old, edit.new))


def add_files(source: Path) -> None:
    """Write the files that addition_texts lists into the tree at `source`."""
    for path, text in addition_texts().items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)


def installed_version(*names: str) -> str:
    """Return name and version of the first of these distributions that is installed; raise BuildError if none is."""
    for name in names:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    raise BuildError(
        f"{names[0]} is not installed for {sys.executable}: install the `horovod` dependency group, for example with "
        f"`{sys.executable} -m pip install --group horovod`."
    )


def describe_tool(candidates: Sequence[str], question: str = "--version") -> str:
    """Return path and answer of the first candidate on PATH that answers `question`, or '' if none does.

    The environment's own folder is written as {environment}: the wheel is as good for the same tools in another one.
    """
    for candidate in candidates:
        program, *arguments = shlex.split(candidate)
        path = shutil.which(program)
        if path:
            answer = subprocess.run([path, *arguments, question], capture_output=True, text=True)
            if answer.returncode == 0:
                return f"{path}\n{answer.stdout}".replace(sys.prefix, "{environment}")
    return ""


def required_tool(what: str, package: str, candidates: Sequence[str]) -> str:
    """Return describe_tool's answer; raise BuildError, naming the Debian `package` to install, if there is none."""
    description = describe_tool(candidates)
    if not description:
        raise BuildError(f"{what} was not found: install it, for example with `apt-get install {package}`.")
    return description


def cpu_features() -> str:
    """Return those of the CPU features for which Horovod compiles that this machine has."""
    cpu_information = Path("/proc/cpuinfo")
    words = set(cpu_information.read_text().split()) if cpu_information.exists() else set()
    return " ".join(sorted(words & {"avx", "f16c", "fma"}))


def build_ingredients() -> dict[str, str]:
    """Return everything that the wheel depends on, by name; raise BuildError if something needed is missing."""
    for name in BUILD_REQUIREMENTS:
        installed_version(name)
    compilers = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    setting = re.compile("HOROVOD_.*|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CUDA_HOME|CUDA_PATH")
    return {
        "archive": ARCHIVE_SHA256,
        "edits": json.dumps([(edit.path, edit.old, edit.new) for edit in EDITS]),
        "additions": json.dumps(addition_texts()),
        "torch": installed_version("torch"),
        "tensorflow": installed_version("tensorflow", "tensorflow-cpu"),
        "python": f"{platform.python_version()} {sysconfig.get_config_var('SOABI')}",
        "compiler": required_tool("A C++ compiler", "g++", compilers),
        "cmake": required_tool("CMake", "cmake", ["cmake"]),
        "make": required_tool("Make", "make", ["make"]),
        # A wrapper's --version is that of the compiler behind it; -show tells which MPI it compiles and links for.
        "mpi": describe_tool(["mpicxx", "mpic++"], "-show"),
        "mpirun": describe_tool(["mpirun"]),
        "cuda": describe_tool(["nvcc", "/usr/local/cuda/bin/nvcc"]),
        "machine": f"{platform.machine()} {cpu_features()}",
        "settings": json.dumps({name: value for name, value in os.environ.items() if setting.fullmatch(name)}),
    }


def cache_key(ingredients: Mapping[str, str]) -> str:
    """Return the SHA-256 of the ingredients: a wheel is used again only where all of them are the same."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()


def cached_wheel(directory: Path) -> Path | None:
    """Return the wheel in `directory`, or None if there is none or it is damaged."""
    for wheel in directory.glob("horovod-*.whl"):
        try:
            with zipfile.ZipFile(wheel) as archive:
                if archive.testzip() is None:
                    return wheel
        except (zipfile.BadZipFile, zlib.error, EOFError):
            continue
    return None


def run_pip(arguments: Sequence[str], log: Path, settings: Mapping[str, str] | None = None) -> bool:
    """Run pip with `settings` added to the environment, append its output to `log`, return whether it succeeded."""
    command = [sys.executable, "-m", "pip", *arguments]
    with log.open("ab") as output:
        run = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | (settings or {}))
    return run.returncode == 0


def download_source(scratch: Path, log: Path) -> Path:
    """Download, check and unpack Horovod below `scratch` and return its root; raise BuildError if that fails."""
    # `pip download` runs the archive's setup.py; told the hash, it checks the archive before that.
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"horovod=={VERSION} --hash=sha256:{ARCHIVE_SHA256}\n")
    arguments = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    if not run_pip([*arguments, "--requirement", str(requirements), "--dest", str(scratch)], log):
        if "DO NOT MATCH THE HASHES" in log.read_text(errors="replace"):
            raise BuildError(
                f"The archive of Horovod {VERSION} that pip found does not have the expected SHA-256 and was not used: "
                f"check which package index pip is set to use; the log is {log}."
            )
        raise BuildError(
            f"pip could not download Horovod {VERSION}: check the network connection and pip's settings, and run this "
            f"again; the log is {log}."
        )
    with tarfile.open(scratch / f"horovod-{VERSION}.tar.gz") as archive:
        archive.extractall(scratch, filter="data")
    return scratch / f"horovod-{VERSION}"


def compile_wheel(source: Path, with_mpi: bool, log: Path) -> Path:
    """Compile the tree at `source` and return the wheel; raise BuildError with the first error if that fails."""
    settings = {
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_MPI" if with_mpi else "HOROVOD_WITHOUT_MPI": "1",
        # Unset, Horovod's setup.py starts eight compilers at a time, whatever the cores and the memory.
        "MAKEFLAGS": f"-j{os.cpu_count()}",
        # Gloo's CMakeLists.txt asks for CMake 2.8, which CMake 4 no longer imitates.
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    }
    arguments = ["wheel", "--verbose", "--no-build-isolation", "--no-deps", "--no-index"]
    if not run_pip([*arguments, "--wheel-dir", str(source.parent), str(source)], log, settings):
        error = re.search(r"^.*(?:\berror: |CMake Error).*$", log.read_text(errors="replace"), re.MULTILINE)
        first_error = error.group().strip() if error else "not recognised"
        raise BuildError(f"Horovod did not compile: see the log, {log}, where the first error is: {first_error}")
    return next(source.parent.glob("horovod-*.whl"))


def build_wheel(directory: Path, with_mpi: bool) -> Path:
    """Build Horovod and return the wheel, which appears in `directory` only whole; raise BuildError if that fails."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "build.log"
    log.write_bytes(b"")
    with tempfile.TemporaryDirectory(prefix="building-", dir=directory) as scratch:
        print(f"downloading Horovod {VERSION} ...", flush=True)
        source = download_source(Path(scratch), log)
        apply_edits(source, EDITS)
        add_files(source)
        with_what = "Gloo and MPI" if with_mpi else "Gloo"
        print(f"building Horovod {VERSION} with {with_what} (about 3 minutes on 2 cores) ...", flush=True)
        wheel = compile_wheel(source, with_mpi, log)
        return wheel.replace(directory / wheel.name)


def is_installed(wheel: Path) -> bool:
    """Tell whether the Horovod of this environment was installed from this very wheel."""
    try:
        origin = importlib.metadata.distribution("horovod").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    recorded = json.loads(origin or "{}").get("archive_info", {}).get("hashes", {}).get("sha256")
    return recorded == hashlib.sha256(wheel.read_bytes()).hexdigest()


def install(wheel: Path, with_mpi: bool) -> None:
    """Install `wheel` and try it with both frameworks; raise BuildError, with Horovod uninstalled, if it fails."""
    log = wheel.with_name("install.log")
    log.write_bytes(b"")
    print(f"installing {wheel.name} ...", flush=True)
    if not run_pip(["install", "--no-deps", "--no-index", "--force-reinstall", str(wheel)], log):
        raise BuildError(f"pip could not install {wheel}: see its log, {log}.")
    for framework in ("torch", "tensorflow"):
        check = f"import horovod.{framework} as hvd; assert hvd.gloo_built() and hvd.mpi_built() == {with_mpi}"
        trial = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
        if trial.returncode:
            run_pip(["uninstall", "--yes", "horovod"], log)
            reason = (trial.stderr.strip().splitlines() or ["no message"])[-1]
            raise BuildError(
                f"Horovod does not load with {framework} and was uninstalled: remove {wheel.parent} and run this again "
                f"to build it anew; the reason was: {reason}"
            )


def main() -> int:
    """Build and install Horovod where that is not done yet; return the exit status."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    # The environment may have compilers for MPI of its own, which are found where it isn't activated as well.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        ingredients = build_ingredients()
        with_mpi = bool(ingredients["mpi"])
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = cache / "lockstep" / "horovod" / cache_key(ingredients)
        wheel = cached_wheel(directory) or build_wheel(directory, with_mpi)
        if not is_installed(wheel):
            install(wheel, with_mpi)
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Horovod {VERSION} is installed for torch and TensorFlow.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
