"""Programs that the laboratory is measured beside, and how it takes turns with one of them in a launch.

They are an all-reduce of each library, in a loop without any harness, and mpi4py's own demos. Both sides make their
calls in the same processes and the script's own world, and at every turn in other memory: where the kernel puts it
changes a mean by more than what is compared. tests/benchmarks/collective_peers.py has this started in place of the
library's script, whose path comes first, and has put the demos where Python finds them.
"""

import contextlib
import dataclasses
import importlib
import io
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from common.contract.collective_meanings import Collective
from common.declarations.sweep import Sweep
from common.measurement import collective_calls as laboratory
from common.measurement.runner import run_script
from common.records.collective_times import Cell, append_line, cells_path, read_lines
from common.records.files import from_json, write_record
from common.records.trace import Message, Trace
from tests.benchmarks.paired import remember

PEER = "LOCKSTEP_PEER"
"""Environment variable with the peer's name."""

RANKS = 2
SIZES = (8, 256 * 2**10, 4 * 2**20)
"""Bytes, as the peer counts them."""

ROUNDS = 15
"""Loops of each at each size, in a launch."""


@dataclass(frozen=True)
class Peer:
    """Another program that makes the same calls."""

    library: str
    """Ours, which it is measured beside."""
    calls: tuple[int, ...]
    """Timed calls of a loop, at each of the sizes; a tenth as many come before."""
    collective: Collective = Collective.ALL_REDUCE
    there_and_back: bool = False
    """Whether a call sends back and forth, and counts as two."""
    parts: int = 1
    """How many times the peer's size ours is."""

    def sweep(self, size_bytes: int) -> Sweep:
        """A loop of the laboratory's at this size of the peer's."""
        calls = self.calls[SIZES.index(size_bytes)]
        return Sweep(
            collectives=(self.collective,),
            sizes=(str(self.parts * size_bytes),),
            iterations=calls,
            warmup_iterations=calls // 10,
            check=False,
            pipelined=True,
            workers=RANKS,
            device="cpu",
        )


_MPI_CALLS, _HOROVOD_CALLS = (20_000, 2000, 300), (150, 60, 40)

PEERS = {
    "osu_latency": Peer("mpi", _MPI_CALLS, Collective.SEND_RECEIVE, there_and_back=True),
    "osu_bcast": Peer("mpi", _MPI_CALLS, Collective.BROADCAST),
    "osu_allgather": Peer("mpi", _MPI_CALLS, Collective.ALL_GATHER, parts=RANKS),
    "bare_gloo": Peer("gloo", (1000, 100, 50)),
    "bare_mpi": Peer("mpi", _MPI_CALLS),
    "bare_horovod_gloo": Peer("horovod_gloo", _HOROVOD_CALLS),
    "bare_horovod_mpi": Peer("horovod_mpi", _HOROVOD_CALLS),
    "bare_tensorflow": Peer("tensorflow", (150, 100, 30)),
}


def take_turns(peers_mean: Callable[[int, Sweep], float]) -> None:
    """Run the script that this process's first argument names; where it would measure, it takes turns with a peer.

    `peers_mean` gives the seconds of one of the peer's calls of so many bytes, the mean over a loop.
    """
    # What the network carries is counted beside the clock, in more calls, which no peer makes.
    uncounted = patch.object(laboratory, "_COUNTED_SECONDS", 0.0)
    with uncounted, patch.object(laboratory, "measure", in_turn(laboratory.measure, peers_mean)):
        run_script()


def in_turn(measure: Callable[..., None], peers_mean: Callable[[int, Sweep], float]) -> Callable[..., None]:
    """`measure`, which leaves in the sweep's record a line for each round and size, with both means."""
    peer = PEERS[os.environ[PEER]]

    def measured(library, sweep, world, prepare, barrier, facts) -> None:
        def ours_mean(size_bytes: int, loop: Sweep) -> float:
            with tempfile.TemporaryDirectory() as scratch:
                ours = dataclasses.replace(loop, record=Path(scratch) / "record.json")
                if peer.there_and_back:
                    ours = dataclasses.replace(ours, messages=there_and_back(size_bytes, loop, Path(scratch)))
                measure(library, ours, world, prepare, barrier, facts)
                return mean_seconds(ours.record) / (2 if peer.there_and_back else 1) if world.rank == 0 else 0.0

        chance, occupied = random.Random(sweep.seed), []
        for _ in range(ROUNDS):
            for size_bytes in SIZES:
                means = {}
                for mean in chance.sample((ours_mean, peers_mean), 2):
                    # Else each would get back the memory that it had at its last turn.
                    occupied.append(np.ones(chance.randrange(SIZES[-1]), np.uint8))
                    world.all_gather(None)
                    means[mean] = mean(size_bytes, peer.sweep(size_bytes))
                if world.rank == 0:
                    both = {"ours_seconds": means[ours_mean], "peer_seconds": means[peers_mean]}
                    append_line(sweep.record, {"size_bytes": size_bytes, **both})

    return measured


