"""Names say which options make a launch another variant of its strategy, and nothing else."""

import dataclasses

import pytest

from common.config import PRESETS
from common.names import shown_name, variant


@pytest.mark.parametrize("preset", PRESETS)
def test_the_defaults_show_the_bare_name(preset):
    assert shown_name("tf_mirrored", PRESETS[preset]) == "tf_mirrored"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jit_compile": True}, ["jit_compile"]),
        ({"steps_per_call": 5, "jit_compile": True}, ["jit_compile", "5 steps per call"]),
        ({"input": "tf_data"}, ["tf_data input"]),
        ({"updates": "synchronous", "parameter_servers": 2}, ["2 parameter servers", "synchronous updates"]),
        ({"bucket_views": False, "loader_workers": 2}, ["no bucket_views", "2 loader workers"]),
        ({"backend": "mpi"}, ["mpi backend"]),
        ({"gradient_hook": "fp16"}, ["fp16 gradient hook", "other maths"]),
        ({"bf16_autocast": True}, ["bf16_autocast", "other maths"]),
        ({"compression": "fp16"}, ["fp16 compression", "other maths"]),
        ({"backend": "mpi", "adasum": True}, ["mpi backend", "adasum", "other maths"]),
        ({"fusion_megabytes": 0.0, "cycle_milliseconds": 0.5}, ["0.0 fusion megabytes", "0.5 cycle milliseconds"]),
    ],
)
def test_options_that_differ_stand_beside_it_in_words(options, words):
    config = dataclasses.replace(PRESETS["digits"], **options)
    assert variant(config) == words
    assert shown_name("tf_x", config) == ", ".join(["tf_x", *words])


def test_options_of_every_strategy_are_no_variant():
    config = dataclasses.replace(PRESETS["digits"], batch=128, steps=90, exchange=False, scaling="weak")
    assert variant(config) == []
