"""Compile Horovod in a folder that outlives an interruption, show progress, and pack the wheel."""

import base64
import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from common.environments.durations import in_words
from common.errors import UserError
from horovod_impl.building import cuda, patching

VERSION = "0.28.1"
ARCHIVE_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
FIRST_ERROR = re.compile(
    r"^.*\berror: .*$|^CMake Error.*\n(?:\s*\n)?.*$|^ninja: error.*$|^.*: not found$", re.MULTILINE
)


@contextlib.contextmanager
def timed(step: str, seconds: dict[str, float]) -> Iterator[None]:
    """Print the duration of a step of the build at its end, and note it in `seconds`, by the step.

    The duration of a failed or interrupted step is neither printed nor noted.
    """
    started = time.monotonic()
    yield
    seconds[step] = time.monotonic() - started
    print(f"{step} took {in_words(seconds[step])}", flush=True)


def cpu_features() -> str:
    """Return this machine's CPU features, among those for which Horovod compiles."""
    cpu_information = Path("/proc/cpuinfo")
    words = set(cpu_information.read_text(encoding="utf-8").split()) if cpu_information.exists() else set()
    return " ".join(sorted(words & {"avx", "f16c", "fma"}))


def raise_for_full_disk(text: str, log: Path) -> None:
    """Raise OSError where the text that a tool printed says that the disk, which has the log too, is full."""
    if os.strerror(errno.ENOSPC) in text:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(log.parent))


def download_source(scratch: Path, log: Path) -> Path:
    """Download, check and unpack Horovod below `scratch` and return its root; raise UserError if that fails."""
    # `pip download` runs the archive's setup.py. With a hash it checks the archive before that.
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"horovod=={VERSION} --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    command += ["--requirement", str(requirements), "--dest", str(scratch)]
    with log.open("ab") as output:
        download = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT)
    if download.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        if "DO NOT MATCH THE HASHES" in text:
            raise UserError(
                f"The archive of Horovod {VERSION} that pip found does not have the expected SHA-256 and was not used: "
                f"check which package index pip is set to use; the log is {log}."
            )
        raise_for_full_disk(text, log)
        raise UserError(
            f"pip could not download Horovod {VERSION}: check the network connection and pip's settings, and run this "
            f"again; the log is {log}."
        )
    shutil.unpack_archive(scratch / f"horovod-{VERSION}.tar.gz", scratch)
    return scratch / f"horovod-{VERSION}"


def prepare_source(building: Path, log: Path, seconds: dict[str, float]) -> Path:
    """Return Horovod's edited source below `building`, where it appears only whole; raise UserError if it can't.

    The durations are noted in `seconds`, unless the source is there already.
    """
    source = building / "source"
    if not source.exists():
        with tempfile.TemporaryDirectory(prefix="preparing-", dir=building) as scratch:
            print(f"downloading Horovod {VERSION} ...", flush=True)
            with timed("downloading", seconds):
                prepared = download_source(Path(scratch), log)
            with timed("editing", seconds):
                patching.edit(prepared)
            prepared.rename(source)
    return source


def show_progress(line: str, percentage: int) -> int:
    """Print the percentage in Ninja's `line` when it has passed a tenth since `percentage`. Return the last printed.

    On a terminal each step rewrites one line instead.
    """
    counts = re.match(r"\[(\d+)/(\d+)\] ", line)
    if not counts:
        return percentage
    done, steps = map(int, counts.groups())
    if sys.stdout.isatty():
        print(f"\rcompiling: {done} of {steps} steps", end="\n" if done == steps else "", flush=True)
    elif done * 10 // steps > percentage // 10:
        print(f"compiling: {done * 100 // steps} % ({done} of {steps} steps)", flush=True)
        return done * 100 // steps
    return percentage


def run_tool(command: Sequence[str], settings: Mapping[str, str], log: Path, lock: int) -> None:
    """Run a step of the build under the lock, its output in `log`; raise UserError with the first error if it fails.

    An interruption first ends the step, and is then raised again.
    """
    percentage, lines = 0, []
    with (
        log.open("a", encoding="utf-8", errors="replace") as output,
        subprocess.Popen(
            command,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=[lock],
        ) as tool,
    ):
        try:
            for line in tool.stdout:
                output.write(line)
                lines.append(line)
                percentage = show_progress(line, percentage)
        except BaseException:
            tool.terminate()
            raise
    if tool.returncode:
        text = "".join(lines)
        raise_for_full_disk(text, log)
        error = FIRST_ERROR.search(text)
        first_error = " ".join(error.group().split()) if error else "not recognised"
        raise UserError(f"Horovod did not compile: see the log, {log}, where the first error is: {first_error}")


def scripts(prefix: Path) -> Path:
    """Return the folder of the environment's programs below `prefix`, the environment's folder or a link to it."""
    return prefix / Path(sysconfig.get_path("scripts")).relative_to(sys.prefix)


