"""The ceiling of PyTorch's strategies: the matrix products of a step, and an all-reduce of its gradients, alone.

To start it: `torchrun --nproc-per-node 2 pytorch_impl/ceiling.py --preset pathway`.
"""

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import torch.distributed as dist
from msgspec.structs import asdict

from common.contract import mlp as contract
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement import ceiling
from common.measurement.world import World
from common.records.ceiling import AS_TRAINED, ClockedProduct, Product, Window
from pytorch_impl import mlp, world
from pytorch_impl.strategies import DDP


def main() -> None:
    """Join the world that torchrun started, clock the products in its first worker, then an exchange among all."""
    task, options = parse_command_line(DDP, __doc__)
    workers, device = world.join(DDP, task, options)
    products = _clock_products(task, workers, device) if workers.rank == 0 else []
    # The others have waited for the first one here.
    workers.all_gather(None)
    exchange = _clock_exchange(task, workers, device) if workers.size > 1 else []
    if workers.rank == 0:
        ceiling.finish(DDP, task, workers, products, exchange, _facts())
    world.leave()


@torch.inference_mode()
def _clock_products(task: Task, workers: World, device: torch.device) -> list[ClockedProduct]:
    alone = World(placement=workers.placement, synchronize=partial(mlp.synchronize, device))
    clocked = []
    for product in ceiling.products_of_step(task, ceiling.rows_per_worker(task, workers.size)):
        for way, compute in _ways(product, device).items():
            clocked.append(ClockedProduct(**asdict(product), way=way, windows=ceiling.clock(compute, alone)))
    return clocked


def _ways(product: Product, device: torch.device) -> dict[str, Callable[[], torch.Tensor]]:
    """How torch can compute the product, by what is done: each gives its result in memory of its own.

    As trained is as torch.nn.Linear and its backward pass do, with the weight as (outputs, inputs).
    """
    features = torch.randn(product.rows, product.inputs, device=device)
    gradients = torch.randn(product.rows, product.outputs, device=device)
    weight = torch.randn(product.outputs, product.inputs, device=device)
    transposed = weight.T.contiguous()
    pairs = {
        "forward": ((features, weight.T), (features, transposed)),
        "weight gradient": ((gradients.T, features), (features.T, gradients)),
        "input gradient": ((gradients, weight), (gradients, transposed.T)),
    }[product.kind]
    trained, other = (partial(torch.mm, *pair) for pair in pairs)
    ways = {AS_TRAINED: trained, "weights stored as (inputs, outputs)": other}
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        # What torch has beside MKL, and takes for float32 in no layer by itself: an operation of its compiler.
        left, right = pairs[0]
        ways["oneDNN instead"] = partial(
            torch.ops.mkldnn._linear_pointwise, left.contiguous(), right.T.contiguous(), None, "none", [], ""
        )
    return ways


def _clock_exchange(task: Task, workers: World, device: torch.device) -> list[Window]:
    """An all-reduce of one tensor as large as all gradients: what DistributedDataParallel does bucket by bucket."""
    gradients = torch.zeros(contract.parameter_bytes(task) // 4, device=device)
    return ceiling.clock(lambda: dist.all_reduce(gradients), workers)


def _facts() -> dict[str, str]:
    """What torch tells of the libraries that compute its products, and of the instructions that they use."""
    configuration = torch.__config__.show()
    found = re.findall(r"- (.*(?:Math Kernel|MKL-DNN|OpenMP).*)", configuration)
    blas = re.findall(r"BLAS_INFO=(\w+)", configuration)
    return {
        "products by": blas[0] if blas else "unknown",
        "built with": "; ".join(found),
        "MKL at work": _mkl_at_work(),
        "torch's own kernels for": torch.backends.cpu.get_cpu_capability(),
    }


def _mkl_at_work() -> str:
    """How MKL describes itself and the instructions that it uses here; empty where this build has none.

    It does so on the C library's standard output alone (MKL_VERBOSE), before its first call.
    """
    if not torch.backends.mkl.is_available():
        return ""
    c_library, kept = ctypes.CDLL(None), os.dup(1)
    with tempfile.TemporaryFile() as file:
        c_library.fflush(None)
        os.dup2(file.fileno(), 1)
        try:
            with torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
                torch.mm(torch.ones(64, 64), torch.ones(64, 64))
            c_library.fflush(None)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        lines = file.read().decode(errors="replace").splitlines()
    return next((line.removeprefix("MKL_VERBOSE ") for line in lines if "MKL_VERBOSE" in line), "")


if __name__ == "__main__":
    exit_with_one_line(main)
