"""Options that change speed but not maths: every strategy that has one follows the oracle with it.

And those that change the maths on purpose: they train, and the oracle sees the difference.
"""

import pytest

from common.declarations.catalogue import find, strategies
from common.launching.launch import python_for
from common.records.certificate import OTHER_MATHS
from tests.conftest import run_command
from tests.contract.cases import WORLDS, case_of, with_option
from tests.contract.worlds import (
    acts_in_a_joined_world,
    can_have,
    contract_task,
    optimizers,
    options_to_try,
    synchronous,
)
from tests.launching import assert_follows

CASES = options_to_try(other_maths=False)
CHANGED = options_to_try(other_maths=True)
OF_WORLDS = [
    (name, option, value)
    for name, option, value in CASES + CHANGED
    if not acts_in_a_joined_world(name, WORLDS[name], option, value)
]

BOUNDS = {
    "gradient_hook": 0.1,
    "precision": 0.02,
    "local_steps": 0.4,
    "outer_momentum": 2.0,
    "compression": 0.01,
    "adasum": 2.0,
}
"""For the largest relative deviation of a loss from the oracle's: 2 to 8 times the largest seen."""


OFTEN = ("backend", "jit_compile", "adasum", "gradient_hook")
"""Options of a world that every run of the tests tries; the others tune a library, and are tried in the grid."""


def marks_of(name, option):
    """None where it is tried always: with the last strategy of the quick profile that has it, else with the last."""
    having = [each for each, other, _ in OF_WORLDS if other == option]
    last = ([each for each in having if strategies()[each].quick] or having)[-1]
    return [] if option in OFTEN and name == last else [pytest.mark.grid]


def tried_options(strategy):
    """Every option that the strategy has, at the last of its values to try, but for the launcher's."""
    return {option: value for name, option, value in CASES if name == strategy and option != "backend"}


def launch_with(strategy, options, preset, launch, folder, **overrides):
    """Start the strategy with two workers, or with one where it takes no more with these options."""
    declared = find(strategy)
    workers = 2 if can_have(declared, 2, synchronous(declared, **options), preset, **overrides) else 1
    task = contract_task(preset, workers, folder, **overrides)
    return launch(strategy, task, **declared.synchronous_with, **options)


@pytest.mark.parametrize(("strategy", "case"), [(name, case) for name in WORLDS for case in with_option(name, False)])
def test_a_strategy_follows_the_oracle_with_an_option(strategy, case, trained, comparison_of):
    launched = trained(strategy, case)
    assert_follows(launched, comparison_of(launched, case_of(strategy, case, launched.folder).task))
    option, value = with_option(strategy, False)[case]
    assert launched.record.options[option] == value


def in_worlds(cases):
    """The options of a world on digits, and in the grid every option on pathway, whose messages fill buckets."""
    return [
        *(pytest.param(*case, "digits", marks=marks_of(*case[:2])) for case in cases if case in OF_WORLDS),
        *(pytest.param(*case, "pathway", marks=[pytest.mark.grid]) for case in cases),
    ]


@pytest.mark.parametrize(("strategy", "option", "value", "preset"), in_worlds(CASES))
def test_a_strategy_follows_the_oracle_in_a_world_with_an_option(
    strategy, option, value, preset, launch, comparison_of, tmp_path
):
    launched = launch_with(strategy, {option: value}, preset, launch, tmp_path)
    assert_follows(launched, comparison_of(launched))
    assert launched.record.options[option] == value


OF_A_LIBRARY = [
    {"momentum": 0.9, "final_learning_rate": 0.1},
    {"weight_decay": 0.01},
    {"weight_decay": 0.01, "final_learning_rate": 0.05, "decay_steps": 50},
]
"""What an optimizer of a library's does as the contract has it, although it can't do all of that together."""


