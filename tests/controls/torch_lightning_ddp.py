"""What can go wrong in torch_lightning_ddp's exchange: the contract tests must catch each."""

from unittest.mock import patch

from tests.controls.broken_torch import OF_DDP, gradients_of_the_step_before, rounded, twice_in_step_50


def changing(script, change):
    """Lightning computes the gradients inside of the optimizer's step, so what changes them before that finds none."""

    def change_all(model, _optimizer):
        for parameter in model.parameters():
            parameter.grad = change(parameter)

    return patch.object(script["Network"], "on_before_optimizer_step", change_all)


CONTROLS = OF_DDP | {
    "float16": lambda script: changing(script, rounded),
    "one_step_old": lambda script: changing(script, gradients_of_the_step_before()),
    "diverged": lambda script: changing(script, twice_in_step_50()),
}
