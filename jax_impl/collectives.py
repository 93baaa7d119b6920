"""JAX's collectives, alone: between processes over Gloo, or between the devices of one process.

`RANK_FUNCTIONS` has what one rank computes, as `shard_map` takes it, and the clock times the compiled call. A rank is a
process with one device, or one of the devices of a process. The environment variable LOCKSTEP_JAX_LIBRARY chooses the
library: jax (the default, between processes) or jax_in_one_process.

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
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from common.contract.collective_meanings import Collective
from common.declarations.arguments import parse
from common.declarations.library import Library
from common.declarations.sweep import Sweep
from common.measurement.collective_calls import Operation, measure
from common.measurement.world import World
from jax_impl.libraries import IN_ONE_PROCESS, LIBRARY, OVER_GLOO
from jax_impl.model import WORKERS
from jax_impl.world import join_parts, joined, start_unless_given, world_of_devices

RANK_FUNCTIONS = {
    # From the first rank to the last one. The other ranks get zeros.
    Collective.SEND_RECEIVE: lambda own: lax.ppermute(own, WORKERS, [(0, lax.axis_size(WORKERS) - 1)]),
    # As `broadcast_one_to_all` does it: all but the first rank add zeros.
    Collective.BROADCAST: lambda own: lax.psum(jnp.where(lax.axis_index(WORKERS) == 0, own, 0), WORKERS),
    Collective.ALL_GATHER: lambda own: lax.all_gather(own, WORKERS, tiled=True),
    Collective.REDUCE_SCATTER: lambda own: lax.psum_scatter(own, WORKERS, tiled=True),
    Collective.ALL_REDUCE: lambda own: lax.psum(own, WORKERS),
    Collective.ALL_TO_ALL: lambda own: lax.all_to_all(own, WORKERS, split_axis=0, concat_axis=0, tiled=True),
}
"""What a rank computes of its own elements, and of those of the other ranks."""


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
    start_unless_given(OVER_GLOO, sweep, OVER_GLOO.options)
    with joined(dataclasses.replace(sweep, device="cpu")) as (world, mesh):
        _measure(OVER_GLOO, sweep, world, mesh)


def _measure(library: Library, sweep: Sweep, world: World, mesh: Mesh) -> None:
    prepare_here = partial(prepare, mesh, data_type=sweep.data_type)
    facts = {"threads of XLA's pool": os.environ["PJRT_NPROC"]}
    if not library.one_process:
        facts["network interface"] = os.environ.get("GLOO_SOCKET_IFNAME", "that of the host's name")
    # JAX has no barrier. An all-reduce ends nowhere before it has begun everywhere.
    measure(library, sweep, world, prepare_here, barrier=prepare_here(Collective.ALL_REDUCE, 1).run, facts=facts)


def prepare(mesh: Mesh, collective: Collective, elements: int, data_type: str) -> Operation:
    """The operation of a collective of the mesh's devices, with `elements` elements in each rank's input."""
    parts = P(WORKERS)
    call = jax.jit(
        jax.shard_map(RANK_FUNCTIONS[collective], mesh=mesh, in_specs=parts, out_specs=parts, check_vma=False)
    )
    buffer = result = join_parts(mesh, [np.zeros(elements, data_type)] * len(mesh.local_devices))

    def load(inputs: list[np.ndarray]) -> None:
        nonlocal buffer
        # JAX may read NumPy's memory later. Nobody writes to it.
        buffer = join_parts(mesh, inputs).block_until_ready()

    def run() -> None:
        nonlocal result
        # A compiled function returns before its result is there.
        result = call(buffer).block_until_ready()

    return Operation(load, run, results=lambda: [np.array(shard.data) for shard in result.addressable_shards])


if __name__ == "__main__":
    exit_with_one_line(main)
