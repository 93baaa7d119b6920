"""JAX's collectives, alone: between processes over Gloo, or between the devices of one process.

Each method of `Collectives` is what one rank computes, as `shard_map` takes it, and the clock times the compiled call.
A rank is a process with one device, or one of the devices of a process. The environment variable LOCKSTEP_JAX_LIBRARY
chooses the library: jax (the default, between processes) or jax_in_one_process.

To start it: `python jax_impl/collectives.py --workers 2 --collectives all_reduce -b 8 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("jax")

import dataclasses
import os
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common.contract.collectives import Collective
from common.declarations.arguments import parse
from common.declarations.library import Library
from common.declarations.sweep import Sweep
from common.measurement.collectives import Operation, measure
from common.measurement.world import World
from jax_impl.libraries import IN_ONE_PROCESS, LIBRARY, OVER_GLOO
from jax_impl.mlp import WORKERS
from jax_impl.world import joined, start_unless_given, world_of_devices


def main() -> None:
    """Measure the collectives of the library that LOCKSTEP_JAX_LIBRARY names, as the command line says.

    Raises UserError for an unknown library, and for GPUs where the library joins CPUs.
    """
    libraries = {library.name: library for library in (OVER_GLOO, IN_ONE_PROCESS)}
    name = os.environ.get(LIBRARY, OVER_GLOO.name)
    if name not in libraries:
        raise UserError(f"{LIBRARY} is {name}: name one of {', '.join(libraries)}.")
    sweep = parse(Sweep, __doc__)
    if name == IN_ONE_PROCESS.name:
        _measure(IN_ONE_PROCESS, sweep, *world_of_devices(sweep))
        return
    if sweep.device == "gpu":
        raise UserError(f"--device gpu: {OVER_GLOO.title} are measured between CPUs; leave it out.")
    start_unless_given(OVER_GLOO, __doc__)
    with joined(dataclasses.replace(sweep, device="cpu")) as (world, mesh):
        _measure(OVER_GLOO, sweep, world, mesh)


def _measure(library: Library, sweep: Sweep, world: World, mesh: Mesh) -> None:
    prepare = partial(Collectives(mesh).prepare, data_type=sweep.data_type)
    facts = {"threads of XLA's pool": os.environ["PJRT_NPROC"]}
    if not library.one_process:
        facts["network interface"] = os.environ.get("GLOO_SOCKET_IFNAME", "that of the host's name")
    # JAX has no barrier. An all-reduce ends nowhere before it has begun everywhere.
    measure(library, sweep, world, prepare, barrier=prepare(Collective.ALL_REDUCE, 1).run, facts=facts)


@dataclass(frozen=True)
class Collectives:
    """The collectives of the mesh's devices. Each method but `prepare` computes one rank's result of its elements."""

    mesh: Mesh

    def prepare(self, collective: Collective, elements: int, data_type: str) -> Operation:
        """The operation of a collective, with `elements` elements in each rank's input."""
        parts = P(WORKERS)
        # The methods have the collectives' names.
        call = jax.jit(
            jax.shard_map(getattr(self, collective), mesh=self.mesh, in_specs=parts, out_specs=parts, check_vma=False)
        )

        def place(inputs: list[np.ndarray]) -> jax.Array:
            # JAX may read NumPy's memory later. Nobody writes to it.
            arrays = [jax.device_put(*each) for each in zip(inputs, self.mesh.local_devices, strict=True)]
            shape, sharding = (self.mesh.size * elements,), NamedSharding(self.mesh, parts)
            return jax.make_array_from_single_device_arrays(shape, sharding, arrays).block_until_ready()

        buffer = result = place([np.zeros(elements, data_type)] * len(self.mesh.local_devices))

        def load(inputs: list[np.ndarray]) -> None:
            nonlocal buffer
            buffer = place(inputs)

        def run() -> None:
            nonlocal result
            # A compiled function returns before its result is there.
            result = call(buffer).block_until_ready()

        return Operation(load, run, results=lambda: [np.array(shard.data) for shard in result.addressable_shards])

    def send_receive(self, own: jax.Array) -> jax.Array:
        """Send the first rank's elements to the last rank. The other ranks get zeros."""
        return lax.ppermute(own, WORKERS, [(0, self.mesh.size - 1)])

    def broadcast(self, own: jax.Array) -> jax.Array:
        """Copy the first rank's elements to every rank, as `broadcast_one_to_all` does: the others add zeros."""
        return lax.psum(jnp.where(lax.axis_index(WORKERS) == 0, own, 0), WORKERS)

    def all_gather(self, own: jax.Array) -> jax.Array:
        """Collect the elements of all ranks on every rank."""
        return lax.all_gather(own, WORKERS, tiled=True)

    def reduce_scatter(self, own: jax.Array) -> jax.Array:
        """Give each rank an N-th of the sums over all ranks."""
        return lax.psum_scatter(own, WORKERS, tiled=True)

    def all_reduce(self, own: jax.Array) -> jax.Array:
        """Sum the elements of all ranks on every rank."""
        return lax.psum(own, WORKERS)

    def all_to_all(self, own: jax.Array) -> jax.Array:
        """Give each rank its N-th of every rank's elements."""
        return lax.all_to_all(own, WORKERS, split_axis=0, concat_axis=0, tiled=True)


if __name__ == "__main__":
    exit_with_one_line(main)
