"""The ceiling of PyTorch's strategies: a step's products and convolutions, and an all-reduce of its gradients.

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

from common.contract import model as contract
from common.declarations.arguments import parse_command_line
from common.measurement import probing
from common.measurement.machine import Pinning
from common.measurement.world import World
from common.records.ceiling import AS_TRAINED, Product, seconds_of
from pytorch_impl import model
from pytorch_impl.strategies import DDP
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started. Clock the products on rank 0, then an exchange among all workers."""
    task, options = parse_command_line(DDP, __doc__)
    world, device = join(DDP, task, options)
    with torch.inference_mode():
        products = probing.clock_products(task, world, partial(_ways, device=device))
    # One tensor as large as all gradients. DistributedDataParallel sends as much, bucket by bucket.
    gradients = torch.zeros(contract.parameter_bytes(task) // 4, device=device)
    exchange = probing.clock(lambda: dist.all_reduce(gradients), world) if world.size > 1 else []
    if world.rank == 0:
        probing.finish(DDP, task, world, products, exchange, _facts() | _copies(device))
    leave()


def _ways(product: Product, device: torch.device) -> dict[str, tuple[Callable[[], torch.Tensor], int]]:
    """Functions that compute the product once, each in another way and into a new tensor, by the name of the way.

    `AS_TRAINED` is the way of torch.nn.Linear and its backward pass, with the weight as (outputs, inputs), and that of
    torch.nn.Conv2d. On a GPU there are those of `--precision` as well.
    """
    ways = _as_trained(product, device)
    if device.type == "cuda":
        bf16 = _as_trained(product, device, torch.bfloat16)
        ways |= {"TF32": partial(_in_tf32, ways[AS_TRAINED]), "bfloat16": bf16[AS_TRAINED]}
    return {name: (compute, 1) for name, compute in ways.items()}


def _as_trained(
    product: Product, device: torch.device, dtype: torch.dtype = torch.float32
) -> dict[str, Callable[[], torch.Tensor]]:
    """The way of training, and others that there are for this type, by name."""
    if product.size:
        return {AS_TRAINED: _convolution(product, device, dtype)}
    features = torch.randn(product.rows, product.inputs, device=device, dtype=dtype)
    gradients = torch.randn(product.rows, product.outputs, device=device, dtype=dtype)
    weight = torch.randn(product.outputs, product.inputs, device=device, dtype=dtype)
    transposed = weight.T.contiguous()
    pairs = {
        "forward": ((features, weight.T), (features, transposed)),
        "weight gradient": ((gradients.T, features), (features.T, gradients)),
        "input gradient": ((gradients, weight), (gradients, transposed.T)),
    }[product.kind]
    trained, other = (partial(torch.mm, *pair) for pair in pairs)
    ways = {AS_TRAINED: trained, "weights stored as (inputs, outputs)": other}
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        # torch has oneDNN beside MKL. For float32 no layer takes it: this operation is one of torch's compiler.
        left, right = pairs[0]
        ways["oneDNN instead"] = partial(
            torch.ops.mkldnn._linear_pointwise, left.contiguous(), right.T.contiguous(), None, "none", [], ""
        )
    return ways


def _in_tf32(compute: Callable[[], torch.Tensor]) -> torch.Tensor:
    """What `compute` gives with its factors rounded to TF32."""
    model.set_float32_products("tf32")
    result = compute()
    model.set_float32_products("ieee")
    return result


def _convolution(product: Product, device: torch.device, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    """A function that computes a convolution, or one of its gradients as torch's backward pass does."""
    padding = (product.padding, product.padding)
    of_device = {"device": device, "dtype": dtype}
    images = torch.randn(product.rows, product.inputs, product.height, product.width, **of_device)
    kernel = torch.randn(product.outputs, product.inputs, product.size, product.size, **of_device)
    forward = partial(torch.conv2d, images, kernel, padding=padding)
    if product.kind == "forward":
        return forward
    wanted = [product.kind == "input gradient", product.kind == "weight gradient", False]
    about = (None, (1, 1), padding, (1, 1), False, (0, 0), 1, wanted)
    return partial(torch.ops.aten.convolution_backward, torch.randn_like(forward()), images, kernel, *about)


def _copies(device: torch.device) -> dict[str, str]:
    """How fast 256 MiB are copied to a GPU and back, from the host's memory as it is and pinned, and within the GPU."""
    if device.type == "cpu":
        return {}
    size, there = 2**28, torch.empty(2**28, dtype=torch.uint8, device=device)
    sources = {
        "pageable": torch.empty(size, dtype=torch.uint8),
        "pinned": torch.empty(size, dtype=torch.uint8).pin_memory(),
    }
    copies = {"within the GPU": (torch.empty_like(there), there)}
    for kind, here in sources.items():
        copies |= {f"to the GPU, {kind}": (there, here), f"from the GPU, {kind}": (here, there)}
    world, rates = World(pinning=Pinning([], False), synchronize=partial(model.synchronize, device)), {}
    for name, (target, source) in copies.items():
        seconds = seconds_of(probing.clock(partial(target.copy_, source, non_blocking=True), world))
        rates[f"copies {name}"] = f"{size / seconds / 1e9:.1f} GB/s"
    return rates


def _facts() -> dict[str, str]:
    """Facts on the libraries that compute torch's products, and on the instructions that they use."""
    configuration = torch.__config__.show()
    libraries = re.findall(r"- (.*(?:Math Kernel|MKL-DNN|OpenMP).*)", configuration)
    blas = re.findall(r"BLAS_INFO=(\w+)", configuration)
    return {
        "products by": blas[0] if blas else "unknown",
        "built with": "; ".join(libraries),
        "MKL at work": _mkl_at_work(),
        "torch's own kernels for": torch.backends.cpu.get_cpu_capability(),
    }


def _mkl_at_work() -> str:
    """MKL's own description of itself and of the instructions that it uses here; empty for a build without MKL.

    MKL prints the description before its first call (MKL_VERBOSE), on the C library's standard output alone.
    """
    if not torch.backends.mkl.is_available():
        return ""
    c_library, standard_output = ctypes.CDLL(None), os.dup(1)
    with tempfile.TemporaryFile() as file:
        c_library.fflush(None)
        os.dup2(file.fileno(), 1)
        try:
            with torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
                torch.mm(torch.ones(64, 64), torch.ones(64, 64))
            c_library.fflush(None)
        finally:
            os.dup2(standard_output, 1)
            os.close(standard_output)
        file.seek(0)
        lines = file.read().decode(errors="replace").splitlines()
    return next((line.removeprefix("MKL_VERBOSE ") for line in lines if "MKL_VERBOSE" in line), "")


if __name__ == "__main__":
    exit_with_one_line(main)
