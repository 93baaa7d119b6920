"""Every strategy against the float64 oracle: started as a user starts it, and in the grid one case after the other."""

import dataclasses

import numpy as np
import pytest
from safetensors.numpy import load_file

from common.contract import dataset, model
from common.contract.dataset import Dataset
from common.contract.model import Computed, State
from common.contract.oracle import LOSS_TOLERANCE
from common.contract.rows import RowOrder
from common.contract.task import Task, maths_of
from common.contract.work import Work
from common.declarations.catalogue import strategies
from common.declarations.strategy import SHARDING_OF
from common.records.certificate import NOT_COMPARED, final_weights
from tests.conftest import oracle_of, weight_deviation
from tests.contract.worlds import (
    ALONE,
    ASYNCHRONOUS,
    FOLLOWING,
    HOSTILE,
    INTERRUPTED,
    OPTIMIZER,
    PROXIES,
    WORLDS,
    cases_of,
    contract_task,
    grid_of,
    launches,
    of_kind,
    optimizers,
    synchronous,
    worlds,
)
from tests.launching import assert_follows, require_private_networks

COPIES_BY_WORK = {
    Work.UNDISTRIBUTED: (1, 1, 1),
    Work.REPLICAS_IN_ONE_PROCESS: (2, 2, 2),
    Work.DATA_PARALLEL: (2, 2, 2),
    # The coordinator writes the record, and it holds nothing of the model.
    Work.COORDINATED: (0, 0, 0),
    Work.PARTS_OF_ONE_MODEL: (1, 1, 1),
}
"""Copies of the parameters, of their gradients and of the momentum, in all processes of two workers together."""

WEIGHT_TOLERANCE, MOMENTUM_TOLERANCE = 5e-6, 2e-5
"""Gradients are smaller than weights, so that the same rounding is a larger part of them."""


@pytest.mark.parametrize(("strategy", "preset", "workers", "options"), launches())
def test_a_launch_of_its_own_follows_the_oracle(strategy, preset, workers, options, launch, comparison_of, tmp_path):
    changed = {} if options else {"activation": "tanh"} | optimizers(strategies()[strategy], workers)[0]
    task = contract_task(preset, workers, tmp_path, **changed)
    launched = launch(strategy, task, **strategies()[strategy].synchronous_with | options)
    assert_follows(launched, comparison_of(launched))
    assert launched.record.world_size == workers
    assert launched.record.options.items() >= options.items()
    assert launched.record.backend.startswith(options.get("backend", ""))


@pytest.mark.parametrize(("strategy", "case"), of_kind(FOLLOWING))
def test_a_strategy_follows_the_oracle_in_every_case(strategy, case, trained, comparison_of):
    """That what starts apart follows it proves that it is the broadcast that mends it."""
    launched = trained(strategy, case)
    asked = cases_of(strategy, launched.folder)[case]
    assert_follows(launched, comparison_of(launched, asked.task))
    assert launched.record.first_step == (60 if case == "resumed" else 0)
    assert launched.record.options.items() >= asked.options.items()


@pytest.mark.parametrize("strategy", WORLDS)
def test_a_launch_in_a_shell_of_another_world_names_what_it_leaves_out_of_it(strategy, trained):
    [note] = [line for line in trained(strategy, "first").output.splitlines() if "another: " in line]
    assert {*note.partition("another: ")[2].rstrip(".").split(", ")} == {*HOSTILE} - {*PROXIES}


@pytest.mark.parametrize("strategy", [name for name, _ in of_kind(ALONE) if strategies()[name].alone])
def test_without_exchange_every_worker_does_what_the_declaration_says(strategy, trained, comparison_of):
    launched = trained(strategy, "without_exchange")
    assert_follows(launched, comparison_of(launched))
    assert launched.record.recipe == strategies()[strategy].alone.name
    models = 1 if launched.record.recipe == "FIRST_PART" else launched.record.world_size
    assert comparison_of(launched).updates == 5 * models


