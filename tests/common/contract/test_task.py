"""common/contract/task.py: what a Task may hold, and the command line that is made of it and a strategy's options."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.command_line import option_name
from common.contract.dataset import preset_task
from common.contract.task import MOST, PRESETS, Task, maths_of
from common.declarations.arguments import check_world_size, option_names, parse_command_line, to_arguments
from common.declarations.strategy import Options, option

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
    "device": st.sampled_from(["auto", "cpu", "gpu"]),
    "deadline_seconds": st.floats(0.001, 86400),
    "data_dir": PATH,
    "record": PATH,
}
TASKS = st.builds(
    lambda preset, changes, saving: dataclasses.replace(PRESETS[preset], **changes, **saving),
    # Networks of dense layers take any widths; the others are in test_layers.py.
    st.sampled_from([name for name, task in PRESETS.items() if task.model == "mlp"]),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.just({}) | st.fixed_dictionaries({"checkpoint": PATH.filter(bool), "checkpoint_steps": st.integers(0, 1000)}),
)

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "packed": st.booleans(),
        "prefetch": st.integers(0, 10**6),
        "piece_megabytes": st.none() | st.floats(0, 1e6, exclude_min=True, allow_subnormal=False),
        "codec": st.sampled_from(["none", "fp16"]),
    },
).flatmap(
    lambda values: st.sampled_from([values | more for more in ({}, {"exchange": False}, {"check_replicas": True})])
)
"""Values of the made-up strategy's options."""

INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


REFUSED = {
    **dict.fromkeys(("batch", "steps", "decay_steps", "threads", "workers"), (0, -2, MOST + 1)),
    **dict.fromkeys(("warmup_steps", "window_steps"), (0,)),
    "dimensions": ((), (64,), (64, 0, 10), (64, -1, 10), (64, MOST + 1, 10)),
    **{"seed": (-1,), "checkpoint_steps": (-1, 10), "momentum": (-0.1, 1.0, NOT_A_NUMBER)},
    **dict.fromkeys(("learning_rate", "final_learning_rate"), (-0.1, INFINITE, NOT_A_NUMBER)),
    **{"weight_decay": (-0.1, INFINITE), "deadline_seconds": (0.0, 86401.0, NOT_A_NUMBER)},
    **{
        "preset": ("cifar",),
        "activation": ("sigmoid",),
        "model": ("resnet",),
        "scaling": ("both",),
        "device": ("tpu",),
    },
}
WORDS = {"learning_rate": "learning rate", "final_learning_rate": "learning rate", "weight_decay": "weight decay"}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_a_value_that_cannot_be_meant_is_refused_by_its_options_name(refusal, name, value):
    text = refusal(lambda: Task(**{name: value}))
    assert WORDS.get(name, option_name(name)) in text or str(value) in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch": 0}, f"--batch 0: give a whole number above 0, {MOST} at most."),
        ({"dimensions": (64, 0, 10)}, f"each from 1 to {MOST}"),
        ({"checkpoint_steps": 10}, "add --checkpoint FILE"),
        ({"deadline_seconds": 86401.0}, "at most 86400"),
        ({"steps": 50, "warmup_steps": 50}, "--warmup-steps 50"),
        ({"steps": 50, "warmup_steps": 51}, "leaves no step to measure"),
    ],
)
def test_a_refusal_says_what_to_give_instead(refusal, changes, said):
    assert said in refusal(lambda: Task(**changes))


def test_the_least_of_everything_is_accepted_and_every_preset_bears_its_own_name():
    least = Task(dimensions=(1, 1), batch=1, steps=2, warmup_steps=1, window_steps=1, threads=1, decay_steps=1)
    zero = Task(seed=0, momentum=0.0, learning_rate=0.0, final_learning_rate=0.0, weight_decay=0.0)
    assert (least.steps, zero.learning_rate) == (2, 0.0)
    assert {name: preset.preset for name, preset in PRESETS.items()} == {name: name for name in PRESETS}


