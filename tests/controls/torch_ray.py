"""What can go wrong in torch_ray's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from tests.controls.broken_torch import OF_DDP


def leaving_the_model(script):
    """Ray's own way to leave the model as it is."""
    library = script["ray"].train.torch
    return patch.object(library, "prepare_model", partial(library.prepare_model, parallel_strategy=None))


CONTROLS = OF_DDP | {"not_prepared": leaving_the_model}