@pytest.mark.parametrize("strategy", [name for name, _ in of_kind(ALONE) if not strategies()[name].alone])
def test_without_exchange_and_without_a_recipe_of_that_all_rows_are_used_and_all_weights_move(
    strategy, trained, comparison_of
):
    launched = trained(strategy, "without_exchange")
    assert launched.record is not None, launched.output
    comparison = comparison_of(launched)
    assert (comparison.verdict, comparison.note) == (NOT_COMPARED, "no recipe is declared for what it computes")
    assert comparison.examples == comparison.expected_examples
    task, record, data = launched.task, launched.record, dataset.load(launched.task)
    initial, is_sharded = model.initial_weights(task), SHARDING_OF in strategies()[strategy].compared_with
    shards = np.split(RowOrder(len(data.train_labels), task.seed).cut(0, task.batch), record.shards)
    for rank, rows in enumerate(shards):
        weights = _repeated(initial, rank, record.shards) if is_sharded else initial
        first = _in_float64(task, weights, data, rows).loss
        assert record.shard_losses[rank][0] == pytest.approx(first, rel=LOSS_TOLERANCE)
    weights = final_weights(record, launched.folder)
    assert all((weights[name] != initial[name]).mean() > 0.9 for name in initial)


@pytest.mark.parametrize(("strategy", "case"), of_kind(ASYNCHRONOUS))
def test_without_exchange_every_asynchronous_step_goes_on_with_one_workers_own_model(strategy, case, trained):
    """Which worker takes a step is chance: it is the one whose model, trained on its earlier steps alone, has the loss.

    Steps that update a model that all share fail: its losses follow no such model, or follow one that took every step.
    """
    launched = trained(strategy, case)
    task, record = launched.task, launched.record
    assert not record.synchronous
    assert (len(record.losses), sum(record.examples_by_rank)) == (task.steps, task.steps * task.batch)
    initial = {name: value.astype(np.float64) for name, value in model.initial_weights(task).items()}
    models, taken = [dict(initial) for _ in range(record.world_size)], [0] * record.world_size
    data = dataset.load(task)
    order = RowOrder(len(data.train_labels), task.seed)
    for step, loss in enumerate(record.losses):
        rows = order.cut(step * task.batch, (step + 1) * task.batch)
        results = [_in_float64(task, model, data, rows) for model in models]
        worker = min(range(record.world_size), key=lambda number: abs(results[number].loss - loss))
        assert loss == pytest.approx(results[worker].loss, rel=LOSS_TOLERANCE), f"step {step}, after {taken} steps"
        model.update(task, models[worker], results[worker].gradients, step)
        taken[worker] += 1
    assert min(taken) > 0
    kept, names = final_weights(record, launched.folder), model.parameter_names(task)
    deviations = [weight_deviation(kept, {name: model[name] for name in names}) for model in models]
    assert min(deviations) < WEIGHT_TOLERANCE


def _in_float64(task: Task, weights: State, data: Dataset, rows: np.ndarray) -> Computed:
    """What these rows give by the contract."""
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    return model.loss_and_gradients(task, exact, data.train_features[rows].astype(np.float64), data.train_labels[rows])


def _repeated(weights: State, rank: int, workers: int) -> State:
    """What a worker has in place of all parameters that gathers none: its own part of their outputs, repeated."""
    parts = {name: np.split(value, workers, axis=-1)[rank] for name, value in weights.items()}
    return {name: np.concatenate([part] * workers, axis=-1) for name, part in parts.items()}


@pytest.mark.parametrize("strategy", WORLDS)
def test_checkpoints_on_the_way_are_measured_and_the_last_one_is_gone_on_from(strategy, trained):
    interrupted, resumed = trained(strategy, INTERRUPTED).record, trained(strategy, "resumed").record
    steps = [each.step for each in interrupted.accuracies]
    assert steps == [25, 50, 60]
    task = interrupted.task
    data = dataset.load(task)
    for each in interrupted.accuracies:
        state = oracle_of(maths_of(task), interrupted.examples_per_step, each.step).state
        expected = model.accuracy(task, state, data.test_features, data.test_labels)
        # Two classes may be as near as float32 can tell for one row.
        assert abs(each.accuracy - expected) <= 1 / len(data.test_labels)
    assert (resumed.first_step, resumed.accuracies[0].step) == (60, 100)