# The command line


@pytest.fixture
def parse(declare):
    """A function that parses arguments for a made-up strategy."""
    strategy = declare()
    return lambda arguments: parse_command_line(strategy, "What this strategy does.", arguments)


@dataclass(frozen=True, kw_only=True)
class ServerOptions(Options):
    """The options of another made-up strategy."""

    servers: int = option(1, at_least=1)
    """How many processes hold the weights."""
    sticky: bool = option(True)
    """Keep each layer where it is."""
    prefetch: int = option(0, at_least=0)
    """One that both have."""


@pytest.fixture
def servers(declare, catalogue_of):
    """Another strategy, beside which the made-up one is all that the catalogue has."""
    strategy = declare("numpy_servers", options=ServerOptions)
    catalogue_of(declare(), strategy)
    return strategy


def test_without_arguments_digits_is_trained_and_of_two_presets_the_last(parse, declare):
    assert parse([]) == (PRESETS["digits"], declare().options()) == (Task(), declare().options())
    task, _ = parse(["--preset", "digits", "--preset", "wide"])
    assert task == PRESETS["wide"]


def test_without_a_list_the_programs_own_arguments_are_parsed(declare, monkeypatch):
    monkeypatch.setattr("sys.argv", ["threads.py", "--batch", "32", "--prefetch", "3"])
    task, options = parse_command_line(declare(), "help")
    assert (task.batch, options.prefetch) == (32, 3)


@pytest.mark.parametrize("arguments", [["--preset", "pathway"], ["--preset=pathway"]])
def test_a_preset_gives_the_values_and_options_override_them(parse, arguments):
    assert parse(arguments)[0] == PRESETS["pathway"]
    task, options = parse(["--batch", "32", *arguments, "--no-exchange", "--bias"])
    assert task == dataclasses.replace(PRESETS["pathway"], batch=32, bias=True)
    assert options.exchange is False


@pytest.mark.parametrize(
    ("folder", "preset"), [([], "mnist_5k"), (["--data-dir", "mistyped"], "mnist"), (["--data_dir=mistyped"], "mnist")]
)
def test_mnist_without_its_files_is_called_by_its_own_name_unless_a_folder_was_named(parse, folder, preset):
    task, options = parse(["--preset", "mnist", "--batch", "32", *folder])
    assert (task.preset, task.dimensions, task.batch) == (preset, (784, 128, 64, 10), 32)
    assert parse(to_arguments(task, options)) == (task, options)


@pytest.mark.parametrize("arguments", [["--preset", "cifar"], ["--preset=cifar"]])
def test_an_unknown_preset_is_one_line_that_names_the_known_ones(parse, refusal, arguments):
    text = refusal(lambda: parse(arguments))
    assert text == f"There is no preset named 'cifar': choose one of {', '.join(PRESETS)}."


