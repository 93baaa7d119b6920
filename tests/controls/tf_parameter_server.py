"""What can go wrong in tf_parameter_server's exchange: the contract tests must catch each."""

from unittest.mock import patch

import tensorflow as tf

from common.contract.task import PRESETS
from tests.controls.broken_tensorflow import OF_GRADIENTS

Coordinator = tf.distribute.coordinator.ClusterCoordinator


def leaving_one_out(script):
    """The gradient of the first layer's weight is the first worker's alone."""

    def add_all(parts, add_n=tf.add_n):
        return parts[0] if parts[0].shape == PRESETS["digits"].dimensions[:2] else add_n(parts)

    return patch.object(tf, "add_n", add_all)


def one_step_old(script):
    """The coordinator gives on the gradients that it fetched a step before."""
    last = []

    def fetch(coordinator, values, fetch=Coordinator.fetch):
        parts = fetch(coordinator, values)
        before = [*last] or [gradients for _, _, gradients, _ in parts]
        last[:] = [gradients for _, _, gradients, _ in parts]
        return [(loss, count, old, number) for (loss, count, _, number), old in zip(parts, before, strict=True)]

    return patch.object(Coordinator, "fetch", fetch)


CONTROLS = OF_GRADIENTS | {"one_left_out": leaving_one_out, "one_step_old": one_step_old}