def there_and_back(size_bytes: int, sweep: Sweep, folder: Path) -> Path:
    """The file of messages of which each call sends so many bytes from the first rank to the last, and as many back."""
    known = {"collective": Collective.SEND_RECEIVE.value, "size_bytes": size_bytes}
    messages = [Message(**known), Message(**known, backwards=True)]
    about = {"strategy": "", "source": "this benchmark", "library": "mpi", "data_type": sweep.data_type}
    path = folder / "messages.json"
    write_record(path, Trace(**about, workers=sweep.workers, messages=messages))
    return path


def mean_seconds(record: Path) -> float:
    """Seconds of a call in the record's one cell: the first rank's whole loop over the number of its calls."""
    [cell] = [from_json(line, Cell) for line in read_lines(cells_path(record)) if "collective" in line]
    [entered], [left] = cell.entered_seconds[0], cell.left_seconds[0]
    return (left - entered) / cell.loop_calls


def gloo(size_bytes: int) -> Callable[[], object]:
    """torch.distributed's, in the script's process group."""
    import torch
    import torch.distributed as dist

    own = torch.ones(size_bytes // 4)
    return lambda: dist.all_reduce(own)


def mpi(size_bytes: int) -> Callable[[], object]:
    """mpi4py's. It is told the type of its arrays, as the tutorial does where speed counts."""
    from mpi4py import MPI  # Starts MPI, for which the script has its settings.

    own, total = ([np.ones(size_bytes // 4, np.float32), MPI.FLOAT] for _ in range(2))
    return lambda: MPI.COMM_WORLD.Allreduce(own, total)


def horovod(size_bytes: int) -> Callable[[], object]:
    """Horovod's, with the script's settings of its cycle and of how Open MPI waits."""
    import horovod.torch as hvd
    import torch

    own = torch.ones(size_bytes // 4)
    return lambda: hvd.allreduce_(own, op=hvd.Sum, name="bare")


def tensorflow(size_bytes: int, made: list) -> Callable[[], object]:
    """tf.distribute's, in the strategy that the script has made."""
    import tensorflow as tf

    own = tf.Variable(tf.ones(size_bytes // 4))

    def add() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own.read_value())

    return tf.function(lambda: made[-1].run(add), autograph=False)


def mean_of_loop(prepare: Callable[[int], Callable[[], object]], size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    call = prepare(size_bytes)
    for _ in range(sweep.warmup_iterations):
        call()
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        call()
    return (time.perf_counter() - started) / sweep.iterations


def mean_of_demo(name: str, size_bytes: int, sweep: Sweep) -> float:
    """Seconds of a call of so many bytes, as the demo prints them on the first rank; elsewhere 0.

    The demo runs unchanged but for its arguments and its memory, and goes through all powers of two up to this size.
    Its memory is NumPy's, and written, as the laboratory's is. It would take memory that processes could share, and
    never write to some of it: of such memory the kernel hands out one page of zeros, which stays in the cache.
    """
    before, timed = sweep.warmup_iterations, sweep.iterations
    demo = importlib.import_module(name)
    demo.allocate = lambda capacity_bytes: np.ones(capacity_bytes, np.uint8)
    often = {"skip": before, "loop": timed, "skip_large": before, "loop_large": timed}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        getattr(demo, name)(**often, MAX_MSG_SIZE=size_bytes)
    if not printed.getvalue():
        return 0.0
    size, microseconds = printed.getvalue().splitlines()[-1].split()
    assert int(size) == size_bytes
    return float(microseconds) / 1e6


def main() -> None:
    """Take turns with the script that the first argument names."""
    name = os.environ[PEER]
    if name.startswith("osu_"):
        take_turns(lambda size_bytes, sweep: mean_of_demo(name, size_bytes, sweep))
        return
    prepare = {"gloo": gloo, "mpi": mpi, "horovod_gloo": horovod, "horovod_mpi": horovod}.get(PEERS[name].library)
    if prepare is None:
        import tensorflow as tf

        made = remember(tf.distribute, "MultiWorkerMirroredStrategy")

        def prepare(size_bytes: int) -> Callable[[], object]:
            return tensorflow(size_bytes, made)

    take_turns(lambda size_bytes, sweep: mean_of_loop(prepare, size_bytes, sweep))


if __name__ == "__main__":
    main()
