"""How tensor parallelism splits layers over workers: by their outputs and by their inputs in turn."""

import itertools

from common.contract.task import Task
from common.errors import UserError


def split_axis(layer: int, layers: int) -> int:
    """Return the axis of a layer's weights (inputs, outputs) that is split: 0, inputs, or 1, outputs.

    The axes alternate. The last layer is split by its inputs, so that every worker gets all logits.
    """
    return (layers - 1 - layer) % 2


def check_layers_divide(task: Task, workers: int) -> None:
    """Raise UserError where a layer can't be split, or not evenly among the workers."""
    # Nox reads the declarations, which import this module, under the user's Python, which needs no NumPy.
    from common.contract.model import check_kinds

    taken = frozenset({"Dense", "Activation"})
    check_kinds(task, taken, "Tensor parallelism", "choose --model mlp, or a strategy that divides the rows")
    for layer, widths in enumerate(itertools.pairwise(task.dimensions)):
        axis = split_axis(layer, len(task.dimensions) - 1)
        if widths[axis] % workers:
            raise UserError(
                f"Layer {layer} is split by its {widths[axis]} {('inputs', 'outputs')[axis]}, which {workers} workers "
                "don't divide: use a number of workers that does, or other --dimensions."
            )


def bytes_of_whole_biases(task: Task) -> int:
    """Return the bytes of the float32 biases of layers split by their inputs, which every worker holds whole.

    Such a bias is added to the sum of all workers' products.
    """
    layers = task.dimensions[1:]
    return 4 * task.bias * sum(width for number, width in enumerate(layers) if not split_axis(number, len(layers)))
