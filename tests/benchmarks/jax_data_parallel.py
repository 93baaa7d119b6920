"""jax_data_parallel in turn with a bare `shard_map` over the same processes."""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common.measurement.run import Run
from jax_impl import data_parallel
from tests.benchmarks import bare_jax, paired


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop over all devices, one of each process."""
    mesh = Mesh(np.array(jax.devices()), ("workers",))
    [device] = mesh.local_devices

    def place(array: np.ndarray) -> jax.Array:
        return jax.make_array_from_process_local_data(NamedSharding(mesh, P()), array)

    def place_rows(rows: np.ndarray) -> jax.Array:
        parts = NamedSharding(mesh, P("workers"))
        local = [jax.device_put(rows.astype(np.int32), device)]
        return jax.make_array_from_single_device_arrays((mesh.size * len(rows),), parts, local)

    distribute = partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("workers"), P(), P(), P()),
        out_specs=(P(), P("workers")),
        check_vma=False,
    )
    average = partial(lax.pmean, axis_name="workers")
    return bare_jax.make_window(run, place, place_rows, distribute, average)


if __name__ == "__main__":
    paired.main(data_parallel, make_bare_window)
