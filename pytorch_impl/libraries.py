"""PyTorch's libraries of collectives: torch.distributed over Gloo and over NCCL, and mpi4py.

Beside them stand algorithms by hand, so that what an algorithm costs can be told from what a library adds.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from common.declarations.library import (
    EMPTY_MESSAGES,
    PARTS_OF_OTHERS,
    THAKUR,
    TWICE_OF_OTHERS,
    WHOLE,
    WHOLE_OF_OTHERS,
    Algorithm,
    Library,
)
from common.declarations.strategy import (
    MPIRUN_CAUSE,
    MPIRUN_SIGNAL,
    PATARASUK,
    Launcher,
    MpiOptions,
    mpi_across_hosts,
    mpirun,
)
from pytorch_impl.strategies import PYTORCH, TORCHRUN, BackendOptions

LIBRARY = "LOCKSTEP_TORCH_LIBRARY"
"""Environment variable with the name of the library that pytorch_impl/collectives.py measures."""

MPIRUN = Launcher(
    name="mpirun",
    command=mpirun,
    across_hosts=mpi_across_hosts,
    signal_reports=(MPIRUN_SIGNAL,),
    cause_report=MPIRUN_CAUSE,
)

_SEGMENT_BYTES = 2**20
"""The most that Gloo sends at once in a reduction (gloo/reduce.h, kMaxSegmentSize)."""


def gloo_reduce_bytes(size: int, ranks: int) -> float:
    """The bytes that all ranks together send in Gloo's reduction of `size` bytes.

    A ring leaves each rank with an N-th of the sum, which the rank then sends to the root. An N-th is two segments, or
    more where two would be larger than 1 MiB. In the ring each rank sends all segments but two (gloo/reduce.cc, `i <
    (numSegments - 2)`). All but those of an N-th would do: with more than two, sums go further than they need to.
    """
    segments = ranks * max(2, math.ceil(size / (ranks * _SEGMENT_BYTES)))
    return size * (ranks * (segments - 2) / segments + (ranks - 1) / ranks)


_GLOO = "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp"
_BARRIER = 'Hensgen, Finkel & Manber, "Two algorithms for barrier synchronization", 1988'
_REDUCE = "(N - 1 / N) S; of more than 2 N MiB up to (N + 1 - 1 / N) S, since sums go further than they need to"

_by_torchrun = partial(
    Library,
    script="pytorch_impl/collectives.py",
    family=PYTORCH,
    launcher=TORCHRUN,
    both_ways=True,
    types=("float32", "float64", "float16", "int8", "uint8", "int32", "int64"),
)

GLOO = _by_torchrun(
    name="gloo",
    title="torch.distributed over Gloo",
    options=BackendOptions(backend="gloo"),
    variables={LIBRARY: "gloo"},
    collectives={
        "send_receive": (Algorithm("one message", *WHOLE, f"{_GLOO}, send"),),
        "broadcast": (Algorithm("binomial tree", *WHOLE_OF_OTHERS, "gloo/broadcast.cc"),),
        "scatter": (Algorithm("from the root to each, all at once", *PARTS_OF_OTHERS, "gloo/scatter.cc"),),
        "gather": (Algorithm("from each to the root, all at once", *PARTS_OF_OTHERS, "gloo/gather.cc"),),
        "all_gather": (Algorithm("ring", *WHOLE_OF_OTHERS, "gloo/allgather.cc"),),
        "reduce": (Algorithm("ring, then from each to the root", gloo_reduce_bytes, _REDUCE, "gloo/reduce.cc"),),
        "reduce_scatter": (
            Algorithm(
                "a whole all-reduce, of which each rank keeps its part",
                *TWICE_OF_OTHERS,
                f"{_GLOO}, reduce_scatter_tensor_coalesced (pytorch pull request 118911)",
            ),
        ),
        "all_reduce": (Algorithm("ring", *TWICE_OF_OTHERS, f"gloo/allreduce.cc; {PATARASUK}"),),
        "all_to_all": (Algorithm("from each to each, all at once", *WHOLE_OF_OTHERS, "gloo/alltoall.cc"),),
        "barrier": (Algorithm("dissemination", *EMPTY_MESSAGES, f"gloo/barrier.cc; {_BARRIER}"),),
    },
)

_NCCL = "torch/csrc/cuda/nccl.cpp"
_AS_NCCL_CHOOSES = (
    Algorithm(
        "as NCCL chooses",
        None,
        "none where NCCL chooses the algorithm, by the size and by what joins the GPUs",
        "NCCL's user guide, NCCL_ALGO",
    ),
)

NCCL = _by_torchrun(
    name="nccl",
    title="torch.distributed over NCCL",
    options=BackendOptions(backend="nccl"),
    variables={LIBRARY: "nccl"},
    collectives={
        "send_receive": (Algorithm("one message", *WHOLE, f"{_NCCL}, send"),),
        "broadcast": _AS_NCCL_CHOOSES,
        "scatter": (Algorithm("from the root to each, all at once", *PARTS_OF_OTHERS, f"{_NCCL}, scatter"),),
        "gather": (Algorithm("from each to the root, all at once", *PARTS_OF_OTHERS, f"{_NCCL}, gather"),),
        "all_gather": _AS_NCCL_CHOOSES,
        "reduce": _AS_NCCL_CHOOSES,
        "reduce_scatter": _AS_NCCL_CHOOSES,
        "all_reduce": _AS_NCCL_CHOOSES,
        "all_to_all": (
            Algorithm("from each to each, all at once", *WHOLE_OF_OTHERS, f"{_NCCL}, all2all_single_equal_split"),
        ),
        "barrier": (
            Algorithm(
                "an all-reduce of one element",
                None,
                "none where NCCL chooses the algorithm",
                "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, barrier",
            ),
        ),
    },
    needs_gpus=True,
)

_AS_OPEN_MPI_CHOOSES = Algorithm(
    "as Open MPI chooses",
    None,
    "none: ranks of a host share memory, and between hosts Open MPI chooses the algorithm by size and ranks",
    "docs.open-mpi.org, Tuning Collectives",
)
_IN_PLACE = replace(_AS_OPEN_MPI_CHOOSES, name="as Open MPI chooses; a rank's own part is in its place before")

OPEN_MPI = Library(
    name="mpi",
    title="mpi4py over Open MPI",
    script="pytorch_impl/collectives_mpi.py",
    family=PYTORCH,
    launcher=MPIRUN,
    options=MpiOptions(backend="mpi"),
    collectives=dict.fromkeys(GLOO.collectives, (_AS_OPEN_MPI_CHOOSES,)) | {"all_gather": (_IN_PLACE,)},
    both_ways=True,
    # MPI has no half precision.
    types=("float32", "float64", "int8", "uint8", "int32", "int64"),
)


def doubling_bytes(size: int, ranks: int) -> float:
    """The bytes that all ranks together send in recursive doubling.

    Of a power of two of ranks each sends all it has in each step. Each rank beyond sends its input and gets the sum.
    """
    inside = 1 << ranks.bit_length() - 1
    return 1.0 * size * (inside * (inside.bit_length() - 1) + 2 * (ranks - inside))


def _by_hand(name: str, title: str, source: str, sent: tuple[Callable[[int, int], float], str]) -> Library:
    """The all-reduce of this name in `common.contract.algorithms`."""
    return _by_torchrun(
        name=name,
        title=f"{title} by hand over Gloo's sends",
        options=GLOO.options,
        variables={LIBRARY: name},
        collectives={"all_reduce": (Algorithm(name.replace("_", " "), *sent, source),)},
        by_default=False,
    )


_DOUBLING = (doubling_bytes, "M log2 M S + 2 (N - M) S, where M is the greatest power of two up to N")
_SERVER = 'Li et al., "Scaling distributed machine learning with the parameter server", 2014, with one server'

RING = _by_hand("ring", "a ring", PATARASUK, TWICE_OF_OTHERS)
RECURSIVE_DOUBLING = _by_hand("recursive_doubling", "recursive doubling", THAKUR, _DOUBLING)
HALVING_DOUBLING = _by_hand("halving_doubling", "halving and doubling", THAKUR, TWICE_OF_OTHERS)
BINOMIAL_TREE = _by_hand("binomial_tree", "a binomial tree", THAKUR, TWICE_OF_OTHERS)
CENTRAL_SERVER = _by_hand("central_server", "a central server", _SERVER, TWICE_OF_OTHERS)
BY_HAND = (RING, RECURSIVE_DOUBLING, HALVING_DOUBLING, BINOMIAL_TREE, CENTRAL_SERVER)
