"""A smoke test of every collective of Horovod, each result compared with NumPy's.

To start it: `python horovod_impl/check.py`, which launches two processes for each framework and each controller that
Horovod was built with; or one of these alone, `horovodrun -np 2 python horovod_impl/check.py --framework torch`.
"""

import argparse
import faulthandler
import importlib
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

import numpy as np
from rich.console import Console
from rich.table import Table

from common.errors import require_framework
from common.launching.processes import exit_on_signals, run_group
from horovod_impl.world import controller_of

FRAMEWORKS = ("torch", "tensorflow")
CONTROLLERS = ("gloo", "mpi")
LIMIT_SECONDS = 180
"""Longest duration of a launch. On 2 cores without other load a launch takes about 10 s."""

NUMBERS = ("float16", "float32", "float64", "int32", "int64")
NO_VALUES = "no values"

Results = Iterator[tuple[Any, Any]]
"""Pairs of Horovod's result and NumPy's."""


@dataclass(frozen=True)
class World:
    """This process among its peers, its framework, and every rank's input to a collective."""

    hvd: ModuleType
    """horovod.torch or horovod.tensorflow."""
    tensor: Callable[[Any], Any]
    """Makes a tensor of the framework from NumPy's array."""
    rank: int
    size: int
    name: str
    """The name of this collective's call, the same on every rank."""
    values: list[np.ndarray]
    """Each rank's input: size * 6 rows of 3 columns. Every sum, product and mean of them is exact in float16."""

    @property
    def local(self) -> np.ndarray:
        """This rank's input."""
        return self.values[self.rank]

    def shard(self, array: np.ndarray) -> np.ndarray:
        """This rank's part of an array that is split along its first dimension."""
        return np.split(array, self.size)[self.rank]


def all_reduce(world: World, operation: str, reduce: Callable[[list[np.ndarray]], np.ndarray]) -> Results:
    """Every rank gets what one of Horovod's operations makes of all inputs."""
    result = world.hvd.allreduce(world.tensor(world.local), op=getattr(world.hvd, operation), name=world.name)
    yield result, reduce(world.values)


def mean(values: list[np.ndarray]) -> np.ndarray:
    """Return the mean of each element, a whole number of whole numbers."""
    return sum(values) // len(values) if values[0].dtype.kind == "i" else sum(values) / len(values)


def grouped_all_reduce(world: World) -> Results:
    """Several tensors of different shapes in one operation."""
    tensors = [world.tensor(world.local), world.tensor(world.local[:1, 0])]
    sums = world.hvd.grouped_allreduce(tensors, op=world.hvd.Sum, name=world.name)
    yield from zip(sums, [sum(world.values), sum(world.values)[:1, 0]], strict=True)


def all_gather(world: World) -> Results:
    """Every rank gets the rows of all ranks, of which each has another number."""
    gathered = world.hvd.allgather(world.tensor(world.local[: world.rank + 1]), name=world.name)
    yield gathered, np.concatenate([rows[: rank + 1] for rank, rows in enumerate(world.values)])


def grouped_all_gather(world: World) -> Results:
    """Several tensors in one operation, with another number of rows from each rank."""
    tensors = [world.tensor(world.local[: world.rank + 1]), world.tensor(world.local[world.rank :, 0])]
    first, second = world.hvd.grouped_allgather(tensors, name=world.name)
    yield first, np.concatenate([rows[: rank + 1] for rank, rows in enumerate(world.values)])
    yield second, np.concatenate([rows[rank:, 0] for rank, rows in enumerate(world.values)])


def broadcast(world: World) -> Results:
    """Every rank gets the last rank's rows."""
    last = world.size - 1
    yield world.hvd.broadcast(world.tensor(world.local), root_rank=last, name=world.name), world.values[last]


def all_to_all(world: World) -> Results:
    """Each rank sends r + 1 of its rows to rank r; odd ranks send one row more."""
    splits = [np.arange(world.size) + 1 + rank % 2 for rank in range(world.size)]
    tensor = world.tensor(world.local[: splits[world.rank].sum()])
    local_splits = world.tensor(splits[world.rank].astype("int32"))
    received, counts = world.hvd.alltoall(tensor, splits=local_splits, name=world.name)
    starts = [split[: world.rank].sum() for split in splits]
    lengths = [split[world.rank] for split in splits]
    parts = zip(world.values, starts, lengths, strict=True)
    yield received, np.concatenate([rows[start : start + length] for rows, start, length in parts])
    yield counts, np.array(lengths, dtype="int32")


