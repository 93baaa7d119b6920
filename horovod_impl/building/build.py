"""Build Horovod for torch and TensorFlow, and install it beside them.

    python horovod_impl/building/build.py

Run it with the Python of an environment that holds the `horovod` dependency group. It also needs a C++ compiler.
Horovod is published as source only, and its last release is older than today's torch and TensorFlow. This program
downloads that release and applies the patches of the folder patches. It compiles Horovod with Gloo, and with MPI if an
MPI C++ compiler is on PATH. It keeps the wheel below ~/.cache/lockstep/horovod, so that the next environment with the
same versions has it in seconds. An interrupted build goes on when this program runs again.

In an environment that holds the `horovod-nccl` dependency group torch's half is built with NCCL. TensorFlow's half
computes on CPUs: TensorFlow's wheels use CUDA 12 and torch's CUDA 13, and both install NCCL in the same place.
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
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # A script's path begins with its own folder, not the root.

from common.environments.durations import with_parts
from common.errors import UserError
from common.files import cache_folder, is_full, locked
from horovod_impl.building import cuda, patching
from horovod_impl.building.compilation import (
    ARCHIVE_SHA256,
    VERSION,
    compile_libraries,
    cpu_features,
    pack_wheel,
    prepare_source,
    timed,
)

# The packages that compile Horovod, and those that its Python files import.
BUILD_REQUIREMENTS = ("pip", "setuptools", "cmake", "ninja", "packaging", "cloudpickle", "psutil", "pyyaml", "cffi")


def installed_version(*names: str) -> str:
    """Return name and version of the first installed distribution of `names`; raise UserError if none is installed."""
    for name in names:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    raise UserError(
        f"{names[0]} is not installed for {sys.executable}: install the `horovod` dependency group, for example with "
        f"`{sys.executable} -m pip install --group horovod`."
    )


def describe_tool(candidates: Sequence[str], question: str = "--version") -> str:
    """Return path and answer of the first candidate on PATH that answers `question`, or '' if none does.

    The environment's folder is written as {environment}, since the wheel also fits another environment's same tools.
    """
    for candidate in candidates:
        program, *arguments = shlex.split(candidate)
        path = shutil.which(program)
        if path:
            answer = subprocess.run([path, *arguments, question], capture_output=True, encoding="utf-8")
            if answer.returncode == 0:
                return f"{path}\n{answer.stdout}".replace(sys.prefix, "{environment}")
    return ""


def find_compiler() -> str:
    """Return describe_tool's answer for the C++ compiler; raise UserError if there is none, or no Python.h."""
    description = describe_tool([os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"])
    if not description:
        raise UserError("A C++ compiler was not found: install one, for example with `apt-get install g++`.")
    headers = sysconfig.get_path("include")
    if not (Path(headers) / "Python.h").exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise UserError(
            f"Python.h was not found in {headers}: install Python's headers, for example with "
            f"`apt-get install python{version}-dev`."
        )
    return description


def build_ingredients() -> dict[str, str]:
    """Return everything that the wheel depends on, by name; raise UserError if a requirement is missing."""
    for name in BUILD_REQUIREMENTS:
        installed_version(name)
    setting, cuda_versions = re.compile("HOROVOD_.*|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS"), ""
    if for_gpus := cuda.wheel_folders():
        toolkit, nccl = for_gpus
        cuda_versions = describe_tool([shlex.quote(str(toolkit / "bin" / "nvcc"))])
        cuda_versions += (nccl / "include" / "nccl.h").read_text(encoding="utf-8")
    return {
        "archive": ARCHIVE_SHA256,
        "edits": json.dumps([patch.diff for patch in patching.read_patches()]),
        "additions": json.dumps(patching.addition_texts()),
        "torch": installed_version("torch"),
        "tensorflow": installed_version("tensorflow", "tensorflow-cpu"),
        "python": f"{platform.python_version()} {sysconfig.get_config_var('SOABI')}",
        "compiler": find_compiler(),
        "cmake": installed_version("cmake"),
        # A wrapper's --version is the version of its compiler; -show shows the MPI that it compiles and links for.
        "mpi": describe_tool(["mpicxx", "mpic++"], "-show"),
        "mpirun": describe_tool(["mpirun"]),
        "cuda": cuda_versions,
        "machine": f"{platform.machine()} {cpu_features()}",
        "settings": json.dumps({name: value for name, value in os.environ.items() if setting.fullmatch(name)}),
    }


def cache_key(ingredients: Mapping[str, str]) -> str:
    """Return the SHA-256 of the ingredients: a wheel is reused only where all ingredients are the same."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()


def cached_wheel(directory: Path) -> Path | None:
    """Return the wheel in `directory`, where a wheel appears only whole, or None if there is none."""
    return next(directory.glob("horovod-*.whl"), None)


def build_wheel(directory: Path, compiler: str, with_mpi: bool, seconds: dict[str, float]) -> Path:
    """Build Horovod and return the wheel, which appears in `directory` only whole; raise UserError if that fails.

    The build reuses an interrupted build's objects. Of two processes that build the same wheel, the second waits. The
    duration of each step done here is noted in `seconds`.
    """
    with locked(directory / "lock", "waiting until another process has built the same Horovod ...") as lock:
        if wheel := cached_wheel(directory):
            return wheel
        building, log = directory / "building", directory / "build.log"
        building.mkdir(exist_ok=True)
        log.write_bytes(b"")
        source = prepare_source(building, log, seconds)
        with_what = " and ".join(["Gloo", *["MPI"] * with_mpi, *["NCCL"] * bool(cuda.wheel_folders())])
        print(f"building Horovod {VERSION} with {with_what} (1 to 3 minutes on 2 cores) ...", flush=True)
        libraries = compile_libraries(building, compiler, with_mpi, log, lock, seconds)
        with timed("packing", seconds):
            wheel = pack_wheel(source, libraries, directory)
        shutil.rmtree(building)
        return wheel


def wheel_directories(key: str) -> list[Path]:
    """Return the folders for the wheel with this key: one in the user's cache, and one in the environment itself."""
    return [cache_folder() / "horovod" / key, Path(sys.prefix) / "lockstep-cache" / "horovod" / key]


def writable_directory(directories: Sequence[Path]) -> Path:
    """Return the first directory that can be made and written to; raise UserError without one."""
    reasons = []
    for directory in directories:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "lock").open("wb").close()
        except OSError as error:
            reasons.append(f"{directory}: {error.strerror}")
            continue
        if reasons:
            print(f"The cache cannot be written ({reasons[0]}), so Horovod is built in the environment.", flush=True)
        return directory
    raise UserError(
        f"There is no place to build Horovod ({'; '.join(reasons)}): set XDG_CACHE_HOME to a folder that can be "
        "written."
    )


def is_installed(wheel: Path) -> bool:
    """Return whether this environment's Horovod was installed from this wheel."""
    try:
        origin = importlib.metadata.distribution("horovod").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    recorded = json.loads(origin or "{}").get("archive_info", {}).get("hashes", {}).get("sha256")
    return recorded == hashlib.sha256(wheel.read_bytes()).hexdigest()


def run_pip(*arguments: str) -> str:
    """Run pip. Return '' if it succeeded, else its last line of output."""
    command = [sys.executable, "-m", "pip", *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    return (run.stdout.strip().splitlines() or ["no message"])[-1] if run.returncode else ""


def install(wheel: Path, with_mpi: bool, seconds: dict[str, float]) -> None:
    """Install `wheel` and load it with both frameworks; raise UserError, with Horovod uninstalled, if it fails.

    The duration of either step is noted in `seconds`.
    """
    print(f"installing {wheel.name} ...", flush=True)
    with timed("installing", seconds):
        if reason := run_pip("install", "--no-deps", "--no-index", "--force-reinstall", str(wheel)):
            raise UserError(f"pip could not install {wheel} ({reason}): remove it, and run this again.")
    with timed("loading", seconds):
        for framework in ("torch", "tensorflow"):
            with_nccl = framework == "torch" and cuda.wheel_folders() is not None
            check = (
                f"import horovod.{framework} as hvd; built = bool(hvd.gloo_built()), bool(hvd.mpi_built()), "
                f"bool(hvd.nccl_built()); assert built == (True, {with_mpi}, {with_nccl}), built"
            )
            trial = subprocess.run([sys.executable, "-c", check], capture_output=True, encoding="utf-8")
            if trial.returncode:
                run_pip("uninstall", "--yes", "horovod")
                reason = (trial.stderr.strip().splitlines() or ["no message"])[-1]
                raise UserError(
                    f"Horovod does not load with {framework} and was uninstalled: remove {wheel.parent} and run this "
                    f"again to build it anew; the reason was: {reason}"
                )


def build_and_install() -> dict[str, float]:
    """Build and install Horovod unless that is done already. Return the seconds of each step done here.

    Raise UserError if it fails.
    """
    seconds: dict[str, float] = {}
    ingredients = build_ingredients()
    with_mpi = bool(ingredients["mpi"])
    directories = wheel_directories(cache_key(ingredients))
    wheel = next(filter(None, map(cached_wheel, directories)), None)
    if not wheel:
        # The first line of a tool's description is its path.
        compiler = ingredients["compiler"].splitlines()[0].replace("{environment}", sys.prefix)
        wheel = build_wheel(writable_directory(directories), compiler, with_mpi, seconds)
    if not is_installed(wheel):
        install(wheel, with_mpi, seconds)
    return seconds


def main() -> int:
    """Run build_and_install as a command; return the exit status."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    # The environment's own compilers for MPI are used even where the environment isn't activated.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Otherwise the compilers would outlive this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        seconds = build_and_install()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        remedy = ": free 100 MB, or set XDG_CACHE_HOME to a folder on another disk." * is_full(error)
        print(f"{error}{remedy}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted: run this again, and it goes on from what is compiled.", file=sys.stderr)
        return 130
    with_nccl = ", with NCCL for torch" * bool(cuda.wheel_folders())
    spent = f", in {with_parts(seconds)}" if seconds else ""
    print(f"Horovod {VERSION} is installed for torch and TensorFlow{with_nccl}{spent}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
