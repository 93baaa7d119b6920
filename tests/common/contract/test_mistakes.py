"""common/contract/mistakes.py: what is wrong of a launch is named, with its numbers, and nothing of what is right."""

import dataclasses
from itertools import product

import numpy as np
import pytest

from common.contract.mistakes import CAUSES, MISTAKES, named
from common.contract.oracle import LOSS_FLOOR, LOSS_TOLERANCE, loss_deviation
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
    not_zeroed_of_own,
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
    with_row,
)
from tests.grid import in_grid

COUNTED = "Each worker's gradient counted"
OFTEN = [("digits", "tanh", 0.0), ("mnist_5k", "tanh", 0.9), ("pathway", "relu", 0.9)]
"""Tasks on which right launches are tried in every run of the tests; the others are tried in the grid."""
BIASES = [name for name in NAMES if name.endswith(".bias")]


def taught(task=TASK, **changed):
    return {"task": task, "taught": dataclasses.replace(task, **changed)}


def apart(combine, **changed):
    return {"combine": combine, "replicas": 2} | changed


# By the mistake's name, or that of its cause: how to make it, and what has to be said of it.
MADE = {
    "frozen": ({"sgd": sgd_but(["layer1.weight"])}, "In layer1.weight alone: It didn't move."),
    "not sent": (
        {"combine": of_own, "sgd": sgd_of_given, "replicas": 2},
        "It moved where a worker updates it and stood still on others: updated parameters aren't sent to all.",
    ),
    "micro-batches summed": (
        {"workers": 4, "combine": scaled(2), "declare": in_micro_batches},
        f"{COUNTED} 0.50 instead of 0.25, as many times as a step has micro-batches",
    ),
    "summed": ({"combine": scaled(2)}, f"{COUNTED} 1.00 instead of 0.50: summed, not averaged."),
    "rate times workers": (
        taught(learning_rate=0.2),
        f"{COUNTED} 1.00 instead of 0.50, and the weight decay as many times more: the learning rate is multiplied by",
    ),
    "dampened": (
        {"sgd": sgd_with(kept=0.5)},
        "After the first step each worker's gradient counted 0.25 instead of 0.50: the momentum is dampened.",
    ),
    "averaged twice": ({"combine": scaled(0.5)}, f"{COUNTED} 0.25 instead of 0.50: averaged twice."),
    "not exchanged": (apart(own), "Each replica counted its own worker's gradient alone: gradients aren't exchanged."),
    "rank 0's alone": (
        {"combine": lambda gradients, replica: gradients[0]},
        "The first worker's gradient counted, and no other's did",
    ),
    "exchanged": ({"recipe": Recipe.OWN_SHARD}, f"{COUNTED} 0.50: gradients are exchanged, although they should stay"),
    "sum over rows": ({"combine": scaled(32)}, f"{COUNTED} 16.00 instead of 0.50, as often as it has rows"),
    "one step old": (
        {"combine": one_step_old()},
        "This step's gradients counted nothing, and those of the step before did",
    ),
    "not zeroed": (
        {"task": PLAIN, "combine": not_zeroed()},
        "Gradients of earlier steps counted again: they aren't set to zero.",
    ),
    "nesterov": (
        {"sgd": sgd_with(ahead=1)},
        f"{COUNTED} 0.75 instead of 0.50, and that of the step before -0.50: Nesterov's momentum.",
    ),
    "momentum lost": (taught(momentum=0.0), "The update before counted nothing instead of 0.50: the momentum is lost"),
    "other momentum": (taught(momentum=0.9), "The update before counted 0.90 instead of 0.50."),
    "decay missing": (taught(weight_decay=0.0), "The weights counted 0.00 instead of 0.001: there is no weight decay."),
    "decoupled decay": (
        {"sgd": sgd_with(decoupled=True)},
        "The weights counted 0.0005 instead of 0.001: the decay isn't in the momentum, as in AdamW.",
    ),
    "other decay": (taught(weight_decay=0.01), "The weights counted 0.01 instead of 0.001."),
    "accumulated": ({"combine": scaled(3)}, f"{COUNTED} 1.50 instead of 0.50, a whole number of times"),
    "other rate": (taught(learning_rate=0.13), f"{COUNTED} 0.65 instead of 0.50, and the weight decay as many times:"),
    "factor": ({"combine": scaled(0.3)}, f"{COUNTED} 0.15 instead of 0.50: the loss or the gradients are scaled."),
    "clipped": ({"combine": clipped}, "instead of 0.50, another number in each step: gradients are clipped"),
    "worker left out": (
        {"workers": 4, "combine": lambda gradients, replica: mean_of(gradients[:3])},
        "Gradients of some workers counted nothing: 0.33, 0.33, 0.33, 0.00.",
    ),
    "mean of means": (
        {"declare": by_rows},
        "Gradients counted 0.50, 0.50 instead of 0.75, 0.25: means over different numbers of rows or tokens",
    ),
    "uneven": (
        {
            "combine": lambda gradients, replica: {
                name: np.float32(0.7) * value + np.float32(0.3) * gradients[1][name]
                for name, value in gradients[0].items()
            }
        },
        "Workers counted 0.70, 0.30 instead of 0.50 each",
    ),
    "maximum": (
        {"combine": lambda gradients, replica: {name: np.maximum(*(g[name] for g in gradients)) for name in NAMES}},
        "An update is the largest of the workers' gradients, element by element: reduced by a maximum.",
    ),
    "activation": (taught(activation="relu"), "The updates are those of a network with another activation."),
    "rounded": (
        {"combine": combined(upper_half)},
        "Residuals of up to 2e-03 stand beside counts as declared: gradients or weights are rounded to 16 bits.",
    ),
    "rows": (
        {"rows": with_row(lambda rows: np.concatenate([rows[1:2], rows[1:]]))},
        "In step 0 rows counted otherwise than once: row 0 0.00 times, row 1 2.00 times.",
    ),
}
OTHERS = {
    "nothing": ({}, None),
    "a right sum of four": ({"workers": 4}, None),
    "a layer not exchanged": (
        apart(only([name for name in NAMES if "layer1" not in name])),
        "In layer1.weight, layer1.bias alone: Each replica counted its own",
    ),
    "biases not exchanged": (
        apart(only([name for name in NAMES if name not in BIASES])),
        "In the biases alone: Each replica counted its own",
    ),
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
}