def other_worlds():
    """Strategies with presets, numbers of workers, options and optimizers that no other test has."""
    for strategy, option, value in CASES:
        if (option, value) == ("backend", "mpi"):
            yield from (
                (strategy, preset, size, {option: value}, {}) for preset in ("digits", "pathway") for size in (1, 4)
            )
        if option == "jit_compile" and can_have(find(strategy), 4, find(strategy).options(jit_compile=True), "digits"):
            yield strategy, "digits", 4, {option: True}, {}
    for strategy in WORLDS:
        if len(optimizers(find(strategy), WORLDS[strategy])) > 1:
            changes = ({"activation": "tanh"} | optimizer for optimizer in OF_A_LIBRARY)
            yield from ((strategy, "digits", size, {}, changed) for changed in changes for size in (1, 2, 4))


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "preset", "workers", "options", "changed"), [*other_worlds()])
def test_in_other_worlds_too_a_strategy_follows_the_oracle(
    strategy, preset, workers, options, changed, launch, comparison_of, tmp_path
):
    launched = launch(strategy, contract_task(preset, workers, tmp_path, **changed), **options)
    assert_follows(launched, comparison_of(launched))
    assert launched.record.world_size == workers
    assert launched.record.backend.startswith(options.get("backend", ""))


@pytest.mark.grid
@pytest.mark.parametrize("strategy", [name for name in strategies() if len(tried_options(name)) > 1])
def test_a_resumed_run_with_all_options_follows_the_oracle(strategy, launch, comparison_of, tmp_path):
    optimizer = optimizers(find(strategy), WORLDS[strategy])[-1]
    first = launch_with(strategy, tried_options(strategy), "digits", launch, tmp_path, **optimizer, steps=60)
    assert first.status == 0, first.output
    second = launch_with(strategy, tried_options(strategy), "digits", launch, tmp_path, **optimizer)
    assert second.record.first_step == 60
    assert_follows(second, comparison_of(second))


def assert_trains_by_other_maths(launched, comparison, bound):
    assert launched.status == 0, launched.output
    assert (comparison.verdict, comparison.note) == (OTHER_MATHS, "")
    assert comparison.rounding > 1
    assert comparison.loss < bound


@pytest.mark.parametrize(("strategy", "case"), [(name, case) for name in WORLDS for case in with_option(name, True)])
def test_an_option_that_changes_the_maths_trains_and_does_not_follow_the_oracle(strategy, case, trained, comparison_of):
    launched, [option, _] = trained(strategy, case), with_option(strategy, True)[case]
    comparison = comparison_of(launched, case_of(strategy, case, launched.folder).task)
    assert_trains_by_other_maths(launched, comparison, BOUNDS[option])
    assert launched.record.other_maths == [option]


@pytest.mark.parametrize(("strategy", "option", "value", "preset"), in_worlds(CHANGED))
def test_an_option_that_changes_the_maths_of_a_world_trains_and_does_not_follow_the_oracle(
    strategy, option, value, preset, launch, comparison_of, tmp_path
):
    # Adasum between CPUs goes over MPI.
    options = {option: value} | ({"backend": "mpi"} if option == "adasum" else {})
    launched = launch_with(strategy, options, preset, launch, tmp_path)
    assert_trains_by_other_maths(launched, comparison_of(launched), BOUNDS[option])
    assert launched.record.other_maths == [option]


def test_the_bf16_hook_trains_where_this_build_of_torch_takes_it_and_is_refused_elsewhere(
    launch, comparison_of, tmp_path
):
    probe = "import torch.distributed; print(torch.distributed.is_nccl_available())"
    _, has_nccl = run_command([str(python_for(find("torch_ddp"))), "-c", probe])
    launched = launch_with("torch_ddp", {"gradient_hook": "bf16"}, "digits", launch, tmp_path)
    if has_nccl.strip() == "True":
        assert_trains_by_other_maths(launched, comparison_of(launched), 0.05)
        return
    assert launched.status != 0
    assert launched.record is None
    # One from each worker that torchrun didn't end before it came to that.
    lines = [line for line in launched.output.splitlines() if line.startswith("lockstep: ") and "note" not in line]
    assert {line.partition(": D")[0] for line in lines} == {"lockstep: --gradient-hook bf16"}
    assert "[rank" not in launched.output
