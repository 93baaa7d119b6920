"""The contract's model in TensorFlow's own operations, on variables in the contract's layout."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf

from common.contract.layers import (
    Activation,
    Attention,
    BatchNorm,
    Convolution,
    Dense,
    Embedding,
    Layer,
    LayerNorm,
    Pool,
    Reshape,
    Residual,
    weights_of,
)
from common.contract.model import State, learning_rate, named_layers, parameter_names
from common.contract.rows import Batch
from common.contract.task import Task
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.measurement import machine


@dataclass(frozen=True)
class Variables:
    """All parameters in the contract's order, and the momentum of each; an empty list without momentum."""

    parameters: list[tf.Variable]
    momenta: list[tf.Variable]


def choose_devices(task: Task | Sweep, replicas: int, local_rank: int = 0, local_world_size: int = 1) -> list[str]:
    """The devices of this process's replicas: GPUs if `--device` and the machine allow it, else logical CPUs.

    Each process on this machine takes GPUs of its own. Sets the numbers of threads too, `--threads` for each replica,
    so call it before TensorFlow's first operation. Raises UserError where `--device` asks for more GPUs than there are.
    """
    tf.config.threading.set_intra_op_parallelism_threads(task.threads)
    tf.config.threading.set_inter_op_parallelism_threads(replicas)
    gpus = tf.config.list_physical_devices("GPU")
    needed = replicas * local_world_size
    if task.device == "gpu" and len(gpus) < needed:
        raise UserError(
            f"--device gpu, but TensorFlow sees {len(gpus)} GPUs for {needed} workers: start fewer workers, "
            "install TensorFlow with CUDA, or leave --device out."
        )
    if task.device != "cpu" and len(gpus) >= needed:
        tf.config.set_visible_devices(gpus[local_rank * replicas :][:replicas], "GPU")
        return [f"/gpu:{index}" for index in range(replicas)]
    tf.config.set_visible_devices([], "GPU")
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return [f"/cpu:{index}" for index in range(replicas)]


def device_name(devices: Sequence[str]) -> str:
    """The devices' name in the record: cpu, logical CPU devices, or the GPU's name."""
    if devices[0].startswith("/gpu"):
        return machine.gpu_names()[0]
    return "cpu" if len(devices) == 1 else f"{len(devices)} logical CPU devices"


def create_variables(task: Task, state: State, **options: object) -> Variables:
    """Variables that begin with the contract's weights, and with its momentum or zeros. Call it in a strategy's scope.

    `options` are further arguments of every tf.Variable.
    """
    names = parameter_names(task)
    parameters = [tf.Variable(state[name], name=name.replace(".", "_"), **options) for name in names]
    if not task.momentum:
        return Variables(parameters, [])
    beginnings = [state.get(f"{name}.momentum", tf.zeros_like(state[name])) for name in names]
    return Variables(parameters, [tf.Variable(beginning, **options) for beginning in beginnings])


def export_state(task: Task, variables: Variables) -> State:
    """The weights and the momentum as NumPy arrays in the contract's layout."""
    names = parameter_names(task)
    state = {name: _value(parameter) for name, parameter in zip(names, variables.parameters, strict=True)}
    momenta = zip(names, variables.momenta, strict=bool(variables.momenta))
    return state | {f"{name}.momentum": _value(momentum) for name, momentum in momenta}


def export_replicas(task: Task, variables: Variables) -> list[State]:
    """The state of every replica in this process, in the order of the replicas, as `export_state` has it."""

    def of_one(replica: int) -> Variables:
        parameters, momenta = (
            [_copies(variable)[replica] for variable in part] for part in (variables.parameters, variables.momenta)
        )
        return Variables(parameters, momenta)

    return [export_state(task, of_one(replica)) for replica in range(len(_copies(variables.parameters[0])))]


def held_bytes(variables: Variables, strategy: tf.distribute.Strategy) -> dict[str, int]:
    """Bytes that this process holds of the parameters, their gradients and the optimizer's state.

    Every copy of a variable counts. TensorFlow keeps no gradients after a step. In a step each replica of this process
    makes gradients as large as the parameters.
    """
    replicas = len(strategy.extended.worker_devices)
    return {
        "parameters": _bytes([copy for parameter in variables.parameters for copy in _copies(parameter)]),
        "gradients": replicas * _bytes(variables.parameters),
        "optimizer_state": _bytes([copy for momentum in variables.momenta for copy in _copies(momentum)]),
    }


