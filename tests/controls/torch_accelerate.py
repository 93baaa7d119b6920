"""What can go wrong in torch_accelerate's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from accelerate import Accelerator

from tests.controls.broken_torch import OF_DDP


def schedule_of_processes(**options):
    """Accelerate's default: every update takes the schedule as many steps on as there are processes."""
    return Accelerator(**options | {"step_scheduler_with_optimizer": True})


CONTROLS = OF_DDP | {
    "accumulated": lambda script: patch.dict(script, Accelerator=partial(Accelerator, gradient_accumulation_steps=2)),
    "schedule_of_processes": lambda script: patch.dict(script, Accelerator=schedule_of_processes),
}
