"""Options of TensorFlow's loops and of Keras's fit, for tf.distribute and for Horovod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from common.contract.task import Task
from common.declarations.strategy import Options, option
from common.errors import UserError


@dataclass(frozen=True, kw_only=True)
class XlaOptions(Options):
    """Options of strategies whose step can be compiled with XLA."""

    jit_compile: bool = option(False, tried=(True,))
    """Compile each replica's forward and backward pass with XLA."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions(XlaOptions):
    """Options of strategies with a loop of their own."""

    # 7 divides neither the warm-up nor a window of the tests, so that some calls are cut short.
    steps_per_call: int = option(1, at_least=1, tried=(7,))
    """Steps in each call of the compiled function. Windows end where they would; a call is cut short there."""
    input: Literal["memory", "tf_data"] = option("memory", tried=("tf_data",))
    """memory keeps all rows on the devices, and a step names its own; tf_data reads them through a tf.data pipeline
    that runs ahead."""


KERAS_KINDS = frozenset({"Dense", "Convolution", "Pool", "Reshape", "Activation"})
"""The kinds of layers that `fit.keras_layer` makes."""


def refuse_other_maths_of_keras(task: Task, instead: str) -> None:
    """Raise UserError for layers that Keras hasn't, and where its SGD doesn't follow torch's formula, the contract's.

    Keras multiplies a gradient by the learning rate on its way into the momentum, where a later rate doesn't reach it.
    Its weight decay shrinks the weights at once and never enters the momentum. `instead` is the strategy to use.
    """
    # Nox reads the declarations under the user's Python, which needs no NumPy.
    from common.contract.model import check_kinds

    check_kinds(task, KERAS_KINDS, "Keras's fit", f"use {instead}")
    if task.momentum and task.weight_decay:
        raise UserError(
            "Keras's SGD keeps weight decay out of the momentum, where torch's formula has it: leave --momentum or "
            f"--weight-decay out, or use {instead}."
        )
    changes = task.final_learning_rate not in (None, task.learning_rate)
    if task.momentum and (changes or not task.learning_rate):
        raise UserError(
            "Keras's SGD keeps its momentum multiplied by the learning rate, so it follows torch's formula only where "
            "that is constant and above 0: leave --momentum out, give --final-learning-rate and --learning-rate the "
            f"same value above 0, or use {instead}."
        )