def _copies(variable: tf.Variable) -> Sequence[tf.Variable]:
    """The copies of a variable, one for each replica in this process; the variable itself where it isn't mirrored."""
    return getattr(variable, "values", [variable])


def _bytes(variables: Sequence[tf.Variable]) -> int:
    return sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)


def _value(variable: tf.Variable) -> np.ndarray:
    if hasattr(variable, "read_all"):
        # A per-worker variable is read on the first worker, as others are on the first replica.
        return variable.read_all()[0].numpy()
    return tf.convert_to_tensor(variable).numpy()


def forward(task: Task, parameters: Sequence[tf.Variable], features: tf.Tensor) -> tf.Tensor:
    """Logits, (rows, classes), of features, (rows, inputs); of texts (rows, positions, tokens)."""
    return apply_all(named_layers(task), dict(zip(parameter_names(task), parameters, strict=True)), features)


def apply_all(layers: Mapping[str, Layer], weights: Mapping[str, tf.Variable], values: tf.Tensor) -> tf.Tensor:
    """The outputs of all layers, one after the other."""
    for name, layer in layers.items():
        values = apply_layer(layer, weights_of(name, weights), values)
    return values


def apply_layer(layer: Layer, weights: Mapping[str, tf.Variable], values: tf.Tensor) -> tf.Tensor:
    """The outputs of a layer. Raises UserError for a kind that is missing here."""
    match layer:
        case Dense():
            values = tf.matmul(values, weights["weight"])
            return values + weights["bias"] if layer.bias else values
        case Convolution(padding=padding):
            # Explicit edges, which give the same as SAME, would take twice the time.
            values = tf.nn.conv2d(values, weights["weight"], strides=1, padding="SAME" if padding else "VALID")
            return values + weights["bias"] if layer.bias else values
        case Pool(kind, size):
            return (tf.nn.avg_pool2d if kind == "average" else tf.nn.max_pool2d)(values, size, size, "VALID")
        case Reshape(shape):
            return tf.reshape(values, (-1, *shape))
        case Activation(kind):
            return {"relu": tf.nn.relu, "tanh": tf.tanh, "gelu": partial(tf.nn.gelu, approximate=True)}[kind](values)
        case Embedding():
            return tf.gather(weights["weight"], tf.cast(values, tf.int32)) + weights["position"]
        case LayerNorm():
            mean, variance = moments(layer, values)
            return (values - mean) * tf.math.rsqrt(variance + layer.epsilon) * weights["weight"] + weights["bias"]
        case Attention():
            return attend(layer, values)
        case Residual():
            return values + apply_all(layer.inner, weights, values)
    raise UserError(f"TensorFlow has no {type(layer).__name__} layer here: add it to apply_layer in {__file__}.")


