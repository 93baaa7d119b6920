"""Horovod's collectives as libraries: over Gloo, and over MPI."""

from common.declarations.library import THAKUR, Algorithm, Library
from common.declarations.strategy import PATARASUK
from horovod_impl.strategies import HOROVOD, HOROVODRUN, HorovodOptions

# The bytes that all ranks together send, as a function and in words. The negotiation of every cycle comes on top.
_WHOLE_OF_OTHERS = (lambda size, ranks: 1.0 * (ranks - 1) * size, "(N - 1) S")
_TWICE_OF_OTHERS = (lambda size, ranks: 2.0 * (ranks - 1) * size, "2 (N - 1) S")


def gloo_reduce_scatter_bytes(size: int, ranks: int) -> float:
    """The bytes that all ranks together send in Gloo's reduce-scatter of `size` bytes, by recursive halving.

    The ranks are divided into blocks: the largest power of two, the largest of the rest, and so on. Each rank of a
    block of B exchanges a half with another rank, then a quarter, down to a B-th. Each block then sends its sums to the
    next larger block: in all (N - 1) S. The largest block now has the sums, in the order of its ranks' reversed bits.
    So S goes to its final ranks, less the parts that are there already.
    """
    steps = ranks.bit_length() - 1
    block, stationary = 2**steps, 0.0
    for rank in range(block):
        position = int(f"{rank:0{steps}b}"[::-1], 2)
        first, end = max(position / block, rank / ranks), min((position + 1) / block, (rank + 1) / ranks)
        stationary += max(end - first, 0.0)
    return size * (ranks - 1 + (1 - stationary))


_OPERATIONS = "horovod/common/ops/gloo_operations.cc"

_LACKS = {
    "send_receive": "Horovod sends nothing from one rank to another alone: all of its operations are collectives.",
    "scatter": "Horovod has no scatter: where a program needs one it broadcasts, and each rank takes its part.",
    "gather": "Horovod has no gather to one rank: every rank gets all parts (all_gather).",
    "reduce": "Horovod has no reduction to one rank: every rank gets the sum (all_reduce).",
}

_TYPES = ("float32", "float64", "float16", "int32", "int64")

OVER_GLOO = Library(
    name="horovod_gloo",
    title="Horovod over Gloo",
    script="horovod_impl/collectives.py",
    family=HOROVOD,
    launcher=HOROVODRUN,
    options=HorovodOptions(backend="gloo"),
    collectives={
        "broadcast": (Algorithm("binomial tree", *_WHOLE_OF_OTHERS, f"{_OPERATIONS}; gloo/broadcast.cc"),),
        "all_gather": (Algorithm("ring", *_WHOLE_OF_OTHERS, f"{_OPERATIONS}; gloo/allgatherv.cc"),),
        "reduce_scatter": (
            Algorithm(
                "recursive halving, then to each rank what it lacks",
                gloo_reduce_scatter_bytes,
                "(N - 1) S; of more than 2 ranks up to N S, since the sums have to be put in order",
                f"{_OPERATIONS}; gloo/reduce_scatter.h; {THAKUR}",
            ),
        ),
        "all_reduce": (Algorithm("ring", *_TWICE_OF_OTHERS, f"{_OPERATIONS}; gloo/allreduce.cc; {PATARASUK}"),),
        "all_to_all": (
            Algorithm("from each to each, all at once", *_WHOLE_OF_OTHERS, f"{_OPERATIONS}; gloo/alltoallv.cc"),
        ),
        "barrier": (Algorithm("dissemination", lambda size, ranks: 0.0, "empty messages", "gloo/barrier.cc"),),
    },
    lacks=_LACKS,
    types=_TYPES,
)

OVER_MPI = Library(
    name="horovod_mpi",
    title="Horovod over MPI",
    script="horovod_impl/collectives.py",
    family=HOROVOD,
    launcher=HOROVODRUN,
    options=HorovodOptions(backend="mpi"),
    collectives=dict.fromkeys(
        ("broadcast", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "barrier"),
        (
            Algorithm(
                "as MPI chooses",
                None,
                "none: ranks of a host share memory, and between hosts MPI chooses the algorithm by size and ranks",
                "horovod/common/ops/mpi_operations.cc; docs.open-mpi.org, Tuning Collectives",
            ),
        ),
    ),
    lacks=_LACKS,
    types=_TYPES,
)
