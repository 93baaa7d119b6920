"""What can go wrong in torch_deepspeed's exchange: the contract tests must catch each."""

from unittest.mock import patch

from deepspeed import DeepSpeedEngine

from tests.controls.broken_torch import OF_REPLICAS
from tests.controls.generic import apart_with


def with_config(script, **changed):
    """The engine gets these values in place of the script's, or its own defaults where they are None."""
    deepspeed = script["deepspeed"]

    def initialize(*, config, initialize=deepspeed.initialize, **options):
        config = {name: value for name, value in (config | changed).items() if value is not None}
        return initialize(config=config, **options)

    return patch.object(deepspeed, "initialize", initialize)


def without_average():
    """ZeRO's optimizer adds up the gradients, as engines whose pipelines have averaged them ask for."""

    def configure(engine, optimizer, configure=DeepSpeedEngine._configure_zero_optimizer):
        engine.gradient_average = False
        return configure(engine, optimizer)

    return patch.object(DeepSpeedEngine, "_configure_zero_optimizer", configure)


CONTROLS = OF_REPLICAS | {
    "sum": lambda script: without_average(),
    "clipped": lambda script: with_config(script, gradient_clipping=None),
    "accumulated": lambda script: with_config(script, gradient_accumulation_steps=2),
    "exchanged_in_float16": lambda script: with_config(script, communication_data_type="fp16"),
    "skipped_broadcast": lambda script: apart_with(
        patch.object(DeepSpeedEngine, "_broadcast_model", lambda engine: None)
    ),
}
