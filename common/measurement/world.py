"""The workers of a launch, as one of their processes sees them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from common.measurement import machine, startup
from common.measurement.machine import Pinning

T = TypeVar("T")


class AllGather(Protocol):
    """Hands every rank's object to every rank."""

    def __call__(self, value: T, /) -> list[T]:
        """The objects in the order of the ranks."""
        ...


@dataclass(frozen=True, kw_only=True)
class World:
    """The workers of a launch, and how this process reaches the others, by the framework's own means."""

    pinning: Pinning
    """The cores that this process is kept on."""
    rank: int = 0
    """This process among all of them, from 0."""
    size: int = 1
    """Number of workers: of processes, or of replicas that one process holds or feeds."""
    backend: str = "none"
    """What carries the tensors, such as gloo."""
    device: str = "cpu"
    """What computes: cpu, or a GPU's name."""
    all_gather: AllGather = lambda value: [value]
    """Hands every rank's object to every rank, in the order of the ranks."""
    synchronize: Callable[[], object] = lambda: None
    """Waits until the device has done all it was given."""


def facts_of(world: World, packages: Iterable[str]) -> dict[str, object]:
    """What every record of a launch says of its first rank: what carried and computed, where, by which `packages`."""
    return {
        "backend": world.backend,
        "device": world.device,
        "oversubscribed": world.pinning.oversubscribed,
        "pinned_cores": world.pinning.pinned_cores,
        "bound_by_slurm": world.pinning.bound_by_slurm,
        "private_network": machine.has_private_network(),
        "versions": machine.versions(packages),
        "python_variables": machine.python_variables(),
        "packages_digest": machine.packages_digest(),
        "host": machine.host_facts(),
        "started_at": startup.started_at(),
    }
