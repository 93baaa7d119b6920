"""JAX's libraries of collectives: between processes over Gloo, and between the devices of one process."""

from functools import partial

from common.declarations.library import (
    TWICE_OF_OTHERS,
    WHOLE,
    WHOLE_OF_OTHERS,
    WITHIN_ONE_PROCESS,
    Algorithm,
    Library,
    gloo_reduce_scatter_bytes,
)
from common.declarations.strategy import PATARASUK, PROCESS
from jax_impl.strategies import JAX, PROCESSES

LIBRARY = "LOCKSTEP_JAX_LIBRARY"
"""Environment variable with the name of the library that jax_impl/collectives.py measures."""

_library = partial(
    Library,
    script="jax_impl/collectives.py",
    family=JAX,
    lacks={
        "scatter": "JAX has no scatter: a process makes its part of an array that is split over devices.",
        "gather": "JAX has no gather to one device: all devices get all parts (all_gather).",
        "reduce": "JAX has no reduction to one device: all devices get the sum (all_reduce).",
        "barrier": "JAX has no barrier of its own: multihost_utils.sync_global_devices gathers a number.",
    },
    # JAX has types of 64 bits only where it is told to (jax_enable_x64), which no strategy does.
    types=("float32", "float16", "int8", "uint8", "int32"),
)

_GLOO = "xla/backends/cpu/collectives/gloo_communicator.cc"

# Counted on the wire with 2, 3 and 4 ranks, from 768 KiB to 24 MiB (JAX 0.10.2): 1.001 to 1.015 of each formula.
OVER_GLOO = _library(
    name="jax",
    title="JAX's collectives over Gloo",
    launcher=PROCESSES,
    variables={LIBRARY: "jax"},
    collectives={
        "send_receive": (Algorithm("one message", *WHOLE, f"{_GLOO}, CollectivePermute"),),
        "broadcast": (
            Algorithm(
                "an all-reduce, of zeros but from the root",
                *TWICE_OF_OTHERS,
                "jax/experimental/multihost_utils.py, broadcast_one_to_all",
            ),
        ),
        "all_gather": (Algorithm("ring", *WHOLE_OF_OTHERS, f"{_GLOO}; gloo/allgather.cc"),),
        "reduce_scatter": (
            Algorithm(
                "recursive halving, then each part to its rank",
                gloo_reduce_scatter_bytes,
                "(N - 1) S, and what halving left elsewhere: nothing at 2, half of S at 3 and at 4",
                f"{_GLOO}; gloo/reduce_scatter.h",
            ),
        ),
        "all_reduce": (Algorithm("ring", *TWICE_OF_OTHERS, f"{_GLOO}; {PATARASUK}"),),
        "all_to_all": (Algorithm("from each to each, all at once", *WHOLE_OF_OTHERS, f"{_GLOO}, AllToAll"),),
    },
)

IN_ONE_PROCESS = _library(
    name="jax_in_one_process",
    title="JAX's collectives in one process",
    launcher=PROCESS,
    variables={LIBRARY: "jax_in_one_process"},
    collectives=dict.fromkeys(
        OVER_GLOO.collectives,
        (
            Algorithm(
                "in the memory that the devices share; on GPUs NCCL's",
                *WITHIN_ONE_PROCESS,
                "xla/backends/cpu/collectives/in_process_communicator.cc",
            ),
        ),
    ),
    one_process=True,
)
