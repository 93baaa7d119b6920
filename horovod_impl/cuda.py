"""What a build of Horovod for GPUs takes: NCCL and a CUDA toolkit, from the wheels that torch's CUDA build brings."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from horovod_impl.errors import BuildError

REMEDY = "install the `horovod-nccl` dependency group, or set HOROVOD_GPU_OPERATIONS to nothing to build without GPUs"


def for_gpus(environment: Mapping[str, str]) -> bool:
    """Tell whether to build for GPUs: HOROVOD_GPU_OPERATIONS decides if it is set, else whether there are any.

    Raise BuildError if it asks for something other than NCCL.
    """
    operations = environment.get("HOROVOD_GPU_OPERATIONS")
    if operations not in (None, "", "NCCL"):
        raise BuildError(
            f"HOROVOD_GPU_OPERATIONS is {operations!r}, and only NCCL is built: set it to NCCL or nothing."
        )
    if operations is None:
        return bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia").exists()
    return operations == "NCCL"


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed package, without importing it, or None if it isn't there."""
    found = importlib.util.find_spec(name)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


def wheel_folders() -> tuple[Path, Path]:
    """Return the folders of the CUDA toolkit and of NCCL; raise BuildError if the environment lacks a part of them."""
    torch, nvidia = package_folder("torch"), package_folder("nvidia")
    if not torch or not (torch / "lib" / "libtorch_cuda.so").exists():
        raise BuildError(f"Horovod is to be built for GPUs, and this torch was built without CUDA: {REMEDY}.")
    toolkit = next(iter(sorted(nvidia.glob("cu[0-9]*"))), None) if nvidia else None
    needed = ("bin/nvcc", "include/cuda_runtime.h", "include/crt/host_defines.h", "nvvm/bin/cicc")
    if not toolkit or not all((toolkit / part).exists() for part in needed):
        raise BuildError(f"Horovod is to be built for GPUs, and the environment has no CUDA compiler: {REMEDY}.")
    if not (nvidia / "nccl" / "include" / "nccl.h").exists():
        raise BuildError(f"Horovod is to be built for GPUs, and the environment has no NCCL: {REMEDY}.")
    return toolkit, nvidia / "nccl"


def library_folders() -> list[str]:
    """Return where the wheels' libraries are, as seen from Horovod's own, wherever the environment is."""
    toolkit, _ = wheel_folders()
    return ["$ORIGIN/../../nvidia/nccl/lib", f"$ORIGIN/../../nvidia/{toolkit.name}/lib"]


def assemble_toolkit(folder: Path) -> Mapping[str, str]:
    """Make a CUDA toolkit of links to the wheels' files in `folder`; return Horovod's settings for building with it.

    The wheels have no lib64, and their libraries lack the names without a version that linkers look for.
    """
    toolkit, nccl = wheel_folders()
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("bin", "lib64"):
        (folder / part).mkdir(parents=True)
    for part in ("include", "nvvm", *(f"bin/{tool.name}" for tool in toolkit.glob("bin/*"))):
        (folder / part).symlink_to(toolkit / part)
    (folder / "nccl").symlink_to(nccl / "include")
    for library in (*toolkit.glob("lib/lib*"), *nccl.glob("lib/lib*")):
        name = library.name.partition(".so")[0] + ".so" if ".so" in library.name else library.name
        for link in {library.name, name}:
            if not (folder / "lib64" / link).exists():
                (folder / "lib64" / link).symlink_to(library)
    return {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": str(folder),
        "HOROVOD_NCCL_INCLUDE": str(folder / "nccl"),
        "HOROVOD_NCCL_LIB": str(folder / "lib64"),
        "HOROVOD_NCCL_LINK": "SHARED",
        "CUDA_HOME": str(folder),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