def configure_command(source: Path, objects: Path, environment: Path, compiler: str, with_mpi: bool) -> list[str]:
    """Return the command that configures the build of `source` in `objects`, for the environment linked there."""
    folders = ["$ORIGIN/../../torch/lib", "$ORIGIN/../../tensorflow", "$ORIGIN/../../../.."]
    if for_gpus := cuda.wheel_folders():
        folders += ["$ORIGIN/../../nvidia/nccl/lib", f"$ORIGIN/../../nvidia/{for_gpus[0].name}/lib"]
    environment_mpi = with_mpi and (environment / "include" / "mpi.h").exists()
    command = [
        str(scripts(environment) / "cmake"),
        *("-G", "Ninja", "-S", str(source), "-B", str(objects)),
        f"-DCMAKE_MAKE_PROGRAM={scripts(environment) / 'ninja'}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY_RELEASE={objects / 'libraries'}",
        f"-DCMAKE_MODULE_PATH={source / 'cmake' / 'lockstep'}",
        f"-DPYTHON_EXECUTABLE={scripts(environment) / Path(sys.executable).name}",
        # Gloo's CMakeLists.txt asks for CMake 2.8, which CMake 4 no longer imitates.
        "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
        # A build that goes on in another environment keeps its configuration.
        "-DCMAKE_SUPPRESS_REGENERATION=ON",
        "-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared",
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
        f"-DCMAKE_INSTALL_RPATH={';'.join(folders)}",
        # An MPI outside the environment may be anywhere. The environment's own MPI is found by $ORIGIN.
        f"-DCMAKE_INSTALL_RPATH_USE_LINK_PATH={'ON' if with_mpi and not environment_mpi else 'OFF'}",
        f"-DENVIRONMENT_MPI={environment if environment_mpi else ''}",
    ]
    return command if os.environ.get("CXX") else [*command, f"-DCMAKE_CXX_COMPILER={compiler}"]


def compile_libraries(
    building: Path, compiler: str, with_mpi: bool, log: Path, lock: int, seconds: dict[str, float]
) -> Path:
    """Compile the source in `building`, reusing existing objects, and return the libraries' folder.

    The durations of the steps done here are noted in `seconds`. Raise UserError if it fails.
    """
    source, objects, environment = building / "source", building / "objects", building / "environment"
    # Compilers see the environment through a link, so that their objects fit another environment as well.
    environment.unlink(missing_ok=True)
    environment.symlink_to(sys.prefix)
    settings = {
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITHOUT_NVTX": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_MPI" if with_mpi else "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_BUILD_ARCH_FLAGS": " ".join(f"-m{feature}" for feature in cpu_features().split()),
        "HOROVOD_GPU_OPERATIONS": "",
        "NINJA_STATUS": "[%f/%t] ",
    }
    if for_gpus := cuda.wheel_folders():
        settings |= cuda.assemble_toolkit(building / "cuda", *for_gpus)
    if not (objects / "build.ninja").exists():
        print("configuring ...", flush=True)
        with timed("configuring", seconds):
            run_tool(configure_command(source, objects, environment, compiler, with_mpi), settings, log, lock)
    jobs = len(os.sched_getaffinity(0))
    try:
        with timed("compiling", seconds):
            run_tool([str(scripts(environment) / "ninja"), "-C", str(objects), f"-j{jobs}"], settings, log, lock)
    except UserError:
        # A missing part may exist next time, which the configuration must notice. Compiled objects stay.
        (objects / "CMakeCache.txt").unlink(missing_ok=True)
        (objects / "build.ninja").unlink(missing_ok=True)
        raise
    return objects / "libraries"


def pack_wheel(source: Path, libraries: Path, directory: Path) -> Path:
    """Pack Horovod's Python files in `source` and its `libraries`; return the wheel, which appears only whole."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{tag}-{tag}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    information = f"horovod-{VERSION}.dist-info"
    dependencies = (
        (source / "horovod.egg-info" / "requires.txt").read_text(encoding="utf-8").partition("\n\n")[0].split()
    )
    header = (source / "PKG-INFO").read_text(encoding="utf-8").partition("\nDescription:")[0]
    files = {str(file.relative_to(source)): file.read_bytes() for file in sorted((source / "horovod").rglob("*.py"))}
    files |= {
        str(file.relative_to(libraries)): file.read_bytes() for file in sorted(libraries.rglob("*")) if file.is_file()
    }
    metadata = [header, *(f"Requires-Dist: {name}" for name in dependencies), ""]
    files |= {
        f"{information}/METADATA": "\n".join(metadata).encode(),
        f"{information}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{information}/entry_points.txt": (source / "horovod.egg-info" / "entry_points.txt").read_bytes(),
        f"{information}/licenses/LICENSE": (source / "LICENSE").read_bytes(),
    }
    record = ""
    part = directory / "wheel.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
            archive.writestr(name, content)
        archive.writestr(f"{information}/RECORD", f"{record}{information}/RECORD,,\n")
    return part.replace(directory / f"horovod-{VERSION}-{tag}.whl")
