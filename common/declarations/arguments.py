"""The command lines of programs: their types, how they are parsed, and how they are written again."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import tyro

from common.command_line import option_name, options_of
from common.contract.dataset import preset_task
from common.contract.model import named_layers
from common.contract.task import PRESETS, Task
from common.declarations.catalogue import strategies
from common.declarations.strategy import Options, Strategy
from common.errors import UserError

T = TypeVar("T")


@cache
def command_line_type(strategy: Strategy) -> type:
    """The dataclass of the strategy's command line: the fields of every task, and those of the strategy's options.

    Raises UserError where an option has the name of a task's field.
    """
    of_task, of_strategy = ({each.name for each in dataclasses.fields(kind)} for kind in (Task, strategy.options))
    if repeated := sorted(of_task & of_strategy):
        raise UserError(
            f"{strategy.options.__name__} of {strategy.name} declares {', '.join(repeated)}, which every task has: "
            "give the option another name."
        )
    parts = [
        ("task", tyro.conf.OmitArgPrefixes[Task], dataclasses.field(default=PRESETS["digits"])),
        ("strategy", tyro.conf.OmitArgPrefixes[strategy.options], dataclasses.field(default=strategy.options())),
    ]
    return dataclasses.make_dataclass("CommandLine", parts, frozen=True)


def parse_command_line(
    strategy: Strategy, description: str, arguments: Sequence[str] | None = None
) -> tuple[Task, Options]:
    """The task and the strategy's options that the command line asks for.

    The task has the named preset's values, overridden by every option given. `description` heads the help text. Raises
    UserError for an unknown preset, a value that can't be meant, or an option that another strategy has, and SystemExit
    for `--help` and for options that nobody has.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    presets = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    presets.add_argument("--preset", nargs="?", const="", default="digits")
    presets.add_argument("--data-dir", "--data_dir", nargs="?")
    chosen = presets.parse_known_args(arguments)[0]
    preset = preset_task(chosen.preset, chosen.data_dir)
    default = command_line_type(strategy)(preset, strategy.options())
    _refuse_options_of_others(strategy, arguments)
    parsed = tyro.cli(command_line_type(strategy), description=description, default=default, args=arguments)
    task = dataclasses.replace(parsed.task, preset=preset.preset)
    named_layers(task)
    return task, parsed.strategy


def parse(kind: type[T], description: str, arguments: Sequence[str] | None = None) -> T:
    """The sweep or the products, whichever the `kind`, that the command line asks for.

    Raises UserError for a value that can't be meant.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    return tyro.cli(kind, description=description, args=arguments, config=(tyro.conf.EnumChoicesFromValues,))


def _refuse_options_of_others(strategy: Strategy, arguments: Sequence[str]) -> None:
    names = {*option_names(Task), *option_names(strategy.options)}
    for argument in arguments:
        name = argument.partition("=")[0].replace("_", "-")
        if not name.startswith("--") or name in names:
            continue
        # Every folder's declarations are read only here, where a worker that starts as it should never comes.
        if owners := [other.name for other in strategies().values() if name in option_names(other.options)]:
            raise UserError(
                f"{name} has no effect on {strategy.name}: leave it out, or choose one of {', '.join(owners)}."
            )


@cache
def option_names(fields: type) -> frozenset[str]:
    """The options that tyro makes of this dataclass: `--name` of each field, and `--no-name` of each that is a bool."""
    names = {option_name(each.name) for each in dataclasses.fields(fields)}
    flags = {option_name(each.name) for each in dataclasses.fields(fields) if isinstance(each.default, bool)}
    return frozenset(names | {name.replace("--", "--no-", 1) for name in flags})


def to_arguments(task: Task, options: Options) -> list[str]:
    """The options that `parse_command_line` turns back into both: what differs from the preset and the defaults."""
    differing = [*options_of(task, PRESETS[task.preset]), *options_of(options, type(options)())]
    return ["--preset", task.preset, *differing]


def check_world_size(task: Task, world_size: int, launcher: str) -> None:
    """Raises UserError when the world that `launcher` started isn't the one that `--workers` asks for."""
    if task.workers is not None and task.workers != world_size:
        raise UserError(
            f"--workers {task.workers}, but {launcher} started {world_size}: give both the same number, "
            "or leave --workers out."
        )