@pytest.mark.parametrize("strategy", WORLDS)
def test_the_momentum_that_is_saved_is_the_oracles_too(strategy, trained):
    """Keras keeps another momentum than torch: with that, each strategy can go on with a checkpoint of any other."""
    launched = trained(strategy, "momentum" if "momentum" in cases_of(strategy) else "first")
    task = launched.task
    expected = oracle_of(maths_of(task), launched.record.examples_per_step, task.steps).state
    saved = load_file(launched.folder / launched.record.checkpoint)
    momenta = [{name: state[name] for name in expected if name.endswith(".momentum")} for state in (saved, expected)]
    assert len(momenta[0]) == len(model.parameter_names(task))
    assert weight_deviation(*momenta) < MOMENTUM_TOLERANCE


@pytest.mark.parametrize("strategy", WORLDS)
def test_every_copy_of_the_parameters_their_gradients_and_the_momentum_is_held_bytes(strategy, trained):
    launched, declared = trained(strategy, "first"), strategies()[strategy]
    names = ("parameters", "gradients", "optimizer_state")
    held = [sum((getattr(process, name) or 0) for process in launched.record.memory_bytes) for name in names]
    weights = model.parameter_bytes(launched.task)
    *copies, momenta = declared.copies or COPIES_BY_WORK[declared.work]
    momenta *= bool(launched.task.momentum)
    repeated_bytes = declared.repeated_bytes(launched.task)
    assert held == [copies and copies * weights + repeated_bytes for copies in (*copies, momenta)]


@pytest.mark.parametrize("strategy", WORLDS)
def test_a_step_sends_the_bytes_of_the_algorithm_that_the_library_runs(strategy, trained):
    require_private_networks()
    launched, declared = trained(strategy, "pathway"), strategies()[strategy]
    record = launched.record
    assert record.private_network
    if record.formula_bytes_per_step is None:
        assert record.wire_bytes_per_step > 0
        return
    traffic = declared.traffic(model.parameter_bytes(launched.task), record.world_size, synchronous(declared))
    assert record.formula_bytes_per_step == traffic.bytes_per_step
    expected = traffic.sent_over_formula * traffic.bytes_per_step
    assert record.wire_bytes_per_step == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("strategy", "case"), of_kind(ALONE, ASYNCHRONOUS))
def test_without_exchange_no_gradient_is_sent(strategy, case, trained):
    """What coordinates the workers is sent all the same: numbers of rows to servers' workers, Horovod's agreements."""
    require_private_networks()
    record = trained(strategy, case).record
    assert record.synchronous is (cases_of(strategy)[case].kind == ALONE)
    assert not record.exchange
    assert record.wire_bytes_per_step < model.parameter_bytes(record.task) / 2


@pytest.mark.grid
@pytest.mark.parametrize(
    ("strategy", "workers", "case"),
    [(*world, case) for world in dict.fromkeys([*worlds("digits"), *worlds("pathway")]) for case in grid_of(*world)],
)
def test_the_grid_follows_the_oracle(strategy, workers, case, trained, comparison_of):
    launched = trained(strategy, case, workers)
    assert_follows(launched, comparison_of(launched))
    assert launched.record.world_size == workers


@pytest.mark.grid
def test_a_checkpoint_goes_from_framework_to_framework_and_to_other_numbers_of_workers(launch, comparison_of, tmp_path):
    ways = {each.family.title: each for each in reversed(strategies().values()) if each.work is Work.DATA_PARALLEL}
    workers = (2, 1, 4, 2, 1, 4)
    assert 4 <= len(ways) <= len(workers)
    for done, (strategy, size) in enumerate(zip(ways.values(), workers, strict=False), start=1):
        task = contract_task("digits", size, tmp_path, activation="tanh", steps=25 * done, **OPTIMIZER)
        launched = launch(strategy.name, dataclasses.replace(task, warmup_steps=5))
        assert_follows(launched, comparison_of(launched))
        assert (launched.record.first_step, launched.record.world_size) == (25 * (done - 1), size)