def reduce_scatter(world: World) -> Results:
    """Each rank gets its part of the sum."""
    part = world.hvd.reducescatter(world.tensor(world.local), op=world.hvd.Sum, name=world.name)
    yield part, world.shard(sum(world.values))


def grouped_reduce_scatter(world: World) -> Results:
    """Several tensors in one operation, of which each rank gets its part of the sum."""
    tensors = [world.tensor(world.local), world.tensor(world.local[: world.size, 0])]
    # The function of horovod.tensorflow takes no name.
    first, second = world.hvd.grouped_reducescatter(tensors, op=world.hvd.Sum)
    yield first, world.shard(sum(world.values))
    yield second, world.shard(sum(world.values)[: world.size, 0])


def process_sets(world: World) -> Results:
    """Two process sets, of the last rank and of the other ranks, are made, sum among themselves, and are removed."""
    last = world.size - 1
    groups = [list(range(last)), [last]]
    sets = [world.hvd.add_process_set(ranks) for ranks in groups]
    group = int(world.rank == last)
    total = world.hvd.allreduce(world.tensor(world.local), op=world.hvd.Sum, name=world.name, process_set=sets[group])
    yield total, sum(world.values[rank] for rank in groups[group])
    yield [world.hvd.remove_process_set(s) for s in sets], [True, True]


def join(world: World) -> Results:
    """The last rank goes on alone. Ranks that have joined count as zeros in its sum."""
    if world.rank == world.size - 1:
        total = world.hvd.allreduce(world.tensor(world.local), op=world.hvd.Sum, name=world.name)
        yield total, world.local
    yield int(world.hvd.join()), world.size - 1


def barrier(world: World) -> Results:
    """No rank leaves before the straggler has arrived. All ranks read the clock of one machine."""
    time.sleep(0.2 * world.rank)
    arrived = time.time()
    world.hvd.barrier()
    left = time.time()
    arrivals = np.asarray(world.hvd.allgather(world.tensor(np.array([arrived])), name=world.name))
    yield bool(left >= arrivals.max()), True


COLLECTIVES: dict[str, Callable[[World], Results]] = {
    "all_reduce_sum": partial(all_reduce, operation="Sum", reduce=sum),
    "all_reduce_average": partial(all_reduce, operation="Average", reduce=mean),
    "all_reduce_min": partial(all_reduce, operation="Min", reduce=np.minimum.reduce),
    "all_reduce_max": partial(all_reduce, operation="Max", reduce=np.maximum.reduce),
    "all_reduce_product": partial(all_reduce, operation="Product", reduce=math.prod),
    "grouped_all_reduce": grouped_all_reduce,
    "all_gather": all_gather,
    "grouped_all_gather": grouped_all_gather,
    "broadcast": broadcast,
    "all_to_all": all_to_all,
    "reduce_scatter": reduce_scatter,
    "grouped_reduce_scatter": grouped_reduce_scatter,
    "process_sets": process_sets,
    "join": join,
    "barrier": barrier,
}


def outcome(collective: Callable[[World], Results], world: World) -> str:
    """Return 'ok', or 'wrong: ...' with the rank and its result or error."""
    try:
        # The whole collective runs before any comparison: a rank that stopped halfway would leave the others waiting.
        pairs = [(np.asarray(result), np.asarray(expected)) for result, expected in collective(world)]
    except Exception as error:  # Whatever Horovod or its framework raises is the outcome.
        return f"wrong: rank {world.rank} had {' '.join(f'{type(error).__name__}: {error}'.split())}"
    for result, expected in pairs:
        if result.dtype != expected.dtype or not np.array_equal(result, expected):
            return f"wrong: rank {world.rank} got {described(result)} instead of {described(expected)}"
    return "ok"


def described(array: np.ndarray) -> str:
    """Return type and shape of the array, and its first and last elements."""
    elements = np.array2string(array.ravel(), threshold=8, edgeitems=4, separator=", ")
    return f"{array.dtype} {array.shape} {elements}"


