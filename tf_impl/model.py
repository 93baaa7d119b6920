"""The MLP in TensorFlow's own operations, on variables in the contract's layout `(inputs, outputs)`."""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from common import machine, mlp
from common.config import Config
from common.errors import UserError
from common.mlp import State


@dataclass(frozen=True)
class Variables:
    """All parameters in the contract's order, and the momentum of each where there is momentum (else an empty list)."""

    parameters: list[tf.Variable]
    momenta: list[tf.Variable]


def choose_devices(config: Config, replicas: int) -> list[str]:
    """One device for each replica: GPUs where `--device` and the machine allow it, else logical CPU devices.

    Sets the numbers of threads too, so it has to come before TensorFlow's first operation: each replica gets
    `--threads` of its own. Raises UserError when GPUs are asked for and there aren't enough.
    """
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    tf.config.threading.set_inter_op_parallelism_threads(replicas)
    gpus = tf.config.list_physical_devices("GPU")
    if config.device == "gpu" and len(gpus) < replicas:
        raise UserError(
            f"--device gpu, but TensorFlow sees {len(gpus)} GPUs for {replicas} workers: start fewer workers, "
            "install TensorFlow with CUDA, or leave --device out."
        )
    if config.device != "cpu" and len(gpus) >= replicas:
        return [f"/gpu:{index}" for index in range(replicas)]
    tf.config.set_visible_devices([], "GPU")
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return [f"/cpu:{index}" for index in range(replicas)]


def device_name(devices: Sequence[str]) -> str:
    """What the record calls the devices: cpu, logical CPU devices, or the GPU's name."""
    if devices[0].startswith("/gpu"):
        return machine.gpu_names()[0]
    return "cpu" if len(devices) == 1 else f"{len(devices)} logical CPU devices"


def create_variables(config: Config, state: State) -> Variables:
    """Variables that begin with the contract's weights, and with its momentum or zeros; to be called in a scope."""
    names = mlp.parameter_names(config)
    parameters = [tf.Variable(state[name], name=name.replace(".", "_")) for name in names]
    if not config.momentum:
        return Variables(parameters, [])
    beginnings = [state.get(f"{name}.momentum", tf.zeros_like(state[name])) for name in names]
    return Variables(parameters, [tf.Variable(beginning) for beginning in beginnings])


def export_state(config: Config, variables: Variables) -> State:
    """The weights and the momentum as NumPy arrays in the contract's layout."""
    names = mlp.parameter_names(config)
    state = {name: parameter.numpy() for name, parameter in zip(names, variables.parameters, strict=True)}
    momenta = zip(names, variables.momenta, strict=bool(variables.momenta))
    return state | {f"{name}.momentum": momentum.numpy() for name, momentum in momenta}


def forward(config: Config, parameters: Sequence[tf.Variable], features: tf.Tensor) -> tf.Tensor:
    """Logits, (rows, classes), of features, (rows, inputs)."""
    activate = tf.nn.relu if config.activation == "relu" else tf.tanh
    per_layer = 2 if config.bias else 1
    values = features
    for position in range(0, len(parameters), per_layer):
        values = activate(values) if position else values
        values = tf.matmul(values, parameters[position])
        values = values + parameters[position + 1] if config.bias else values
    return values


def loss_and_gradients(
    config: Config, variables: Variables, features: tf.Tensor, labels: tf.Tensor, divisor: int
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The sum of the rows' cross-entropies over `divisor`, and its gradient by every parameter.

    With the global batch as divisor, the workers' results add up to the mean over the global batch.
    """
    with tf.GradientTape() as tape:
        logits = forward(config, variables.parameters, features)
        cross_entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_sum(cross_entropies) / divisor
    return loss, tape.gradient(loss, variables.parameters)


def apply_sgd(
    config: Config,
    variables: Variables,
    gradients: Sequence[tf.Tensor],
    learning_rate: tf.Tensor,
    strategy: tf.distribute.Strategy,
) -> None:
    """One step of SGD by torch's formula, as `common.mlp.update` documents it, on every replica of each parameter.

    Keras's SGD computes something else with momentum and a schedule, and with momentum and weight decay.
    """

    def apply(parameter: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor, *momentum: tf.Variable) -> None:
        direction = gradient + config.weight_decay * parameter if config.weight_decay else gradient
        for buffer in momentum:
            direction = buffer.assign(config.momentum * buffer + direction)
        # The native operation updates in one pass; assign_sub would write rate * direction down first.
        tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=direction)

    for position, parameter in enumerate(variables.parameters):
        momentum = variables.momenta[position : position + 1]
        arguments = (gradients[position], learning_rate, *momentum)
        strategy.extended.update(parameter, apply, args=arguments, group=False)
