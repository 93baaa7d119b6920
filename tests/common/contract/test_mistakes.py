"""common/contract/mistakes.py: what is wrong of a launch is named, with its numbers, and nothing of what is right."""

import dataclasses
from itertools import product

import numpy as np
import pytest

from common.contract.mistakes import CAUSES, MISTAKES, named
from common.contract.task import PRESETS
from common.contract.work import Recipe
from tests.common.contract.launches_in_numpy import (
    NAMES,
    PLAIN,
    TASK,
    by_rows,
    clipped,
    combined,
    cut_at,
    in_micro_batches,
    launched,
    mean_of,
    mistakes_of,
    moved,
    moved_apart,
    not_zeroed,
    of_own,
    one_step_old,
    only,
    own,
    scaled,
    sgd_but,
    sgd_of_given,
    sgd_with,
    shards,
    up_to,
    upper_half,
    weighted,
    with_row,
)
from tests.grid import in_grid

COUNTED = "Each worker's gradient counted"
STAY = "gradients are exchanged, although they should stay where they are."
BIASES = [name for name in NAMES if name.endswith(".bias")]
BUT_LAYER_1 = [name for name in NAMES if "layer1" not in name]
BUT_BIASES = [name for name in NAMES if name not in BIASES]


def taught(task=TASK, **changed):
    return {"task": task, "taught": dataclasses.replace(task, **changed)}


def apart(combine, **changed):
    return {"combine": combine, "replicas": 2} | changed


def part_of_own(gradients, replica):
    return {name: np.float32(0.5) * value for name, value in gradients[replica].items()}


def largest(gradients, replica):
    return {name: np.maximum(*(each[name] for each in gradients)) for name in NAMES}


def whole_batches(task, step, workers):
    return shards(task, step, 1) * workers


