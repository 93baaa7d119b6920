"""common/contract/task.py: what a Task may hold, and the command line that is made of it and a strategy's options."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.command_line import option_name
from common.contract.task import MOST, PRESETS, Task, maths_of
from common.declarations.arguments import check_world_size, option_names, parse_command_line, to_arguments
from common.declarations.strategy import Options, option

INFINITE, NOT_A_NUMBER = float("inf"), float("nan")
COUNTS = ("batch", "steps", "warmup_steps", "window_steps", "decay_steps", "threads", "workers")

REFUSED = {
    f"give a whole number above 0, {MOST} at most": dict.fromkeys(COUNTS, (0, MOST + 1)),
    f"an output width at least, each from 1 to {MOST}": {"dimensions": ((64,), (64, 0, 10), (64, MOST + 1, 10))},
    "choose one of": {
        "preset": ("cifar",),
        "model": ("resnet",),
        "activation": ("sigmoid",),
        "scaling": ("both",),
        "device": ("tpu",),
    },
    "can't be negative: give 0 or more": dict.fromkeys(("seed", "checkpoint_steps", "restarts"), (-1,)),
    "add --checkpoint FILE": {"checkpoint_steps": (10,), "restarts": (1,)},
    "give a number from 0 up to, but below, 1": {"momentum": (-0.1, 1.0, NOT_A_NUMBER)},
    "is negative or not finite: give 0 or more": {
        "learning_rate": (-0.1, INFINITE, NOT_A_NUMBER),
        "final_learning_rate": (-0.1, INFINITE),
        "weight_decay": (-0.1, INFINITE),
    },
    "more than 0 and at most 86400": {"deadline_seconds": (0.0, 86401.0, NOT_A_NUMBER)},
    "raise the first or lower the second": {"warmup_steps": (Task().steps, Task().steps + 1)},
    "its step never comes in --steps 300": {"inject": ("kill:rank=1,step=300",)},
}
"""By the remedy, the values of each field that are refused with it."""


@pytest.mark.parametrize(
    ("remedy", "name", "value"),
    [(remedy, name, value) for remedy, fields in REFUSED.items() for name, each in fields.items() for value in each],
)
def test_a_value_that_cannot_be_meant_is_refused_by_its_options_name_with_a_remedy(refusal, remedy, name, value):
    text = refusal(lambda: Task(**{name: value}))
    assert remedy in text
    assert option_name(name) in text or "learning rate or the weight decay" in text


def test_the_least_of_everything_is_accepted_and_every_preset_bears_its_own_name():
    Task(dimensions=(1, 1), **dict.fromkeys(COUNTS, 1) | {"steps": 2})
    Task(seed=0, momentum=0.0, learning_rate=0.0, final_learning_rate=0.0, weight_decay=0.0)
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


def test_the_last_preset_gives_the_values_which_options_override(parse, declare, monkeypatch):
    assert parse([]) == (PRESETS["digits"], declare().options())
    assert parse(["--preset", "digits", "--preset=wide"])[0] == PRESETS["wide"]
    task, options = parse(["--batch", "32", "--preset", "pathway", "--no-exchange", "--bias"])
    assert task == dataclasses.replace(PRESETS["pathway"], batch=32, bias=True)
    assert options.exchange is False
    monkeypatch.setattr("sys.argv", ["threads.py", "--prefetch", "3"])
    assert parse(None)[1].prefetch == 3


@pytest.mark.parametrize(
    ("folder", "preset"), [([], "mnist_5k"), (["--data-dir", "mistyped"], "mnist"), (["--data_dir=mistyped"], "mnist")]
)
def test_mnist_without_its_files_is_called_by_its_own_name_unless_a_folder_was_named(parse, folder, preset):
    task, _ = parse(["--preset", "mnist", "--batch", "32", *folder])
    assert (task.preset, task.dimensions, task.batch) == (preset, (784, 128, 64, 10), 32)


def test_an_unknown_preset_is_refused_with_the_known_ones(parse, refusal):
    text = refusal(lambda: parse(["--preset", "cifar"]))
    assert text == f"There is no preset named 'cifar': choose one of {', '.join(PRESETS)}."


def test_an_option_that_nobody_has_exits_with_2(parse, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--barch", "3"])
    assert caught.value.code == 2
    assert "--barch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "name"),
    [(["--servers=2"], "--servers"), (["--no_sticky"], "--no-sticky"), (["--batch", "8", "--sticky"], "--sticky")],
)
def test_an_option_of_another_strategy_is_refused_by_who_has_it(parse, servers, refusal, given, name):
    text = refusal(lambda: parse(given))
    assert text == f"{name} has no effect on numpy_threads: leave it out, or choose one of numpy_servers."


def test_an_option_that_another_strategy_has_as_well_is_not_refused_and_only_a_flag_has_a_no(parse, servers):
    assert parse(["--prefetch", "2"])[1].prefetch == 2
    assert parse_command_line(servers, "help", ["--prefetch", "2"])[1] == ServerOptions(prefetch=2)
    assert option_names(ServerOptions) == {"--servers", "--sticky", "--no-sticky", "--prefetch"}


def test_an_option_that_is_named_like_a_field_of_the_task_is_refused(declare, refusal):
    @dataclass(frozen=True, kw_only=True)
    class Clashing(Options):
        steps: int = option(1)
        batch: int = option(8)
        stride: int = option(2)

    text = refusal(lambda: parse_command_line(declare(options=Clashing), "help", []))
    assert text.startswith("Clashing of numpy_threads declares batch, steps, which every task has")


def test_the_help_has_the_description_the_tasks_options_and_the_strategys_own_and_no_others(servers, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_command_line(servers, "What this strategy does.", ["--help"])
    assert caught.value.code in (0, None)
    text = capsys.readouterr().out
    assert "What this strategy does." in text
    names = {name for name in re.findall(r"--[a-z][a-z-]*", text) if not name.startswith("--no-")}
    fields = (*dataclasses.fields(Task), *dataclasses.fields(ServerOptions))
    assert names == {"--help", *(option_name(each.name) for each in fields)}


OTHER = {
    **{"dimensions": (8, 4, 2), "activation": "gelu", "bias": False, "scaling": "weak", "batch": 7},
    **{"learning_rate": 1e-9, "final_learning_rate": 0.0, "decay_steps": 3, "momentum": 0.1 + 0.2, "weight_decay": 2.0},
    **{"steps": 10**7, "warmup_steps": 9, "window_steps": 8, "seed": 2**40, "workers": 4, "threads": 2},
    **{"device": "cpu", "deadline_seconds": 0.5, "checkpoint_steps": 5, "restarts": 1, "inject": "kill:rank=1,step=9"},
    **{"data_dir": Path("a folder"), "checkpoint": Path("é, '#"), "record": Path("=.json")},
}
"""Another value of every field than any preset of dense layers has."""


@pytest.mark.parametrize("preset", [name for name, task in PRESETS.items() if task.model == "mlp"])
def test_to_arguments_says_what_differs_and_the_command_line_turns_it_back(declare, parse, preset):
    assert {*OTHER, "preset", "model", "batch_norm"} == {each.name for each in dataclasses.fields(Task)}
    task = dataclasses.replace(PRESETS[preset], **OTHER)
    options = declare().options(packed=False, prefetch=3, piece_megabytes=0.5, codec="fp16", exchange=False)
    assert parse(to_arguments(task, options)) == (task, options)
    constant = dataclasses.replace(PRESETS[preset], final_learning_rate=None, data_dir=Path("mnist"))
    assert parse(to_arguments(constant, declare().options())) == (constant, declare().options())
    assert to_arguments(PRESETS[preset], declare().options()) == ["--preset", preset]


def test_the_world_must_be_the_one_asked_for(refusal):
    check_world_size(Task(), 4, "torchrun")
    check_world_size(Task(workers=4), 4, "torchrun")
    text = refusal(lambda: check_world_size(Task(workers=2), 4, "torchrun"))
    assert "--workers 2, but torchrun started 4" in text


def test_only_what_is_measured_is_no_part_of_the_maths():
    pathway = PRESETS["pathway"]
    measured = {"workers": 4, "threads": 2, "steps": 7, "warmup_steps": 1, "window_steps": 3, "device": "cpu"}
    measured |= {"scaling": "weak", "batch": 8, "deadline_seconds": 9.0, "checkpoint_steps": 2}
    files = {"checkpoint": Path("weights"), "record": Path("record.json")}
    assert maths_of(dataclasses.replace(pathway, **measured, **files)) == pathway
    changed = {"seed": 9, "momentum": 0.5, "weight_decay": 0.1, "bias": True, "activation": "relu"}
    assert maths_of(dataclasses.replace(pathway, **changed)) == dataclasses.replace(pathway, **changed)
