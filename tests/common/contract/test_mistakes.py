"""common/contract/mistakes.py: what is wrong of a launch is named, with its numbers, and nothing of what is right."""

import dataclasses
from itertools import product

import pytest

from common.contract.mistakes import CAUSES, MISTAKES, named
from common.contract.task import PRESETS
from tests.common.contract.launches_in_numpy import MADE, OTHERS, TWO, launched
from tests.grid import in_grid


@pytest.mark.parametrize("mistake", [*MADE, *OTHERS])
def test_a_mistake_is_named_alone_with_its_numbers_and_its_remedy_in_a_frameworks_words(mistake):
    changed, sentence = (MADE | OTHERS)[mistake]
    mistakes = named(*launched(**changed), {name: f"Remedy: {name}." for name in MADE})
    if sentence is None:
        assert mistakes == ()
        return
    [said] = mistakes
    # Words that begin with a capital are the beginning: without them it would be of some tensors or steps alone.
    assert said.startswith(sentence) if sentence[0].isupper() else sentence in said
    name = mistake.partition(",")[0]
    assert name not in MADE or said.endswith(f"Remedy: {name}.")


def test_every_mistake_of_the_table_is_made_here():
    assert [*MADE] == [*(each.name for each in MISTAKES), *CAUSES]


@pytest.mark.parametrize(("changed", "first", "second"), TWO)
def test_two_mistakes_are_told_as_two_with_the_tables_remedies(changed, first, second):
    [of_first, of_second] = named(*launched(**changed), {})
    assert first in of_first
    assert second in of_second


OFTEN = [("digits", "tanh", 0.0), ("mnist_5k", "tanh", 0.9), ("pathway", "relu", 0.9)]


@pytest.mark.parametrize(
    ("preset", "activation", "momentum"),
    in_grid(product(["digits", "mnist_5k", "pathway"], ["relu", "tanh"], [0.0, 0.9]), OFTEN),
)
def test_float32_gives_no_false_alarm_even_at_kinks(preset, activation, momentum):
    for seed in range(1 if preset == "pathway" else 3):
        task = dataclasses.replace(PRESETS[preset], activation=activation, momentum=momentum, seed=seed)
        assert named(*launched(task=task), {}) == ()