# By the mistake's name, or that of its cause: how to make it, and the numbers, or the beginning of what is said.
MADE = {
    "frozen": ({"sgd": sgd_but(["layer1.weight"])}, "In layer1.weight alone: It didn't move."),
    "not sent": (apart(of_own, sgd=sgd_of_given), "It moved where a worker updates it and stood still on others"),
    "micro-batches summed": (
        {"workers": 4, "combine": scaled(2), "declare": in_micro_batches},
        f"{COUNTED} 0.50 instead of 0.25",
    ),
    "summed": ({"combine": scaled(2)}, f"{COUNTED} 1.00 instead of 0.50"),
    "rate times workers": (taught(learning_rate=0.2), f"{COUNTED} 1.00 instead of 0.50, and the weight decay as many"),
    "dampened": (
        {"sgd": sgd_with(kept=0.5)},
        "After the first step each worker's gradient counted 0.25 instead of 0.50",
    ),
    "averaged twice": ({"combine": scaled(0.5)}, f"{COUNTED} 0.25 instead of 0.50"),
    "not exchanged": (apart(own), "Each replica counted its own worker's gradient alone"),
    "rank 0's alone": ({"combine": weighted(1, 0)}, "The first worker's gradient counted, and no other's did"),
    "exchanged": (apart(mean_of, recipe=Recipe.OWN_SHARD), f"{COUNTED} 0.50: "),
    "sum over rows": ({"combine": scaled(32)}, f"{COUNTED} 16.00 instead of 0.50"),
    "one step old": ({"combine": one_step_old()}, "This step's gradients counted nothing"),
    "not zeroed": ({"task": PLAIN, "combine": not_zeroed()}, "Gradients of earlier steps counted again"),
    "nesterov": (
        {"sgd": sgd_with(ahead=1)},
        f"{COUNTED} 0.75 instead of 0.50, and that of the step before -0.50",
    ),
    "momentum lost": (taught(momentum=0.0), "The update before counted nothing instead of 0.50"),
    "other momentum": (taught(momentum=0.9), "The update before counted 0.90 instead of 0.50."),
    "decay missing": (taught(weight_decay=0.0), "The weights counted 0.00 instead of 0.001"),
    "decoupled decay": ({"sgd": sgd_with(decoupled=True)}, "The weights counted 0.0005 instead of 0.001"),
    "other decay": (taught(weight_decay=0.01), "The weights counted 0.01 instead of 0.001."),
    "accumulated": ({"combine": scaled(3)}, f"{COUNTED} 1.50 instead of 0.50, a whole number of times"),
    "other rate": (taught(learning_rate=0.13), f"{COUNTED} 0.65 instead of 0.50, and the weight decay as many times:"),
    "factor": ({"combine": scaled(0.3)}, f"{COUNTED} 0.15 instead of 0.50"),
    "clipped": ({"combine": clipped}, "instead of 0.50, another number in each step"),
    "worker left out": ({"workers": 4, "combine": weighted(1 / 3, 1 / 3, 1 / 3, 0)}, "0.33, 0.33, 0.33, 0.00."),
    "mean of means": ({"declare": by_rows}, "Gradients counted 0.50, 0.50 instead of 0.75, 0.25"),
    "uneven": ({"combine": weighted(0.7, 0.3)}, "Workers counted 0.70, 0.30 instead of 0.50 each"),
    "maximum": ({"combine": largest}, "An update is the largest of the workers' gradients"),
    "activation": (taught(activation="relu"), "The updates are those of a network with another activation."),
    "rounded": ({"combine": combined(upper_half)}, "Residuals of up to 2e-03 stand beside counts as declared"),
    "rows": (
        {"rows": with_row(lambda rows: np.concatenate([rows[1:2], rows[1:]]))},
        "In step 0 rows counted otherwise than once: row 0 0.00 times, row 1 2.00 times.",
    ),
}
OTHERS = {
    "nothing": ({}, None),
    "nothing of four": ({"workers": 4}, None),
    "nothing of a divided model": ({"recipe": Recipe.WHOLE_BATCH, "rows": whole_batches}, None),
    "halves' losses of a divided model": ({"recipe": Recipe.WHOLE_BATCH}, "Worker 0's loss in step 0 is"),
    "nothing without exchange": (apart(own, recipe=Recipe.OWN_SHARD), None),
    "nothing without exchange, of parts": (apart(part_of_own, recipe=Recipe.OWN_PART), None),
    "exchanged parts": (apart(mean_of, recipe=Recipe.OWN_PART), f"{COUNTED} 0.50: {STAY}"),
    "a layer not exchanged": (
        apart(only(BUT_LAYER_1)),
        "In layer1.weight, layer1.bias alone: Each replica counted its own",
    ),
    "biases not exchanged": (apart(only(BUT_BIASES)), "In the biases alone: Each replica counted its own"),
    "no decay of biases": (
        {"sgd": sgd_but(BIASES, dataclasses.replace(TASK, weight_decay=0.0))},
        "In the biases alone: The weights counted 0.00 instead of 0.001",
    ),
    "the same rows": (
        {"rows": lambda task, step, workers: [shards(task, step, workers)[0]] * workers},
        "Worker 1 has the rows of worker 0. Give each worker rows of its own.",
    ),
    "another's rows": (
        {"rows": lambda task, step, workers: shards(task, step, workers)[::-1]},
        "Worker 0 has the rows of worker 1.",
    ),
    "float16": (
        {"combine": combined(lambda value: value.astype(np.float16).astype(np.float32))},
        "e-04 stand beside counts as declared: gradients or weights are rounded to 16 bits.",
    ),
    "a lost row": ({"rows": with_row(lambda rows: rows[1:])}, "row 0 0.00 times"),
    "uneven parts": ({"rows": cut_at(40)}, "In step 0 rows counted 0.80 to 1.30 times: parts of different size are"),
    "the next batch": (
        {"rows": lambda task, step, workers: shards(task, step + 1, workers)},
        "In step 0 64 rows of the next step's batch counted in place of its own.",
    ),
    "another order": (
        {"rows": lambda task, step, workers: shards(task, step + 7, workers)},
        "from that of its rows at the same weights: other rows, another network or another loss.",
    ),
    "other weights": ({"begin": moved}, "The weights before the first step are 6.5e-03 from the contract's."),
    "not broadcast": (
        {"begin": moved_apart, "replicas": 2},
        "Replicas began with different weights: parameters aren't broadcast.",
    ),
    "from a step on": (
        apart(up_to(15, mean_of, own)),
        "From a step after 2 on, 19 at the latest: Each replica counted its own",
    ),
    "up to a step": (apart(up_to(15, own, mean_of)), "Up to a step before 19: Each replica counted its own"),
    "not zeroed, with momentum": ({"combine": not_zeroed()}, "Gradients of earlier steps counted again"),
    "momentum that nobody asked for": (taught(PLAIN, momentum=0.5), "The update before counted 0.50 instead of 0.00."),
    "a sum that the decay cannot tell from a rate": (
        {"task": PLAIN, "combine": scaled(2)},
        f"{COUNTED} 1.00 instead of 0.50: summed, not averaged.",
    ),
    "a loss that isn't finite": (
        {"report": lambda losses: [[None, *of_worker[1:]] for of_worker in losses]},
        "The loss of step 0 isn't finite. Look at the rate, and at what is divided by.",
    ),
    "nothing known": (
        {"combine": combined(np.flip)},
        "It is none of the known mistakes: no sum of gradients explains ",
    ),
    "counts that nothing known gives": (
        {"combine": weighted(0.9, 0.7)},
        "Its counts are none of the known mistakes: in step 0 the workers' shares of layer0.weight are 0.90, 0.70",
    ),
}


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
    assert mistake not in MADE or said.endswith(f"Remedy: {mistake}.")


def test_every_mistake_of_the_table_is_made_here():
    assert [*MADE] == [*(each.name for each in MISTAKES), *CAUSES]


@pytest.mark.parametrize(
    ("changed", "first", "second"),
    [
        ({"combine": scaled(2)} | taught(weight_decay=0.0), "summed, not averaged", "there is no weight decay"),
        ({"combine": scaled(2), "sgd": sgd_with(ahead=1)}, "summed, not averaged", "Nesterov's momentum"),
        (
            {"combine": combined(lambda value: 2 * upper_half(value))},
            "averaged. Divide by the world size",
            "16 bits. Keep them in",
        ),
        ({"combine": scaled(2), "begin": moved}, "from the contract's", "summed, not averaged"),
        (
            apart(
                lambda gradients, replica: {name: 2 * value for name, value in of_own(gradients, replica).items()},
                sgd=sgd_of_given,
            ),
            "updated parameters aren't sent to all",
            "summed, not averaged",
        ),
    ],
)
def test_two_mistakes_are_told_as_two_with_the_tables_remedies(changed, first, second):
    [of_first, of_second] = mistakes_of(**changed)
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
        assert mistakes_of(task=task) == ()
