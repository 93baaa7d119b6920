"""Options that change speed but not maths: every strategy that has one follows the oracle with it."""

import pytest

from common.config import has_option
from common.launch import UNDISTRIBUTED, strategies
from tests.contract.test_contract import assert_follows, contract_config

# 7 divides neither the warm-up nor a window: some calls are cut short.
VALUES = {"jit_compile": True, "steps_per_call": 7, "input": "tf_data"}
CASES = [(strategy, option) for option in VALUES for strategy in strategies() if has_option(strategy, option)]
ALONE = {"tf_keras_mirrored": ["jit_compile"]}
"""Options that a strategy refuses for more than one worker: Keras would compile all replicas into one XLA program."""
QUICK = [("tf_mirrored", option) for option in VALUES]


def launch_with(strategy, options, preset, launch, folder, **overrides):
    alone = strategy in UNDISTRIBUTED or any(option in ALONE.get(strategy, ()) for option in options)
    workers = 1 if alone else 2
    return launch(strategy, contract_config(preset, workers, folder, **options, **overrides))


@pytest.mark.parametrize(
    ("strategy", "option"), [pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.grid]) for case in CASES]
)
def test_a_strategy_follows_the_oracle_on_digits_with_an_option(strategy, option, launch, deviation_of, tmp_path):
    launched = launch_with(strategy, {option: VALUES[option]}, "digits", launch, tmp_path)
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "option"), CASES)
def test_a_strategy_follows_the_oracle_on_pathway_with_an_option(strategy, option, launch, deviation_of, tmp_path):
    launched = launch_with(strategy, {option: VALUES[option]}, "pathway", launch, tmp_path)
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize("strategy", [name for name in strategies() if has_option(name, "steps_per_call")])
def test_a_resumed_run_with_all_options_follows_the_oracle(strategy, launch, deviation_of, tmp_path):
    optimizer = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05}
    first = launch_with(strategy, VALUES, "digits", launch, tmp_path, **optimizer, steps=60)
    assert first.status == 0, first.output
    second = launch_with(strategy, VALUES, "digits", launch, tmp_path, **optimizer)
    assert second.record.first_step == 60
    assert_follows(second, deviation_of(second))


@pytest.mark.grid
@pytest.mark.parametrize(
    "strategy",
    [name for name in strategies() if has_option(name, "jit_compile") and name not in {*UNDISTRIBUTED, *ALONE}],
)
def test_four_compiled_replicas_follow_the_oracle(strategy, launch, deviation_of, tmp_path):
    launched = launch(strategy, contract_config("digits", 4, tmp_path, jit_compile=True))
    assert_follows(launched, deviation_of(launched))
