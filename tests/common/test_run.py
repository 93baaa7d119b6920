"""common/run.py: the measured loop, driven for real by NumPy workers in threads, and by a made-up clock."""

import dataclasses
import json
import re
import threading

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common import dataset, machine, mlp
from common import run as run_module
from common.checkpoint import read_checkpoint
from common.config import Config
from common.errors import LaunchFailedError
from common.metrics import throughput
from common.record import Record, read_record
from common.run import Run

CONFIG = Config(steps=30, warmup_steps=6, window_steps=10)
MOMENTUM = dataclasses.replace(
    CONFIG, steps=40, momentum=0.9, weight_decay=1e-3, learning_rate=0.02, final_learning_rate=0.01, decay_steps=30
)


class Clock:
    """Takes the place of the module `time` in `common.run`: it stands still between its readings unless moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.on_reading = lambda: None

    def perf_counter(self) -> float:
        self.on_reading()
        return self.now

    def time(self) -> float:
        return psutil.Process().create_time() + self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(run_module, "time", clock)
    return clock


@pytest.fixture
def one_worker(tmp_path):
    """A function that makes a Run of one worker, or of the options that it is given."""

    def make(config, **options):
        config = dataclasses.replace(config, record=config.record or tmp_path / "record.json")
        options = {"strategy": "numpy_threads", "framework": "numpy"} | options
        return Run(config, placement=machine.Placement([], oversubscribed=False), **options)

    return make


# The record


def test_the_record_of_a_launch_has_every_key_of_the_schema(numpy_launch):
    launched = numpy_launch(CONFIG, 2, backend="threads", device="cpu")
    values = json.loads(launched.config.record.read_text())
    assert set(values) == {field.name for field in dataclasses.fields(Record)}
    record = launched.record
    assert (record.strategy, record.framework, record.world_size) == ("numpy_threads", "numpy", 2)
    assert (record.status, record.reason, record.scaling, record.synchronous) == ("ok", None, "strong", True)
    assert (record.backend, record.device, record.threads_per_worker) == ("threads", "cpu", 1)
    assert (record.oversubscribed, record.pinned_cores, record.private_network) == (True, [], False)
    assert record.config["steps"] == 30
    assert record.versions["numpy"] == np.__version__
    assert record.host["cores"]
    assert record.data_sha256 == dataset.load(CONFIG).sha256
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", record.started_at)
    assert record.time_to_first_step_s > 0
    assert len(record.losses) == 30
    assert all(loss > 0 for loss in record.losses)
    assert record.first_step == 0
    assert record.wire_bytes_per_step is None
    assert len(record.peak_memory_bytes) == 2
    assert all(2**24 < peak < 2**40 for peak in record.peak_memory_bytes)
    assert 0 < record.final_accuracy <= 1
    assert record.checkpoint is None


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_shards_and_counts_add_up_at_every_world_size(numpy_launch, world_size):
    launched = numpy_launch(CONFIG, world_size)
    record = launched.record
    assert record.examples_per_step == 64
    assert record.examples_by_rank == [30 * 64 // world_size] * world_size
    order = dataset.RowOrder(1437, CONFIG.seed)
    for step in range(30):
        shards = [launched.rows[rank][step] for rank in range(world_size)]
        assert [len(shard) for shard in shards] == [64 // world_size] * world_size
        assert np.array_equal(np.concatenate(shards), order.cut(64 * step, 64 * step + 64))


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_every_ranks_windows_are_recorded_and_the_warm_up_is_in_none(numpy_launch, world_size):
    windows = numpy_launch(CONFIG, world_size).record.windows
    assert [(window["rank"], window["step"], window["steps"]) for window in windows] == [
        (rank, step, steps) for rank in range(world_size) for step, steps in ((6, 10), (16, 10), (26, 4))
    ]
    assert all(window["seconds"] > 0 for window in windows)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_losses_are_those_of_the_global_batch_at_every_world_size(numpy_launch, world_size):
    losses = numpy_launch(CONFIG, world_size).record.losses
    rows, order = dataset.load(CONFIG), dataset.RowOrder(1437, CONFIG.seed)
    cuts = [order.cut(64 * step, 64 * step + 64) for step in range(30)]
    expected = mlp.train(CONFIG, ((rows.train_features[cut], rows.train_labels[cut]) for cut in cuts)).losses
    assert losses == pytest.approx(expected, rel=1e-5)


def test_weak_scaling_gives_each_worker_the_whole_batch_of_its_own(numpy_launch):
    launched = numpy_launch(dataclasses.replace(CONFIG, scaling="weak", batch=16), 4)
    assert launched.record.scaling == "weak"
    assert launched.record.examples_per_step == 64
    assert launched.record.examples_by_rank == [30 * 16] * 4
    assert np.array_equal(
        np.concatenate([launched.rows[rank][3] for rank in range(4)]), dataset.RowOrder(1437, 0).cut(192, 256)
    )


def test_a_process_of_several_replicas_gets_the_rows_of_all_of_them(one_worker):
    run = one_worker(CONFIG, world_size=4, replicas=4)
    batch = next(run.steps())
    assert np.array_equal(batch.rows, dataset.RowOrder(1437, 0).cut(0, 64))


def test_model_parallel_workers_get_the_whole_batch(one_worker):
    run = one_worker(CONFIG, rank=1, world_size=2)
    batch = next(run.steps(whole_batch=True))
    assert np.array_equal(batch.rows, dataset.RowOrder(1437, 0).cut(0, 64))


def test_of_parts_of_one_model_only_rank_0_counts_the_rows(numpy_launch):
    launched = numpy_launch(CONFIG, 2, whole_batch=True, one_model=True)
    assert launched.record.examples_by_rank == [30 * 64, 0]
    uncounted = numpy_launch(CONFIG, 2, whole_batch=True)
    assert uncounted.record.examples_by_rank == [30 * 64, 30 * 64]


def test_a_worker_that_sees_no_loss_leaves_it_to_those_that_do(numpy_launch, capsys):
    def seen_by_the_last(rank_and_loss):
        return rank_and_loss if threading.current_thread() in last else None

    last = set()
    launched = numpy_launch(
        CONFIG,
        2,
        on_step=lambda run, rank: last.add(threading.current_thread()) if rank else None,
        loss_of=seen_by_the_last,
        whole_batch=True,
        one_model=True,
    )
    whole = numpy_launch(CONFIG, 1)
    assert launched.record.losses == pytest.approx(whole.record.losses)
    assert "step    30/30   " in capsys.readouterr().out


def test_replicas_that_are_equal_are_found_equal(numpy_launch):
    numpy_launch(CONFIG, 2, on_step=lambda run, rank: run.check_replicas(run.initial_state))


@pytest.mark.parametrize("bit", [0, 31])
def test_the_first_replica_that_differs_by_a_bit_is_named_with_parameter_and_step(numpy_launch, bit):
    def spoil(run, rank):
        state = {name: value.copy() for name, value in run.initial_state.items()}
        if rank == 1 and len(run._losses) + len(run._pending) == 4:
            state["layer1.bias"].view(np.uint32)[3] ^= 1 << bit
        run.check_replicas(state)

    with pytest.raises(LaunchFailedError, match=r"After step 4 the parameter layer1.bias of rank 1 differs"):
        numpy_launch(CONFIG, 2, on_step=spoil)


def test_replicas_of_one_process_are_compared_too(one_worker):
    run = one_worker(CONFIG, world_size=2, replicas=2)
    other = run.initial_state | {"layer2.weight": run.initial_state["layer2.weight"] + 1}
    run.check_replicas(run.initial_state, run.initial_state)
    with pytest.raises(LaunchFailedError, match=r"layer2.weight of rank 1"):
        run.check_replicas(run.initial_state, other)


def test_what_a_worker_holds_is_in_the_record_with_its_peak(one_worker):
    run = one_worker(CONFIG)
    held = np.ones(10_000_000)
    for _ in run.steps():
        run.observe(held[0])
    run.finish(run.initial_state, {"parameters": 12, "gradients": 12, "optimizer_state": 0})
    [memory] = read_record(run.config.record).memory_bytes
    assert memory.pop("above_import") > 0.9 * held.nbytes
    assert memory == {"parameters": 12, "gradients": 12, "optimizer_state": 0}


def test_waiting_for_rows_is_told_per_window_where_it_is_measured(one_worker):
    run = one_worker(CONFIG)
    run.input_seconds = 0.0
    for _ in run.steps():
        run.input_seconds += 0.25
        run.observe(1.0)
    run.finish(run.initial_state)
    windows = read_record(run.config.record).windows
    assert [window["input_seconds"] for window in windows] == [0.25 * window["steps"] for window in windows]


def test_the_numbers_of_a_steps_rows_are_those_of_its_batch(one_worker):
    run = one_worker(CONFIG, rank=1, world_size=2)
    order = dataset.RowOrder(1437, 0)
    [early, late] = [next(run.rows(step)) for step in (3, 100)]
    assert np.array_equal(early, order.cut(3 * 64 + 32, 4 * 64))
    assert np.array_equal(late, order.cut(100 * 64 + 32, 101 * 64))
    assert len(list(run.rows(3, 7))) == 4
    assert np.array_equal(next(run.rows(3, whole_batch=True)), order.cut(3 * 64, 4 * 64))


def test_without_exchange_the_replicas_drift_apart_and_the_record_says_so(numpy_launch):
    launched = numpy_launch(dataclasses.replace(CONFIG, exchange=False), 2)
    one, other = launched.states
    assert launched.record.config["exchange"] is False
    assert not np.array_equal(one["layer0.weight"], other["layer0.weight"])


def test_with_exchange_the_replicas_stay_the_same(numpy_launch):
    one, other = numpy_launch(CONFIG, 2).states
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_strategy_that_would_ignore_an_option_is_refused_before_training(one_worker, refusal):
    assert "no effect on numpy_threads" in refusal(lambda: one_worker(dataclasses.replace(CONFIG, steps_per_call=2)))


def test_losses_that_are_not_finite_are_recorded_as_null(numpy_launch):
    losses = iter([1.0, float("nan"), float("inf")])
    record = numpy_launch(CONFIG, loss_of=lambda value: next(losses, 2.0)).record
    assert record.losses[:4] == [1.0, None, None, 2.0]


def test_a_record_without_a_name_goes_to_the_results_folder_under_a_new_one(one_worker, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "__file__", str(tmp_path / "common" / "run.py"))
    for _ in range(2):
        run = Run(CONFIG, strategy="numpy_threads", framework="numpy", placement=machine.Placement([], False))
        for _ in run.steps():
            run.observe(1.0)
        run.finish(run.initial_state)
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert len(names) == 2
    assert all(re.fullmatch(r"numpy_threads-digits-strong-1w-\d{8}T\d{12}\.json", name) for name in names)


def test_the_result_is_printed_once_with_throughput_and_the_records_name(numpy_launch, capsys):
    launched = numpy_launch(CONFIG, 2)
    output = capsys.readouterr().out
    assert output.count("numpy_threads on digits") == 1
    assert f"{throughput(launched.record).samples_per_second:,.0f} samples/s" in output
    assert "more threads than cores" in output
    assert "64 (strong scaling)" in output


# Refusals before any step


def test_a_batch_that_does_not_divide_is_refused_before_training(one_worker, refusal):
    assert "--batch 63 or 66" in refusal(lambda: one_worker(CONFIG, world_size=3))


@pytest.mark.parametrize("option", ["record", "checkpoint"])
def test_a_file_that_cannot_be_written_is_refused_before_training(one_worker, refusal, tmp_path, option):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "out"
    assert str(path) in refusal(lambda: one_worker(dataclasses.replace(CONFIG, **{option: path})))


def test_a_folder_as_record_is_refused_before_training(one_worker, refusal, tmp_path):
    assert str(tmp_path) in refusal(lambda: one_worker(dataclasses.replace(CONFIG, record=tmp_path)))


def test_a_damaged_checkpoint_is_refused_before_training(one_worker, refusal, tmp_path):
    path = tmp_path / "state.safetensors"
    path.write_bytes(b"damaged")
    assert str(path) in refusal(lambda: one_worker(dataclasses.replace(CONFIG, checkpoint=path)))


# The clock


def test_each_window_is_as_long_as_its_steps_and_the_median_tells_the_throughput(numpy_launch, clock):
    def two_seconds(run, rank):
        clock.now += 2.0

    record = numpy_launch(CONFIG, on_step=two_seconds).record
    assert [window["seconds"] for window in record.windows] == [20.0, 20.0, 8.0]
    assert throughput(record).seconds_per_step == 2.0
    assert throughput(record).samples_per_second == 32.0
    assert record.time_to_first_step_s == pytest.approx(2.0, abs=1e-3)


def test_a_slow_start_and_a_slow_warm_up_are_in_no_window(numpy_launch, clock):
    def slow_at_first(run, rank):
        clock.now += 1000.0 if len(run_steps) < 6 else 1.0
        run_steps.append(rank)

    run_steps = []
    record = numpy_launch(CONFIG, on_step=slow_at_first).record
    assert [window["seconds"] for window in record.windows] == [10.0, 10.0, 4.0]
    assert record.time_to_first_step_s == pytest.approx(1000.0, abs=1e-3)


def test_the_time_to_the_first_step_is_the_slowest_ranks(numpy_launch, clock, monkeypatch):
    this_thread = threading.local()
    born = clock.time()

    def remember(run, rank):
        clock.now += 1.0
        this_thread.rank = rank

    monkeypatch.setattr(clock, "time", lambda: born + [3.0, 5.0, 4.0, 2.0][this_thread.rank])
    assert numpy_launch(CONFIG, 4, on_step=remember).record.time_to_first_step_s == pytest.approx(5.0, abs=1e-3)


def test_the_wait_for_the_device_at_a_windows_end_belongs_to_the_window(numpy_launch, clock):
    def one_second(run, rank):
        clock.now += 1.0

    def wait():
        clock.now += 0.5

    record = numpy_launch(CONFIG, on_step=one_second, synchronize=wait).record
    assert [window["seconds"] for window in record.windows] == [10.5, 10.5, 4.5]


def test_a_checkpoint_is_in_no_window(numpy_launch, clock, monkeypatch, tmp_path):
    def one_second(run, rank):
        clock.now += 1.0

    def slow_write(path, checkpoint, config):
        clock.now += 1000.0

    monkeypatch.setattr(run_module, "write_checkpoint", slow_write)
    config = dataclasses.replace(CONFIG, checkpoint=tmp_path / "state", checkpoint_steps=7)
    record = numpy_launch(config, on_step=one_second).record
    assert [(window["step"], window["steps"], window["seconds"]) for window in record.windows] == [
        *((6, 1, 1.0), (7, 7, 7.0), (14, 2, 2.0), (16, 5, 5.0), (21, 5, 5.0), (26, 2, 2.0), (28, 2, 2.0)),
    ]
    assert [entry["training_seconds"] for entry in record.accuracies] == [7.0, 14.0, 21.0, 28.0, 30.0]


def test_a_checkpoint_that_rank_0_saves_is_in_no_other_ranks_window(numpy_launch, clock, monkeypatch, tmp_path):
    saving, read_meanwhile = threading.Event(), threading.Event()

    def on_reading():
        clock.now += 0.001
        if saving.is_set():
            read_meanwhile.set()

    def slow_write(path, checkpoint, config):
        saving.set()
        read_meanwhile.wait(0.5)  # Time enough for another rank to start its next window, if nothing holds it.
        clock.now += 1000.0
        saving.clear()

    clock.on_reading = on_reading
    monkeypatch.setattr(run_module, "write_checkpoint", slow_write)
    config = dataclasses.replace(CONFIG, checkpoint=tmp_path / "state", checkpoint_steps=16)
    record = numpy_launch(config, 2).record
    assert max(window["seconds"] for window in record.windows) < 1


def test_losses_are_read_only_after_the_clock_of_their_window_has_stopped(one_worker, clock):
    events = []

    class LazyLoss:
        def __float__(self):
            events.append("r")
            return 1.0

    clock.on_reading = lambda: events.append("C")
    run = one_worker(Config(steps=9, warmup_steps=3, window_steps=2), synchronize=lambda: events.append("S"))
    for _ in run.steps():
        clock.now += 1.0
        events.append("s")
        run.observe(LazyLoss())
    # Clock, steps, synchronize, clock, reads; then the clock once more for the line that is printed.
    assert re.fullmatch("CsSCrC?" + "CssSCrrC?" * 4, "".join(events)), "".join(events)


def outcome_of(run):
    """What a run of one worker hands to rank 0 at its end, without anything being written."""
    gathered = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_all_gather", lambda value: gathered.append(value) or [value])
        patch.setattr(run_module, "write_record", lambda path, record: None)
        patch.setattr(run_module, "write_checkpoint", lambda path, checkpoint, config: None)
        patch.setattr(machine, "host_facts", dict)
        patch.setattr(machine, "git_commit", lambda: None)
        run.finish(run.initial_state)
    return gathered[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 9), st.integers(1, 20), st.integers(0, 15))
def test_calls_of_several_steps_change_neither_windows_nor_rows_nor_losses(
    one_worker, clock, tmp_path, warmup, measured, window, at_once, every
):
    config = Config(
        steps=warmup + measured,
        warmup_steps=warmup,
        window_steps=window,
        checkpoint_steps=every,
        checkpoint=tmp_path / "never_written",
    )

    def step_by_step(run):
        for batch in run.steps():
            clock.now += 1.0
            expected.append(batch.rows)
            run.observe(float(batch.step))

    def in_calls(run):
        for batches in run.calls():
            assert 1 <= len(batches) <= at_once
            clock.now += 1.0 * len(batches)
            seen.extend(batch.rows for batch in batches)
            run.observe(np.array([float(batch.step) for batch in batches]), steps=len(batches))
            last = batches[-1].step
            assert run.checkpoint_due == (every > 0 and (last + 1) % every == 0 and last + 1 < config.steps)

    expected, seen = [], []
    one_at_a_time = one_worker(config)
    step_by_step(one_at_a_time)
    several = one_worker(dataclasses.replace(config, steps_per_call=at_once), strategy="tf_mirrored")
    in_calls(several)
    compared = ("windows", "losses", "examples")
    one_outcome, other_outcome = outcome_of(one_at_a_time), outcome_of(several)
    assert {name: other_outcome[name] for name in compared} == {name: one_outcome[name] for name in compared}
    assert np.array_equal(seen, expected)


def test_a_window_whose_steps_were_not_all_observed_is_an_error_of_the_strategy(one_worker):
    run = one_worker(CONFIG)
    with pytest.raises(RuntimeError, match=r"observe\(\)"):
        for _ in run.steps():
            pass


def window_of(step, config):
    """The window that a step after the warm-up belongs to: between them lie full windows and checkpoints."""
    since = step - config.warmup_steps
    return since // config.window_steps, step // config.checkpoint_steps if config.checkpoint_steps else 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.integers(1, 20), st.integers(1, 60), st.integers(1, 25), st.integers(0, 15))
def test_windows_hold_every_step_after_the_warm_up_once_and_end_at_checkpoints(
    one_worker, clock, tmp_path, warmup, measured, window, every
):
    config = Config(
        steps=warmup + measured,
        warmup_steps=warmup,
        window_steps=window,
        checkpoint_steps=every,
        checkpoint=tmp_path / "never_written",
    )
    run = one_worker(config)
    for batch in run.steps():
        clock.now += 1.0
        run.observe(float(batch.step))
        assert run.checkpoint_due == (every > 0 and (batch.step + 1) % every == 0 and batch.step + 1 < config.steps)
    result = outcome_of(run)
    windows = result["windows"]
    steps = [step for each in windows for step in range(each["step"], each["step"] + each["steps"])]
    assert steps == list(range(warmup, config.steps))
    for each in windows:
        assert each["seconds"] == each["steps"] > 0
        inside = range(each["step"], each["step"] + each["steps"])
        assert len({window_of(step, config) for step in inside}) == 1
    assert len(windows) == len({window_of(step, config) for step in range(warmup, config.steps)})
    assert result["losses"] == [float(step) for step in range(config.steps)]
    assert result["examples"] == 64 * config.steps


# The wire


def test_bytes_on_the_wire_are_those_of_the_measured_steps(numpy_launch, monkeypatch):
    sent = 0

    def send(run, rank):
        nonlocal sent
        sent += 10**6 if len(steps) < 6 else 100
        steps.append(rank)

    steps = []
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    monkeypatch.setattr(machine, "loopback_bytes_sent", lambda: sent)
    record = numpy_launch(CONFIG, on_step=send).record
    assert record.private_network
    assert record.wire_bytes_per_step == 100


def test_bytes_that_a_checkpoint_sends_are_not_those_of_a_step(numpy_launch, monkeypatch, tmp_path):
    sent = 0

    def send(run, rank):
        nonlocal sent
        sent += 100

    def send_much(path, checkpoint, config):
        nonlocal sent
        sent += 10**6

    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    monkeypatch.setattr(machine, "loopback_bytes_sent", lambda: sent)
    monkeypatch.setattr(run_module, "write_checkpoint", send_much)
    config = dataclasses.replace(CONFIG, checkpoint=tmp_path / "state", checkpoint_steps=8)
    assert numpy_launch(config, on_step=send).record.wire_bytes_per_step == 100


# Checkpoints


def test_checkpoints_measure_the_accuracy_at_their_steps_and_the_last_state_is_saved(numpy_launch, tmp_path):
    config = dataclasses.replace(CONFIG, checkpoint=tmp_path / "state.safetensors", checkpoint_steps=12)
    launched = numpy_launch(config, 2)
    record = launched.record
    assert [entry["step"] for entry in record.accuracies] == [12, 24, 30]
    assert record.accuracies[-1]["accuracy"] == record.final_accuracy
    seconds = [entry["training_seconds"] for entry in record.accuracies]
    assert seconds == sorted(seconds)
    rows = dataset.load(config)
    assert record.final_accuracy == mlp.accuracy(config, launched.states[0], rows.test_features, rows.test_labels)
    saved = read_checkpoint(config.checkpoint, dataclasses.replace(config, steps=100), 64)
    assert saved.step == 30
    assert all(np.array_equal(saved.state[name], value) for name, value in launched.states[0].items())


class KilledError(Exception):
    """The run is stopped from outside."""


def killed_at(step):
    """What kills a run before it updates at `step`, counted from the first step of the launch."""
    done = []

    def kill(run, rank):
        if len(done) == step:
            raise KilledError
        done.append(rank)

    return kill


@pytest.mark.parametrize("optimizer", [CONFIG, MOMENTUM], ids=["plain", "momentum_and_schedule"])
def test_a_killed_run_goes_on_from_its_checkpoint_on_the_trajectory_of_an_uninterrupted_one(
    numpy_launch, tmp_path, optimizer
):
    whole = numpy_launch(dataclasses.replace(optimizer, steps=40, checkpoint=tmp_path / "whole"))
    config = dataclasses.replace(optimizer, steps=40, checkpoint=tmp_path / "parts", checkpoint_steps=10)
    with pytest.raises(KilledError):
        numpy_launch(config, on_step=killed_at(25))
    assert read_checkpoint(config.checkpoint, config, 64).step == 20
    rest = numpy_launch(config)
    assert rest.record.first_step == 20
    assert rest.record.losses == whole.record.losses[20:]
    assert rest.record.examples_by_rank == [20 * 64]
    assert [np.array_equal(one, other) for one, other in zip(rest.rows[0], whole.rows[0][20:], strict=True)] == [
        True
    ] * 20
    assert set(rest.states[0]) == set(whole.states[0])
    assert all(np.array_equal(rest.states[0][name], value) for name, value in whole.states[0].items())
    # The warm-up is done again, since the processes are new.
    assert [(window["step"], window["steps"]) for window in rest.record.windows] == [(26, 4), (30, 6), (36, 4)]


def test_momentum_is_part_of_what_a_checkpoint_goes_on_with(numpy_launch, tmp_path):
    config = dataclasses.replace(MOMENTUM, checkpoint=tmp_path / "state")
    numpy_launch(dataclasses.replace(config, steps=20))
    run_states = numpy_launch(config).runs[0].initial_state
    assert {name for name in run_states if name.endswith(".momentum")} == {
        f"{name}.momentum" for name in mlp.parameter_names(config)
    }


def test_every_rank_starts_from_rank_0s_checkpoint_and_another_world_size_may_go_on(numpy_launch, tmp_path):
    whole = numpy_launch(MOMENTUM, 4)
    config = dataclasses.replace(MOMENTUM, checkpoint=tmp_path / "state")
    numpy_launch(dataclasses.replace(config, steps=20), 4)
    rest = numpy_launch(config, 2)
    assert [run.first_step for run in rest.runs] == [20, 20]
    assert rest.record.losses == pytest.approx(whole.record.losses[20:], rel=1e-4)
    assert rest.record.examples_by_rank == [20 * 32] * 2


def test_only_rank_0_reads_the_checkpoint(numpy_launch, tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, checkpoint=tmp_path / "state")
    numpy_launch(dataclasses.replace(config, steps=10), 2)
    readers = []

    def counted(*arguments):
        readers.append(arguments)
        return read_checkpoint(*arguments)

    monkeypatch.setattr(run_module, "read_checkpoint", counted)
    assert numpy_launch(config, 2).record.first_step == 10
    assert len(readers) == 1


def test_a_finished_checkpoint_leaves_nothing_to_train(numpy_launch, tmp_path, refusal):
    config = dataclasses.replace(CONFIG, checkpoint=tmp_path / "state")
    numpy_launch(config)
    assert "stands at step 30" in refusal(lambda: numpy_launch(config))


def test_the_record_is_written_once_by_rank_0_when_all_is_done(numpy_launch, monkeypatch, tmp_path):
    writers = []

    def counted(path, record):
        writers.append((path, threading.current_thread()))
        write_record(path, record)

    write_record = run_module.write_record
    monkeypatch.setattr(run_module, "write_record", counted)
    config = dataclasses.replace(CONFIG, record=tmp_path / "new" / "record.json")
    numpy_launch(config, 4)
    assert [path for path, _ in writers] == [config.record]
    assert read_record(config.record).world_size == 4
    assert list(config.record.parent.iterdir()) == [config.record]


def test_a_run_that_is_killed_leaves_no_record(numpy_launch, tmp_path):
    config = dataclasses.replace(CONFIG, record=tmp_path / "new" / "record.json")
    with pytest.raises(KilledError):
        numpy_launch(config, on_step=killed_at(25))
    assert list(config.record.parent.iterdir()) == []
