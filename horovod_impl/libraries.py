"""Horovod's collectives as libraries: over Gloo, and over MPI."""

from common.declarations.library import (
    EMPTY_MESSAGES,
    THAKUR,
    TWICE_OF_OTHERS,
    WHOLE_OF_OTHERS,
    Algorithm,
    Library,
    gloo_reduce_scatter_bytes,
)
from common.declarations.strategy import PATARASUK
from horovod_impl.strategies import HOROVOD, HOROVODRUN, HorovodOptions

_OPERATIONS = "horovod/common/ops/gloo_operations.cc"

_LACKS = {
    "send_receive": "Horovod sends nothing from one rank to another alone: all of its operations are collectives.",
    "scatter": "Horovod has no scatter: where a program needs one it broadcasts, and each rank takes its part.",
    "gather": "Horovod has no gather to one rank: every rank gets all parts (all_gather).",
    "reduce": "Horovod has no reduction to one rank: every rank gets the sum (all_reduce).",
}

_TYPES = ("float32", "float64", "float16", "int32", "int64")

# The negotiation of every cycle comes on top of these bytes.
OVER_GLOO = Library(
    name="horovod_gloo",
    title="Horovod over Gloo",
    script="horovod_impl/collectives.py",
    family=HOROVOD,
    launcher=HOROVODRUN,
    options=HorovodOptions(backend="gloo"),
    collectives={
        "broadcast": (Algorithm("binomial tree", *WHOLE_OF_OTHERS, f"{_OPERATIONS}; gloo/broadcast.cc"),),
        "all_gather": (Algorithm("ring", *WHOLE_OF_OTHERS, f"{_OPERATIONS}; gloo/allgatherv.cc"),),
        "reduce_scatter": (
            Algorithm(
                "recursive halving, then to each rank what it lacks",
                gloo_reduce_scatter_bytes,
                "(N - 1) S; of more than 2 ranks up to N S, since the sums have to be put in order",
                f"{_OPERATIONS}; gloo/reduce_scatter.h; {THAKUR}",
            ),
        ),
        "all_reduce": (Algorithm("ring", *TWICE_OF_OTHERS, f"{_OPERATIONS}; gloo/allreduce.cc; {PATARASUK}"),),
        "all_to_all": (
            Algorithm("from each to each, all at once", *WHOLE_OF_OTHERS, f"{_OPERATIONS}; gloo/alltoallv.cc"),
        ),
        "barrier": (Algorithm("dissemination", *EMPTY_MESSAGES, "gloo/barrier.cc"),),
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