@pytest.mark.parametrize("mistake", [*MADE, *OTHERS])
def test_a_mistake_is_named_alone_with_its_numbers_and_a_remedy(mistake):
    changed, sentence = (MADE | OTHERS)[mistake]
    said = mistakes_of(**changed)
    assert len(said) == (0 if sentence is None else 1), said
    assert all(sentence in each for each in said), said
    of_table = {each.name: each.remedy for each in MISTAKES} | {name: remedy for name, (_, remedy) in CAUSES.items()}
    assert mistake not in of_table or said[0].endswith(of_table[mistake])


def test_every_mistake_of_the_table_is_made_here_and_what_fits_none_says_so():
    assert [*MADE] == [*(each.name for each in MISTAKES), *CAUSES]
    draw = np.random.default_rng(0)
    [said] = mistakes_of(combine=combined(lambda value: draw.standard_normal(value.shape).astype(np.float32)))
    assert said.startswith("It is none of the known mistakes: no sum of gradients explains ")
    [said] = mistakes_of(
        combine=lambda gradients, replica: {
            name: np.float32(0.9) * gradients[0][name] + np.float32(0.7) * gradients[1][name] for name in NAMES
        }
    )
    assert said.startswith(
        "Its counts are none of the known mistakes: in step 0 the workers' shares of layer0.weight are 0.90, 0.70"
    )