def check_here(framework: str) -> bool:
    """Try every collective as one of horovodrun's processes. Return whether each result was right.

    Rank 0 prints the table of its results. Every rank prints its own wrong results.
    """
    # A collective that hangs ends here with its traceback, and horovodrun ends the other ranks.
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    hvd = importlib.import_module(f"horovod.{framework}")
    library = importlib.import_module(framework)
    make_tensor = library.from_numpy if framework == "torch" else library.constant

    def tensor(array: np.ndarray) -> Any:  # noqa: ANN401
        # horovod.torch's grouped collectives look only at the first tensor, and misread others that are not contiguous.
        return make_tensor(np.ascontiguousarray(array))

    hvd.init()
    outcomes = {}
    for name, collective in COLLECTIVES.items():
        for values in [NO_VALUES] if name == "barrier" else NUMBERS:
            inputs = [] if values == NO_VALUES else [input_of(rank, hvd.size(), values) for rank in range(hvd.size())]
            world = World(hvd, tensor, hvd.rank(), hvd.size(), f"{name}.{values}", inputs)
            # Horovod never wrote a barrier for TensorFlow.
            is_missing = name == "barrier" and not hasattr(hvd, name)
            outcomes[name, values] = "unsupported" if is_missing else outcome(collective, world)
    if hvd.rank() == 0:
        print_table(f"horovod.{framework}, {controller_of(hvd)}, {hvd.size()} processes", outcomes)
    wrong = [
        f"{name} {values} is {result}" for (name, values), result in outcomes.items() if result.startswith("wrong")
    ]
    for line in wrong:
        print(line, flush=True)
    hvd.shutdown()
    return not wrong


def input_of(rank: int, size: int, values: str) -> np.ndarray:
    """Return the rank's input: multiples of 1/4, or of the world's size for integers."""
    drawn = np.random.default_rng(rank).integers(-8, 9, size=(size * 6, 3))
    return (drawn * size if values.startswith("int") else drawn / 4).astype(values)


def print_table(title: str, outcomes: dict[tuple[str, str], str]) -> None:
    """Print one row per collective, one column per type of values."""
    table = Table("", *NUMBERS, NO_VALUES, title=title, title_justify="left", box=None, pad_edge=False)
    for name in COLLECTIVES:
        cells = [outcomes.get((name, values), "").partition(":")[0] for values in (*NUMBERS, NO_VALUES)]
        table.add_row(name.replace("_", " "), *cells)
    Console(width=120, color_system=None).print(table)


def launch(framework: str, controller: str) -> int:
    """Check one framework over one controller on two processes, print what rank 0 does, and return the exit status."""
    program = Path(sys.executable)
    command = [str(program.with_name("horovodrun")), f"--{controller}", "-np", "2"]
    command += [str(program), str(Path(__file__).resolve()), "--framework", framework]
    # Open MPI refuses root unless asked, and complains that UCX, one of its ways to remote memory, finds no network.
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_osc": "^ucx"}
    settings |= {"TF_CPP_MIN_LOG_LEVEL": "2", "PATH": f"{program.parent}:{os.environ['PATH']}"}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        streams = {"stdout": output, "stderr": errors}
        outcome = run_group([command], os.environ | settings, LIMIT_SECONDS + 30, streams=streams)
        output.seek(0)
        errors.seek(0)
        # horovodrun writes a rank in front of each line.
        print(re.sub(r"^\[[\d,]+\]<\w+>: ?", "", output.read(), flags=re.MULTILINE), flush=True)
        messages = errors.read()
    if outcome.timed_out:
        messages += f"\nhorovodrun had not ended after {LIMIT_SECONDS + 30} s and was ended.\n"
    if outcome.status:
        print(f"{messages}\nhorovod.{framework} over {controller} failed: see above.\n", file=sys.stderr, flush=True)
    return abs(outcome.status)


def check_build() -> tuple[str, ...]:
    """Print the answer of `horovodrun --check-build`, and return the controllers that Horovod was built with."""
    command = [str(Path(sys.executable).with_name("horovodrun")), "--check-build"]
    answer = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    print(answer.strip(), end="\n\n", flush=True)
    controllers = answer.partition("Available Controllers:")[2].partition("Available Tensor")[0]
    return tuple(name for name in CONTROLLERS if f"[x] {name}" in controllers.lower())


def main() -> int:
    """Check the frameworks and controllers of the command line. Return the exit status, 0 for right results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--framework", choices=FRAMEWORKS, help="both, unless given")
    parser.add_argument("--controller", choices=CONTROLLERS, help="all that were built, unless given")
    arguments = parser.parse_args()
    if "HOROVOD_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ:
        return 0 if check_here(arguments.framework or "torch") else 1
    built = check_build()
    frameworks = [arguments.framework] if arguments.framework else FRAMEWORKS
    controllers = [arguments.controller] if arguments.controller else built
    exit_on_signals()
    return max(launch(framework, controller) for framework in frameworks for controller in controllers)


if __name__ == "__main__":
    require_framework("horovod")
    sys.exit(main())
