"""What can go wrong in jax_devices' exchange: the contract tests must catch each."""

from unittest.mock import patch

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from tests.controls.broken_jax import OF_AVERAGES


def replicate_apart(mesh, tree):
    """The tree on every device, its state moved by 0.001 on the second."""
    whole = NamedSharding(mesh, PartitionSpec())
    if not isinstance(tree, dict):
        return jax.device_put(tree, whole)

    def copies(array):
        moved = [jax.device_put(array + np.float32(0.001 * rank), device) for rank, device in enumerate(mesh.devices)]
        return jax.make_array_from_single_device_arrays(array.shape, whole, moved)

    return jax.tree.map(copies, tree)


CONTROLS = OF_AVERAGES | {"skipped_broadcast": lambda script: patch.dict(script, replicate=replicate_apart)}