def moments(layer: LayerNorm, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance; for synchronised batch normalisation those over the rows of all replicas."""
    replica = tf.distribute.get_replica_context()

    def mean_of(values: tf.Tensor) -> tf.Tensor:
        # Axis by axis: TensorFlow adds up all in one sum, which loses a digit over the pixels of a batch.
        for axis in layer.axes(len(values.shape)):
            values = tf.reduce_mean(values, axis, keepdims=True)
        is_of_all = isinstance(layer, BatchNorm) and layer.synchronised and replica.num_replicas_in_sync > 1
        return replica.all_reduce(tf.distribute.ReduceOp.MEAN, values) if is_of_all else values

    mean = mean_of(values)
    return mean, mean_of((values - mean) ** 2)


def attend(layer: Attention, values: tf.Tensor) -> tf.Tensor:
    """(rows, positions, width) of (rows, positions, 3 * width): no position sees a later one."""
    positions, width = values.shape[1], layer.width // layer.heads
    parts = tf.reshape(values, (-1, positions, 3, layer.heads, width))
    query, key, value = tf.unstack(tf.transpose(parts, (2, 0, 3, 1, 4)))
    scores = tf.matmul(query, key, transpose_b=True) / width**0.5
    later = 1 - tf.linalg.band_part(tf.ones((positions, positions)), -1, 0)
    attended = tf.matmul(tf.nn.softmax(scores - 1e9 * later), value)
    return tf.reshape(tf.transpose(attended, (0, 2, 1, 3)), (-1, positions, layer.width))


def loss_and_gradients(
    task: Task, variables: Variables, features: tf.Tensor, labels: tf.Tensor, divisor: int, jit_compile: bool = False
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The sum of the rows' cross-entropies over `divisor`, and its gradient by every parameter.

    With the global batch as divisor, the workers' losses add up to the mean over the global batch. So gradients are
    summed here, where other frameworks average the gradients of each worker's mean. `jit_compile` compiles with XLA.
    """

    def compute(parameters: Sequence[tf.Variable | tf.Tensor], features: tf.Tensor, labels: tf.Tensor) -> tuple:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            logits = forward(task, parameters, features)
            cross_entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            # A text has a label at each position.
            loss = tf.reduce_sum(cross_entropies) / (divisor * math.prod(labels.shape[1:]))
        return loss, tape.gradient(loss, parameters)

    if not jit_compile:
        return compute(variables.parameters, features, labels)
    # XLA gets values, since a variable may lie on another device than the replica that reads it.
    values = [tf.convert_to_tensor(parameter) for parameter in variables.parameters]
    return tf.function(compute, jit_compile=True, autograph=False)(values, features, labels)


def shard_losses(strategy: tf.distribute.Strategy, losses: tf.Tensor) -> tf.Tensor:
    """The mean loss over the rows of each replica in this process, (replicas,).

    `losses` are the replicas' parts of the mean over the global batch, as `loss_and_gradients` computes them.
    """
    return strategy.num_replicas_in_sync * tf.stack(strategy.experimental_local_results(losses))


def count_rows(strategy: tf.distribute.Strategy, labels: tf.Tensor) -> tf.Tensor:
    """The number of rows with these labels, of all replicas in this process: a scalar int32."""
    return tf.add_n([tf.shape(part)[0] for part in strategy.experimental_local_results(labels)])


def compile_steps(
    task: Task, steps_per_call: int, train_step: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
) -> Callable[[Sequence[Batch]], tuple[tf.Tensor, tf.Tensor]]:
    """Compile `train_step` to a function that trains one step on each of its batches.

    `train_step` gets the numbers of a step's rows, (rows,) int64, and the step's learning rate. It returns the step's
    loss, or each replica's loss, (replicas,), and the number of rows that the loss was taken of. The compiled function
    returns the same two values, with several steps per call as (steps, ...) each.
    """
    if steps_per_call == 1:
        one_step = tf.function(train_step, autograph=False)

        def call_one(batches: Sequence[Batch]) -> tuple:
            [batch] = batches
            rate = learning_rate(task, batch.step)
            return one_step(tf.constant(batch.rows), tf.constant(rate, tf.float32))

        return call_one

    def loop(rows: tf.Tensor, rates: tf.Tensor) -> tuple:
        # A tf.while_loop over rows and rates. One step at a time, since each step reads the weights of the one before.
        types = (tf.float32, tf.int32)
        return tf.map_fn(
            lambda step: train_step(*step), (rows, rates), fn_output_signature=types, parallel_iterations=1
        )

    compiled = None

    def call_all(batches: Sequence[Batch]) -> tuple:
        nonlocal compiled
        rows = np.stack([batch.rows for batch in batches])
        rates = [learning_rate(task, batch.step) for batch in batches]
        if compiled is None:
            # The number of steps stays open, so the shorter calls at the ends of windows need no other program.
            signature = [tf.TensorSpec((None, rows.shape[1]), tf.int64), tf.TensorSpec((None,), tf.float32)]
            compiled = tf.function(loop, input_signature=signature, autograph=False)
        return compiled(tf.constant(rows), tf.constant(rates, tf.float32))

    return call_all


def apply_sgd(
    task: Task,
    variables: Variables,
    gradients: Sequence[tf.Tensor],
    learning_rate: tf.Tensor,
    strategy: tf.distribute.Strategy,
) -> list[tf.Operation]:
    """Apply one step of SGD by torch's formula (`common.contract.model.update`), on every replica of each parameter.

    Returns the operations that write, as control dependencies of later operations. Keras's SGD computes another step
    with momentum and a schedule, and with momentum and weight decay.
    """

    def apply(
        parameter: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor, *momentum: tf.Variable
    ) -> tf.Operation | None:
        direction = gradient + task.weight_decay * parameter if task.weight_decay else gradient
        for buffer in momentum:
            direction = buffer.assign(task.momentum * buffer + direction)
        # The native operation updates in one pass. assign_sub would write rate * direction to memory first.
        return tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=direction)

    applied = []
    for position, parameter in enumerate(variables.parameters):
        momentum = variables.momenta[position : position + 1]
        arguments = (gradients[position], learning_rate, *momentum)
        applied += tf.nest.flatten(strategy.extended.update(parameter, apply, args=arguments, group=False))
    return applied