@pytest.mark.parametrize(
    "arguments", [["--barch", "3"], ["--batch", "many"], ["--scaling", "both"], ["--codec", "int8"], ["--no-prefetch"]]
)
def test_an_option_that_does_not_exist_or_cannot_be_read_exits_with_2(parse, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 2
    output = capsys.readouterr()
    assert arguments[0] in output.err + output.out


@pytest.mark.parametrize(
    "given",
    [["--servers", "2"], ["--servers=2"], ["--sticky"], ["--no-sticky"], ["--no_sticky"], ["--batch", "8", "--sticky"]],
)
def test_an_option_of_another_strategy_is_refused_in_one_line_that_names_who_has_it(parse, servers, refusal, given):
    name = given[-1] if given[0] == "--batch" else given[0].partition("=")[0].replace("_", "-")
    text = refusal(lambda: parse(given))
    assert text == f"{name} has no effect on numpy_threads: leave it out, or choose one of numpy_servers."


def test_an_option_that_another_strategy_has_as_well_is_not_refused_and_only_a_flag_has_a_no(parse, servers, capsys):
    assert parse(["--prefetch", "2"])[1].prefetch == 2
    assert parse_command_line(servers, "help", ["--prefetch", "2"])[1] == ServerOptions(prefetch=2)
    assert {"--sticky", "--no-sticky", "--servers"} <= option_names(ServerOptions)
    assert "--no-servers" not in option_names(ServerOptions)
    with pytest.raises(SystemExit):
        parse(["--no-servers"])


def test_an_option_that_is_named_like_a_field_of_the_task_is_refused(declare, refusal):
    @dataclass(frozen=True, kw_only=True)
    class Clashing(Options):
        steps: int = option(1)
        batch: int = option(8)
        stride: int = option(2)

    text = refusal(lambda: parse_command_line(declare(options=Clashing), "help", []))
    assert text.startswith("Clashing of numpy_threads declares batch, steps, which every task has")


def help_of(strategy, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_command_line(strategy, "What this strategy does.", ["--help"])
    assert caught.value.code in (0, None)
    return capsys.readouterr().out


def test_the_help_has_the_description_the_tasks_options_and_the_strategys_own_and_no_others(declare, servers, capsys):
    for strategy in (declare(), servers):
        text = help_of(strategy, capsys)
        assert "What this strategy does." in text
        names = {name for name in re.findall(r"--[a-z][a-z-]*", text) if not name.startswith("--no-")}
        fields = (*dataclasses.fields(Task), *dataclasses.fields(strategy.options))
        assert names == {"--help", *(option_name(each.name) for each in fields)}


@settings(max_examples=20)  # Each parses a command line, which takes tyro tens of milliseconds.
@given(TASKS, OPTIONS)
def test_to_arguments_is_what_the_command_line_turns_back_into_the_task_and_the_options(declare, task, values):
    strategy = declare()
    options = strategy.options(**values)
    # No file of MNIST lies in the cache.
    expected = dataclasses.replace(task, preset=preset_task(task.preset, task.data_dir).preset)
    assert parse_command_line(strategy, "help", to_arguments(task, options)) == (expected, options)


def test_to_arguments_says_only_what_differs_from_the_preset_and_the_defaults(declare):
    changed = dataclasses.replace(PRESETS["pathway"], batch=128, dimensions=(8, 4, 2))
    options = declare().options
    assert to_arguments(PRESETS["wide"], options()) == ["--preset", "wide"]
    assert to_arguments(changed, options(exchange=False, piece_megabytes=0.5, check_replicas=False)) == [
        *("--preset", "pathway"),
        *("--dimensions", "8", "4", "2"),
        *("--batch", "128"),
        "--no-exchange",
        *("--piece-megabytes", "0.5"),
    ]


def test_the_world_must_be_the_one_asked_for_and_is_no_part_of_the_maths(refusal):
    check_world_size(Task(), 4, "torchrun")
    check_world_size(Task(workers=4), 4, "torchrun")
    text = refusal(lambda: check_world_size(Task(workers=2), 4, "torchrun"))
    assert "--workers 2, but torchrun started 4" in text
    measured = {"workers": 4, "threads": 2, "steps": 7, "warmup_steps": 1, "window_steps": 3, "device": "cpu"}
    measured |= {"scaling": "weak", "batch": 8, "deadline_seconds": 9.0, "checkpoint_steps": 2}
    files = {"checkpoint": Path("weights"), "record": Path("record.json")}
    assert maths_of(dataclasses.replace(PRESETS["pathway"], **measured, **files)) == PRESETS["pathway"]
    for name, value in {"seed": 9, "momentum": 0.5, "weight_decay": 0.1, "bias": True, "activation": "relu"}.items():
        changed = dataclasses.replace(PRESETS["pathway"], **{name: value})
        assert maths_of(changed) == changed != PRESETS["pathway"]
