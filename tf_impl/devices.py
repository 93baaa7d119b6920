"""The devices of one process's replicas: what sums over them, and the world that they are."""

from collections.abc import Sequence

import tensorflow as tf

from common.contract.task import Task
from common.declarations.sweep import Sweep
from common.measurement import machine
from common.measurement.world import World
from tf_impl import model


def cross_device_ops(devices: Sequence[str]) -> tf.distribute.CrossDeviceOps:
    """The operations by which MirroredStrategy sums over the devices: NCCL's between GPUs, else one device's.

    NCCL is TensorFlow's default for GPUs. Its default for CPUs, collectives, is slower than a sum on one device.
    """
    return tf.distribute.NcclAllReduce() if devices[0].startswith("/gpu") else tf.distribute.ReductionToOneDevice()


def world_of(devices: Sequence[str], limits: Task | Sweep, backend: str) -> World:
    """Pin this process, and return the world of its replicas, one on each of the devices, which `backend` joins."""
    return World(
        pinning=machine.pin(limits, local_world_size=len(devices), replicas=len(devices)),
        size=len(devices),
        backend=backend,
        device=model.device_name(devices),
        synchronize=tf.test.experimental.sync_devices,
    )
