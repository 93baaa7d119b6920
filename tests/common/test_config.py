"""common/config.py: what a Config may hold, and the command line that is derived from it."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config import (
    KERAS_FIT,
    MODEL_PARALLEL,
    OPTIONS_OF_SOME,
    PRESETS,
    Config,
    check_layout,
    check_options,
    check_world_size,
    from_record,
    global_batch,
    local_batch,
    parse_command_line,
    same_maths,
    tensor_parallel_axis,
    to_arguments,
)

WHOLE = st.integers(1, 10**6)
RATE = st.floats(0, 1e6, allow_subnormal=False)
PATH = st.none() | st.text("ab =,'\"#é.", min_size=1, max_size=12).map(lambda name: Path("/folder", name))
FIELDS = {
    "dimensions": st.lists(WHOLE, min_size=2, max_size=6).map(tuple),
    "activation": st.sampled_from(["relu", "tanh"]),
    "bias": st.booleans(),
    "scaling": st.sampled_from(["strong", "weak"]),
    "batch": WHOLE,
    "learning_rate": RATE,
    "final_learning_rate": st.none() | RATE,
    "decay_steps": WHOLE,
    "momentum": st.floats(0, 1, exclude_max=True, allow_subnormal=False),
    "weight_decay": RATE,
    "steps": st.integers(10**6, 10**7),
    "warmup_steps": st.integers(1, 29),
    "window_steps": WHOLE,
    "seed": st.integers(0, 2**40),
    "workers": st.none() | WHOLE,
    "threads": WHOLE,
    "exchange": st.booleans(),
    "device": st.sampled_from(["auto", "cpu", "gpu"]),
    "deadline_seconds": st.floats(0.001, 86400),
    "data_dir": PATH,
    "record": PATH,
    "jit_compile": st.booleans(),
    "steps_per_call": WHOLE,
    "input": st.sampled_from(["memory", "tf_data"]),
}
CONFIGS = st.builds(
    lambda preset, changes, saving: dataclasses.replace(PRESETS[preset], **changes, **saving),
    st.sampled_from(list(PRESETS)),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.just({}) | st.fixed_dictionaries({"checkpoint": PATH.filter(bool), "checkpoint_steps": st.integers(0, 1000)}),
)

INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dimensions": ()}, "--dimensions"),
        ({"dimensions": (64,)}, "--dimensions (64,)"),
        ({"dimensions": (64, 0, 10)}, "all positive"),
        ({"dimensions": (64, -1, 10)}, "all positive"),
        ({"batch": 0}, "--batch 0"),
        ({"batch": -64}, "--batch -64"),
        ({"steps": 0}, "--steps 0"),
        ({"warmup_steps": 0}, "--warmup-steps 0"),
        ({"window_steps": 0}, "--window-steps 0"),
        ({"threads": 0}, "--threads 0"),
        ({"decay_steps": 0}, "--decay-steps 0"),
        ({"steps_per_call": 0}, "--steps-per-call 0"),
        ({"workers": 0}, "--workers 0"),
        ({"workers": -2}, "--workers -2"),
        ({"seed": -1}, "--seed"),
        ({"checkpoint_steps": -1}, "--checkpoint-steps"),
        ({"checkpoint_steps": 10}, "add --checkpoint FILE"),
        ({"momentum": -0.1}, "--momentum -0.1"),
        ({"momentum": 1.0}, "--momentum 1.0"),
        ({"momentum": NOT_A_NUMBER}, "--momentum nan"),
        ({"learning_rate": -0.1}, "learning rate"),
        ({"learning_rate": INFINITE}, "learning rate"),
        ({"learning_rate": NOT_A_NUMBER}, "learning rate"),
        ({"final_learning_rate": -0.1}, "learning rate"),
        ({"final_learning_rate": NOT_A_NUMBER}, "learning rate"),
        ({"weight_decay": -0.1}, "weight decay"),
        ({"weight_decay": INFINITE}, "weight decay"),
        ({"deadline_seconds": 0.0}, "--deadline-seconds 0.0"),
        ({"deadline_seconds": 86401.0}, "at most 86400"),
        ({"deadline_seconds": NOT_A_NUMBER}, "--deadline-seconds nan"),
        ({"steps": 50, "warmup_steps": 50}, "leaves no step to measure"),
        ({"steps": 50, "warmup_steps": 51}, "--warmup-steps 51"),
        ({"preset": "cifar"}, "cifar"),
        ({"activation": "sigmoid"}, "sigmoid"),
        ({"scaling": "both"}, "both"),
        ({"device": "tpu"}, "tpu"),
        ({"input": "disk"}, "disk"),
        ({"backend": "smoke"}, "smoke"),
        ({"gradient_hook": "int8"}, "int8"),
        ({"bucket_megabytes": 0.0}, "--bucket-megabytes 0.0"),
        ({"bucket_megabytes": NOT_A_NUMBER}, "--bucket-megabytes nan"),
        ({"micro_batches": 0}, "--micro-batches 0"),
        ({"loader_workers": -1}, "--loader-workers can't be negative"),
        ({"check_replicas": True, "exchange": False}, "--check-replicas with --no-exchange"),
        ({"fusion_megabytes": -1.0}, "--fusion-megabytes -1.0"),
        ({"cycle_milliseconds": INFINITE}, "--cycle-milliseconds inf"),
        ({"compression": "bf16"}, "--compression bf16"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_what_to_give_instead(refusal, changes, said):
    assert said in refusal(lambda: Config(**changes))


def test_the_least_of_everything_is_accepted():
    least = Config(dimensions=(1, 1), batch=1, steps=2, warmup_steps=1, window_steps=1, threads=1, decay_steps=1)
    zero = Config(seed=0, momentum=0.0, learning_rate=0.0, final_learning_rate=0.0, weight_decay=0.0)
    assert (least.steps, zero.learning_rate) == (2, 0.0)


def test_a_config_cannot_be_changed_afterwards():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().batch = 128


def test_every_preset_bears_its_own_name():
    assert {name: preset.preset for name, preset in PRESETS.items()} == {
        name: name for name in ("digits", "mnist", "pathway", "wide")
    }


def test_without_options_the_digits_preset_is_trained():
    assert parse_command_line("help", []) == PRESETS["digits"] == Config()


@pytest.mark.parametrize("arguments", [["--preset", "pathway"], ["--preset=pathway"]])
def test_a_preset_gives_the_values_and_options_override_them(arguments):
    assert parse_command_line("help", arguments) == PRESETS["pathway"]
    overridden = parse_command_line("help", ["--batch", "32", *arguments, "--no-exchange", "--bias"])
    assert overridden == dataclasses.replace(PRESETS["pathway"], batch=32, exchange=False, bias=True)


@pytest.mark.parametrize("arguments", [["--preset", "cifar"], ["--preset=cifar"]])
def test_an_unknown_preset_is_one_line_that_names_the_known_ones(refusal, arguments):
    text = refusal(lambda: parse_command_line("help", arguments))
    assert text == "There is no preset named 'cifar': choose one of digits, mnist, pathway, wide."


def test_a_preset_without_a_name_is_one_line(refusal):
    assert "choose one of" in refusal(lambda: parse_command_line("help", ["--preset"]))


def test_of_two_presets_one_decides_both_the_name_and_the_values(refusal):
    arguments = ["--preset", "digits", "--preset", "wide"]
    try:
        parsed = parse_command_line("help", arguments)
    except Exception:
        assert "--preset" in refusal(lambda: parse_command_line("help", arguments))
    else:
        assert parsed == PRESETS[parsed.preset]


def test_a_value_that_cannot_be_meant_is_refused_on_the_command_line_too(refusal):
    assert refusal(lambda: parse_command_line("help", ["--batch", "0"])).startswith("--batch 0:")


@pytest.mark.parametrize("arguments", [["--barch", "3"], ["--batch", "many"], ["--scaling", "both"]])
def test_an_option_that_does_not_exist_or_cannot_be_read_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_command_line("help", arguments)
    assert caught.value.code == 2
    output = capsys.readouterr()
    assert arguments[0] in output.err + output.out


def test_the_help_names_every_option_and_the_description(capsys):
    with pytest.raises(SystemExit) as caught:
        parse_command_line("What this strategy does.", ["--help"])
    assert caught.value.code in (0, None)
    text = capsys.readouterr().out
    assert "What this strategy does." in text
    for field in dataclasses.fields(Config):
        assert f"--{field.name.replace('_', '-')}" in text


@given(CONFIGS)
def test_to_arguments_is_what_the_command_line_turns_back_into_the_config(config):
    assert parse_command_line("help", to_arguments(config)) == config


def test_to_arguments_says_only_what_differs_from_the_preset():
    changed = dataclasses.replace(PRESETS["pathway"], batch=128, exchange=False, dimensions=(8, 4, 2))
    assert to_arguments(PRESETS["wide"]) == ["--preset", "wide"]
    assert to_arguments(changed) == [
        *("--preset", "pathway"),
        *("--dimensions", "8", "4", "2"),
        *("--batch", "128"),
        "--no-exchange",
    ]


@given(CONFIGS)
def test_a_config_comes_back_from_a_records_json(config):
    values = json.loads(json.dumps(dataclasses.asdict(config), default=str, allow_nan=False))
    assert from_record(values) == config


@pytest.mark.parametrize(
    "change",
    [{"barch": 3}, {"dimensions": 64}, {"dimensions": None}, {"batch": "many"}, {"batch": 0}, {"preset": "cifar"}],
)
def test_a_damaged_config_of_a_record_is_refused(refusal, change):
    refusal(lambda: from_record(dataclasses.asdict(Config()) | change))


def test_a_records_config_without_dimensions_is_refused_with_the_remedy(refusal):
    text = refusal(lambda: from_record({"batch": 64}))
    assert "dimensions" in text
    assert "delete the record and run its cell again" in text


def test_a_strong_batch_is_divided_and_a_weak_one_multiplied():
    strong, weak = Config(batch=64), Config(batch=64, scaling="weak")
    assert [local_batch(strong, workers) for workers in (1, 2, 4)] == [64, 32, 16]
    assert [global_batch(strong, workers) for workers in (1, 2, 4)] == [64, 64, 64]
    assert [local_batch(weak, workers) for workers in (1, 2, 3)] == [64, 64, 64]
    assert [global_batch(weak, workers) for workers in (1, 2, 3)] == [64, 128, 192]


@pytest.mark.parametrize(
    ("batch", "workers", "nearest"),
    [(64, 3, "63 or 66"), (65, 4, "64 or 68"), (67, 4, "64 or 68"), (5, 4, "4 or 8"), (3, 4, "4"), (1, 2, "2")],
)
def test_a_global_batch_that_does_not_divide_names_the_nearest_sizes_that_do(refusal, batch, workers, nearest):
    for ask in (local_batch, global_batch):
        text = refusal(lambda ask=ask: ask(Config(batch=batch), workers))
        assert f"global batch of {batch} doesn't divide by {workers} workers" in text
        assert f"use --batch {nearest}, or another number of workers" in text


@given(st.integers(1, 500), st.integers(1, 40))
def test_the_sizes_that_a_refusal_names_do_divide_and_are_the_nearest(batch, workers):
    config = Config(batch=batch)
    if batch % workers == 0:
        assert global_batch(config, workers) == batch
        return
    with pytest.raises(Exception, match="--batch") as caught:
        local_batch(config, workers)
    named = caught.value.args[0].partition("use --batch ")[2].partition(",")[0]
    nearest = [size for size in range(1, batch + workers + 1) if size % workers == 0 and abs(size - batch) < workers]
    assert [int(size) for size in named.split(" or ")] == nearest


def test_the_world_that_was_started_must_be_the_one_asked_for(refusal):
    check_world_size(Config(), 4, "torchrun")
    check_world_size(Config(workers=4), 4, "torchrun")
    text = refusal(lambda: check_world_size(Config(workers=2), 4, "torchrun"))
    assert "--workers 2, but torchrun started 4" in text


OTHER_VALUES = {"jit_compile": True, "steps_per_call": 5, "input": "tf_data"}


@pytest.mark.parametrize(("option", "value"), OTHER_VALUES.items())
def test_an_option_of_some_strategies_is_refused_by_the_others(refusal, option, value):
    changed = Config(**{option: value})
    check_options(changed, "tf_mirrored")
    for strategy in ("torch_ddp", "horovod_torch", "tf_parameter_server"):
        check_options(Config(), strategy)
        text = refusal(lambda strategy=strategy: check_options(changed, strategy))
        assert text.startswith(f"--{option.replace('_', '-')} has no effect on {strategy}: leave it out")
        assert "tf_mirrored" in text


def test_parts_of_one_model_cannot_be_told_not_to_exchange(refusal):
    for strategy in MODEL_PARALLEL:
        text = refusal(lambda strategy=strategy: check_options(Config(exchange=False), strategy))
        assert text.startswith("--no-exchange: the parts of")
    check_options(Config(exchange=False), "torch_ddp")


def test_only_synchronous_sgd_by_hand_reaches_mpi(refusal):
    check_options(Config(backend="mpi"), "torch_sync_sgd")
    assert "torch_ddp doesn't use MPI" in refusal(lambda: check_options(Config(backend="mpi"), "torch_ddp"))


def test_horovod_takes_its_controller_and_finds_nccl_by_itself(refusal):
    check_options(Config(backend="gloo"), "horovod_torch")
    text = refusal(lambda: check_options(Config(backend="nccl"), "horovod_torch"))
    assert "Horovod takes NCCL by itself" in text


def test_adasum_is_over_mpi_and_of_a_power_of_two(refusal):
    pairs = Config(adasum=True, backend="mpi", batch=66)
    check_options(pairs, "horovod_torch")
    text = refusal(lambda: check_options(Config(adasum=True), "horovod_torch"))
    assert "has Adasum over MPI alone; add --backend mpi" in text
    check_layout(pairs, "horovod_torch", 2)
    assert "use 1, 2, 4 or 8" in refusal(lambda: check_layout(pairs, "horovod_torch", 3))


@pytest.mark.parametrize(("strategy", "instead"), KERAS_FIT.items())
@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"weight_decay": 0.01}, "keeps weight decay out of the momentum"),
        ({"final_learning_rate": 0.05}, "multiplied by the learning rate"),
        ({"learning_rate": 0.0}, "multiplied by the learning rate"),
    ],
)
def test_what_keras_computes_differently_with_momentum_is_refused(refusal, options, cause, strategy, instead):
    text = refusal(lambda: check_options(Config(momentum=0.9, **options), strategy))
    assert cause in text
    assert text.endswith(f"or use {instead}.")
    check_options(Config(momentum=0.9, **options), instead)
    check_options(Config(momentum=0.9), strategy)
    check_options(Config(**options), strategy)


def test_a_pipeline_has_no_more_stages_than_layers(refusal):
    check_layout(Config(), "torch_model_parallel", 3)
    text = refusal(lambda: check_layout(Config(), "torch_model_parallel", 4))
    assert "4 pipeline stages for 3 layers: use --workers 3 or fewer" in text
    check_layout(Config(), "torch_ddp", 4)


def test_micro_batches_divide_the_global_batch(refusal):
    check_layout(Config(batch=64, micro_batches=64), "torch_model_parallel", 2)
    text = refusal(lambda: check_layout(Config(batch=64, micro_batches=5), "torch_model_parallel", 2))
    assert "A batch of 64 rows doesn't divide into 5 micro-batches" in text


def test_parts_of_one_model_need_no_batch_that_they_divide():
    assert global_batch(Config(batch=64), 3, one_model=True) == 64
    assert global_batch(Config(batch=64, scaling="weak"), 3, one_model=True) == 192


def test_layers_are_split_by_inputs_and_outputs_in_turn_and_the_last_by_its_inputs():
    three, four = Config(), Config(dimensions=(64, 8, 8, 8, 10))
    assert [tensor_parallel_axis(three, layer) for layer in range(3)] == [0, 1, 0]
    assert [tensor_parallel_axis(four, layer) for layer in range(4)] == [1, 0, 1, 0]


def test_a_tensor_parallel_degree_divides_every_split_side(refusal):
    check_layout(Config(), "torch_tensor_parallel", 4)
    text = refusal(lambda: check_layout(Config(batch=63), "torch_tensor_parallel", 3))
    assert "Layer 0 is split by its 64 inputs, which 3 workers don't divide" in text
    outputs = Config(dimensions=(64, 30, 10))
    assert "Layer 0 is split by its 30 outputs" in refusal(lambda: check_layout(outputs, "torch_tensor_parallel", 4))


def test_options_that_round_or_approximate_are_other_maths():
    assert same_maths(Config())
    assert not same_maths(Config(bf16_autocast=True))
    assert not any(same_maths(Config(gradient_hook=hook)) for hook in ("fp16", "bf16", "powersgd"))


def test_the_table_of_options_names_fields_with_defaults_that_no_preset_changes():
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    for name in OPTIONS_OF_SOME:
        assert {getattr(preset, name) for preset in PRESETS.values()} == {defaults[name]}
