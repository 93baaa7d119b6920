"""TensorFlow's libraries of collectives: between processes over gRPC, and between the devices of one process."""

from functools import partial

from common.declarations.library import TWICE_OF_OTHERS, WHOLE_OF_OTHERS, WITHIN_ONE_PROCESS, Algorithm, Library
from common.declarations.strategy import PATARASUK, PROCESS
from tf_impl.strategies import CLUSTER, TENSORFLOW

REDUCTION = "LOCKSTEP_TF_REDUCTION"
"""Environment variable with the name of the library that tf_impl/reductions.py measures."""

_RUNTIME = "tensorflow/core/common_runtime"
_CROSS_DEVICE = "tensorflow/python/distribute/cross_device_ops.py"
_MIRRORED = "tensorflow/python/distribute/mirrored_strategy.py"

_LENGTH_BYTES = 4
"""Bytes of the length of a rank's part, an int32, which the ranks gather before an all-gather."""


def _inside(name: str, source: str) -> tuple[Algorithm, ...]:
    """The algorithm of a collective between devices of one process, which sends nothing."""
    return (Algorithm(name, *WITHIN_ONE_PROCESS, source),)


COLLECTIVES = Library(
    name="tensorflow",
    title="TensorFlow's collectives over gRPC",
    script="tf_impl/collectives.py",
    family=TENSORFLOW,
    launcher=CLUSTER,
    collectives={
        "broadcast": (Algorithm("binary tree", *WHOLE_OF_OTHERS, f"{_RUNTIME}/hierarchical_tree_broadcaster.cc"),),
        "all_gather": (
            Algorithm(
                "ring, after a ring of the parts' lengths",
                lambda size, ranks: 1.0 * (ranks - 1) * (size + _LENGTH_BYTES * ranks),
                "(N - 1) (S + 4 N)",
                f"{_RUNTIME}/ring_gatherer.cc; tensorflow/python/distribute/cross_device_utils.py",
            ),
        ),
        "all_reduce": (Algorithm("ring", *TWICE_OF_OTHERS, f"{_RUNTIME}/ring_reducer.cc; {PATARASUK}"),),
        "all_to_all": (Algorithm("each rank to each, all at once", *WHOLE_OF_OTHERS, f"{_RUNTIME}/all_to_all.cc"),),
    },
    lacks={
        "send_receive": "No collective of TensorFlow sends from one task to another.",
        "scatter": "TensorFlow has no scatter.",
        "gather": "TensorFlow has no gather to one task: under tf.distribute every task gets all parts (all_gather).",
        "reduce": "TensorFlow has no reduction to one task: under tf.distribute every task gets the sum (all_reduce).",
        "reduce_scatter": "TensorFlow has a reduce-scatter over NCCL alone.",
        "barrier": "tf.distribute has no barrier: what needs one takes the all-reduce of a scalar.",
    },
    types=("float32", "float64", "float16", "int32", "int64"),
)

_in_one_process = partial(
    Library, script="tf_impl/reductions.py", family=TENSORFLOW, launcher=PROCESS, one_process=True
)

_REST = "tf.distribute's cross-device operations are reductions, gathers and a broadcast."

REDUCTION_TO_ONE_DEVICE = _in_one_process(
    name="tf_reduction_to_one_device",
    title="TensorFlow's ReductionToOneDevice in one process",
    variables={REDUCTION: "tf_reduction_to_one_device"},
    collectives={
        "broadcast": _inside("from the first device to each", _CROSS_DEVICE),
        "gather": _inside("the first device joins all parts", _CROSS_DEVICE),
        "all_gather": _inside("the first device joins all parts, then to each", _CROSS_DEVICE),
        "reduce": _inside("the first device adds all", _CROSS_DEVICE),
        "all_reduce": _inside("the first device adds all, then to each", _CROSS_DEVICE),
    },
    lacks=dict.fromkeys(("send_receive", "scatter", "reduce_scatter", "all_to_all", "barrier"), _REST),
    types=("float32", "float64", "float16", "int8", "uint8", "int32", "int64"),
)

HIERARCHICAL_COPY = _in_one_process(
    name="tf_hierarchical_copy",
    title="TensorFlow's HierarchicalCopyAllReduce in one process",
    variables={REDUCTION: "tf_hierarchical_copy"},
    collectives={
        "all_reduce": _inside(
            "one device of each half adds the half's, one of them both sums, then back the same way",
            "tensorflow/python/distribute/cross_device_utils.py",
        ),
    },
    lacks=dict.fromkeys(
        [
            each
            for each in (*REDUCTION_TO_ONE_DEVICE.collectives, *REDUCTION_TO_ONE_DEVICE.lacks)
            if each != "all_reduce"
        ],
        f"HierarchicalCopyAllReduce has nothing of its own but the all-reduce: see {REDUCTION_TO_ONE_DEVICE.name}.",
    ),
    # MirroredStrategy leaves sums of int32 to ReductionToOneDevice.
    types=("float32", "float64", "float16", "int8", "uint8", "int64"),
)

MIRRORED_COLLECTIVES = _in_one_process(
    name="tf_mirrored_collectives",
    title="TensorFlow's collectives in one process",
    variables={REDUCTION: "tf_mirrored_collectives"},
    collectives={
        "all_gather": _inside(
            "ring, after a ring of the parts' lengths; on GPUs NCCL's", f"{_RUNTIME}/ring_gatherer.cc; {_MIRRORED}"
        ),
        "all_reduce": _inside("ring; on GPUs NCCL's", f"{_RUNTIME}/ring_reducer.cc; {_MIRRORED}"),
    },
    lacks=dict.fromkeys(
        ("send_receive", "broadcast", "scatter", "gather", "reduce", "reduce_scatter", "all_to_all", "barrier"),
        "In one process MirroredStrategy takes collectives for the all-reduce and the all-gather alone: "
        f"see {REDUCTION_TO_ONE_DEVICE.name}.",
    ),
    # As for HIERARCHICAL_COPY.
    types=("float32", "float64", "float16", "int64"),
)
