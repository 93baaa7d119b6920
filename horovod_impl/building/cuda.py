"""NCCL and a CUDA toolkit for a build of Horovod for GPUs, from the wheels that torch's CUDA build brings."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from common.errors import UserError


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed package, without importing it, or None if it isn't installed."""
    spec = importlib.util.find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def wheel_folders() -> tuple[Path, Path] | None:
    """Return the folders of the CUDA toolkit and of NCCL, or None if the environment isn't one for GPUs.

    An environment for GPUs holds the `horovod-nccl` dependency group, which alone brings a compiler for CUDA: a CUDA
    build of torch has none. Raises UserError for a compiler without a part that it needs.
    """
    torch, nvidia = package_folder("torch"), package_folder("nvidia")
    if not torch or not nvidia:
        return None
    toolkit, nccl = next(iter(sorted(nvidia.glob("cu[0-9]*"))), nvidia), nvidia / "nccl"
    if not (toolkit / "bin" / "nvcc").exists():
        return None
    needed = ("include/cuda_runtime.h", "include/crt/host_defines.h", "include/nv/target", "nvvm/bin/cicc")
    for part in (torch / "lib" / "libtorch_cuda.so", nccl / "include" / "nccl.h", *(toolkit / name for name in needed)):
        if not part.exists():
            raise UserError(
                f"There is a CUDA compiler, but no {part}: install the `horovod-nccl` dependency group again, for "
                f"example with `nox -s horovod_nccl`, or uninstall nvidia-cuda-nvcc to build for CPUs."
            )
    return toolkit, nccl


def assemble_toolkit(folder: Path, toolkit: Path, nccl: Path) -> Mapping[str, str]:
    """Make a CUDA toolkit of links to the wheels' files in `folder`; return Horovod's settings for building with it.

    The wheels have no lib64, and their libraries lack the names without a version that linkers look for.
    """
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