@pytest.mark.parametrize(
    ("changed", "first", "second"),
    [
        ({"combine": scaled(2)} | taught(weight_decay=0.0), "summed, not averaged", "there is no weight decay"),
        ({"combine": scaled(2), "sgd": sgd_with(ahead=1)}, "summed, not averaged", "Nesterov's momentum"),
        (
            {"combine": combined(lambda value: 2 * upper_half(value))},
            "summed, not averaged",
            "are rounded to 16 bits",
        ),
        ({"combine": scaled(2), "begin": moved}, "from the contract's", "summed, not averaged"),
        (
            {"combine": not_zeroed_of_own(), "sgd": sgd_of_given, "replicas": 2},
            "updated parameters aren't sent to all",
            "they aren't set to zero",
        ),
    ],
)
def test_two_mistakes_are_told_as_two(changed, first, second):
    said = mistakes_of(**changed)
    assert len(said) == 2
    assert first in said[0]
    assert second in said[1]


def test_steps_that_no_sum_explains_are_not_called_right():
    """With momentum only the first updates tell that gradients aren't set to zero."""
    [said] = mistakes_of(combine=not_zeroed())
    assert said.startswith("Gradients of earlier steps counted again")


def test_a_framework_has_its_own_words_for_a_remedy():
    [said] = named(*launched(combine=scaled(2)), {"summed": "Do it so."})
    assert said.endswith("summed, not averaged. Do it so.")


def test_each_process_of_a_divided_model_has_the_loss_of_the_whole_batch():
    divided = {"recipe": Recipe.WHOLE_BATCH, "rows": lambda task, step, workers: shards(task, step, 1) * workers}
    assert mistakes_of(**divided) == ()
    # Processes that have the losses of their halves don't have the batch's.
    [said] = mistakes_of(recipe=Recipe.WHOLE_BATCH)
    assert "loss" in said


@pytest.mark.parametrize("recipe", [Recipe.OWN_SHARD, Recipe.OWN_PART])
def test_without_exchange_each_replica_may_differ_and_has_its_own_share(recipe):
    factor = np.float32(1 if recipe is Recipe.OWN_SHARD else 0.5)
    alone = apart(lambda gradients, replica: {name: factor * value for name, value in gradients[replica].items()})
    assert mistakes_of(recipe=recipe, **alone) == ()
    [said] = mistakes_of(recipe=recipe, combine=mean_of)
    assert said.startswith(f"{COUNTED} 0.50: gradients are exchanged, although they should stay where they are.")


@pytest.mark.parametrize(
    ("preset", "activation", "momentum"),
    in_grid(product(["digits", "mnist_5k", "pathway"], ["relu", "tanh"], [0.0, 0.9]), OFTEN),
)
def test_float32_gives_no_false_alarm(preset, activation, momentum):
    """Kinks of ReLU included."""
    for seed in range(1 if preset == "pathway" else 3):
        task = dataclasses.replace(PRESETS[preset], activation=activation, momentum=momentum, seed=seed)
        assert mistakes_of(task=task) == ()


def test_a_loss_deviates_relative_to_the_oracles_or_to_a_floor_below_that():
    assert loss_deviation(1.1, 1.0) == pytest.approx(0.1)
    assert loss_deviation(LOSS_FLOOR / 2, LOSS_FLOOR / 4) == pytest.approx(0.25)
    assert loss_deviation(1.0 + 0.9 * LOSS_TOLERANCE, 1.0) < LOSS_TOLERANCE
    assert loss_deviation(None, 1.0) == loss_deviation(float("nan"), 1.0) == float("inf")


def test_a_loss_that_is_not_finite_is_named():
    trained, reading, updates = launched()
    losses = [[None, *of_worker[1:]] for of_worker in trained.losses]
    steps = tuple(
        dataclasses.replace(step, losses=tuple((None if step.step == 0 else loss, own) for loss, own in step.losses))
        for step in reading.steps
    )
    said = named(dataclasses.replace(trained, losses=losses), dataclasses.replace(reading, steps=steps), updates, {})
    assert said == ("The loss of step 0 isn't finite. Look at the rate, and at what is divided by.",)
