"""Which environment variables a launch inherits from whoever starts it.

A launch makes its own world. Variables of another one, which a launcher or a cluster's operator has left in the shell,
would have it wait for hosts that it doesn't have. A proxy would be asked for the way to its own hosts.
"""

import os
import re
from collections.abc import Mapping, MutableMapping

from common.declarations import catalogue, slurm
from common.declarations.strategy import MPI_WORLD
from common.errors import print_note

_PROXY = re.compile(r"\w+_proxy", re.IGNORECASE)
"""Variables such as https_proxy, grpc_proxy and NO_PROXY, which programs read in both cases."""


def inherited(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables without those that describe another world, and without proxies."""
    foreign = world_variables(variables)
    return {name: value for name, value in variables.items() if name not in foreign and not _PROXY.fullmatch(name)}


def world_variables(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of those variables by which a launcher tells a process its world, sorted."""
    patterns = [MPI_WORLD, slurm.WORLD, *(family.world_variables for family in catalogue.families().values())]
    return sorted(name for name in variables if any(re.fullmatch(pattern, name) for pattern in patterns))


def note_what_is_left_out() -> None:
    """Print one note with the names of the variables of another world, if there are any."""
    if names := world_variables():
        print_note(f"this launch makes its own world, and leaves out what describes another: {', '.join(names)}.")


def drop_proxies(variables: MutableMapping[str, str] = os.environ) -> None:
    """Have this process reach the hosts of its world directly: gRPC would ask a proxy for them."""
    for name in [name for name in variables if _PROXY.fullmatch(name)]:
        del variables[name]
