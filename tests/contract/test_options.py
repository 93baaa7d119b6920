"""Options that change speed but not maths: every strategy that has one follows the oracle with it.

And those that change the maths on purpose: they train, and the oracle sees the difference.
"""

import pytest

from common.config import has_option
from common.launch import UNDISTRIBUTED, python_for, strategies
from tests.conftest import run_command
from tests.contract.test_contract import REFUSED, assert_follows, contract_config

VALUES = [
    ("jit_compile", True),
    # 7 divides neither the warm-up nor a window: some calls are cut short.
    ("steps_per_call", 7),
    ("input", "tf_data"),
    # So little that even the gradients of digits fill several buckets.
    ("bucket_megabytes", 0.02),
    ("static_graph", True),
    ("bucket_views", False),
    ("loader_workers", 2),
    ("fusion_megabytes", 0.0),
    ("cycle_milliseconds", 0.2),
    ("autotune", True),
    ("trace", True),
    ("micro_batches", 1),
    ("micro_batches", 8),
]
CASES = [(name, option, value) for option, value in VALUES for name in strategies() if has_option(name, option)]
ALONE = {"tf_keras_mirrored": ["jit_compile"]}
"""Options that a strategy refuses for more than one worker: Keras would compile all replicas into one XLA program."""
QUICK = {
    *(("tf_mirrored", option) for option in ("jit_compile", "steps_per_call", "input")),
    *(("torch_ddp", option) for option in ("bucket_megabytes", "static_graph", "bucket_views", "loader_workers")),
    ("torch_hook_ddp", "bucket_megabytes"),
    ("torch_model_parallel", "micro_batches"),
}

OTHER_MATHS = [
    ("gradient_hook", "fp16", 0.01),
    ("gradient_hook", "powersgd", 0.1),
    ("bf16_autocast", True, 0.02),
    ("compression", "fp16", 0.01),
    ("adasum", True, 2.0),
]
"""Each with a bound for the largest relative deviation of a loss from the oracle's: 2 to 8 times the largest seen."""


def options_of(strategy):
    """Every option that the strategy has, at the last of its values."""
    return {option: value for name, option, value in CASES if name == strategy}


def launch_with(strategy, options, preset, launch, folder, **overrides):
    alone = strategy in UNDISTRIBUTED or any(option in ALONE.get(strategy, ()) for option in options)
    workers = 1 if alone else 2
    return launch(strategy, contract_config(preset, workers, folder, **options, **overrides))


@pytest.mark.parametrize(
    ("strategy", "option", "value"),
    [pytest.param(*case, marks=[] if case[:2] in QUICK else [pytest.mark.grid]) for case in CASES],
)
def test_a_strategy_follows_the_oracle_on_digits_with_an_option(
    strategy, option, value, launch, deviation_of, tmp_path
):
    launched = launch_with(strategy, {option: value}, "digits", launch, tmp_path)
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(("strategy", "option", "value"), CASES)
def test_a_strategy_follows_the_oracle_on_pathway_with_an_option(
    strategy, option, value, launch, deviation_of, tmp_path
):
    launched = launch_with(strategy, {option: value}, "pathway", launch, tmp_path)
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize("strategy", [name for name in strategies() if len(options_of(name)) > 1])
def test_a_resumed_run_with_all_options_follows_the_oracle(strategy, launch, deviation_of, tmp_path):
    options = {"momentum": 0.5, "weight_decay": 0.001, "final_learning_rate": 0.05}
    if strategy in REFUSED:
        options = {"momentum": 0.5}
    first = launch_with(strategy, options_of(strategy), "digits", launch, tmp_path, **options, steps=60)
    assert first.status == 0, first.output
    second = launch_with(strategy, options_of(strategy), "digits", launch, tmp_path, **options)
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


@pytest.mark.parametrize("preset", ["digits", "pathway"])
@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.grid), 2, pytest.param(4, marks=pytest.mark.grid)]
)
def test_sync_sgd_over_mpi_follows_the_oracle(workers, preset, launch, deviation_of, tmp_path):
    launched = launch("torch_sync_sgd", contract_config(preset, workers, tmp_path, backend="mpi"))
    assert_follows(launched, deviation_of(launched))
    assert (launched.record.backend, launched.record.world_size) == ("mpi, shared memory", workers)


def assert_trains_by_other_maths(launched, deviation, bound):
    assert launched.status == 0, launched.output
    assert not deviation.follows
    assert deviation.loss < bound
    assert deviation.examples == deviation.expected_examples


@pytest.mark.parametrize(
    ("strategy", "option", "value", "bound", "preset"),
    [
        pytest.param(
            *(name, option, value, bound, preset),
            marks=[] if (name, preset) == ("torch_ddp", "digits") else [pytest.mark.grid],
        )
        for preset in ("digits", "pathway")
        for option, value, bound in OTHER_MATHS
        for name in strategies()
        if has_option(name, option)
    ],
)
def test_an_option_that_changes_the_maths_trains_and_does_not_follow_the_oracle(
    strategy, option, value, bound, preset, launch, deviation_of, tmp_path
):
    # Adasum between CPUs goes over MPI.
    options = {option: value} | ({"backend": "mpi"} if option == "adasum" else {})
    launched = launch_with(strategy, options, preset, launch, tmp_path)
    assert_trains_by_other_maths(launched, deviation_of(launched), bound)


def test_the_bf16_hook_trains_where_this_build_of_torch_takes_it_and_is_refused_elsewhere(
    launch, deviation_of, tmp_path
):
    probe = "import torch.distributed; print(torch.distributed.is_nccl_available())"
    _, has_nccl = run_command([str(python_for("torch")), "-c", probe])
    launched = launch_with("torch_ddp", {"gradient_hook": "bf16"}, "digits", launch, tmp_path)
    if has_nccl.strip() == "True":
        assert_trains_by_other_maths(launched, deviation_of(launched), 0.05)
        return
    assert launched.status != 0
    assert launched.record is None
    # One from each worker that torchrun didn't end before it came to that.
    lines = [line for line in launched.output.splitlines() if line.startswith("lockstep: ") and "note" not in line]
    assert {line.partition(": D")[0] for line in lines} == {"lockstep: --gradient-hook bf16"}
    assert "[rank" not in launched.output
