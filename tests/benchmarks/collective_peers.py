"""Whether the laboratory's means are those of others: mpi4py's own benchmarks, and a bare all-reduce of each library.

To start it: `.nox/tools/bin/python -m tests.benchmarks.collective_peers`. It takes about 15 minutes. A pair is a launch
of the laboratory with checking off and one of the peer, by the same launcher, with two ranks, each on a core of its
own, and with as many calls before the clock and under it. What is compared is the first rank's mean over a loop of
calls one right after the other. The demos of mpi4py's source archive run unchanged but for their arguments. They go
through all powers of two, of which the three below are compared. What they do differs thus:

- osu_latency sends back and forth and reports half of it. So does the laboratory here, with two messages for its step,
  one each way: a launch for each size.
- osu_allgather counts the bytes of one rank, which lie in place already (MPI.IN_PLACE). The laboratory counts those of
  all, so its size is twice as much here, and its call copies a rank's own part as well.
- The demos hand MPI memory that processes could share, with count and type, and most never write to it; the laboratory
  hands it the memory of NumPy's arrays, with its type. At 8 bytes the difference may show.
"""

import dataclasses
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from common import supervision
from common.catalogue import ROOT, find_library
from common.errors import LaunchFailedError, UserError, exit_with_one_line
from common.laboratory.collectives import Collective
from common.laboratory.exchange import Message, Trace, write_trace
from common.laboratory.plan import PlannedSweep
from common.laboratory.record import Cell
from common.laboratory.supervision import run_planned
from common.laboratory.sweep import Sweep, to_arguments
from common.measurement import machine
from common.measurement.intervals import FEWEST_LAUNCHES, median_interval

LEAST, MOST = 0.9, 1.1
"""What the 95 % interval of our mean over the peer's is to lie within."""

RANKS = 2
SIZES = (8, 256 * 2**10, 4 * 2**20)
"""Bytes, as the peer counts them."""

MPI4PY, ARCHIVE_SHA256 = "4.1.2", "56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02"
"""The release whose demos are run, and the SHA-256 of its source archive on the Python Package Index."""

DEMO = "LOCKSTEP_DEMO"
"""Environment variable with the name of the demo to run."""

OSU = "osu_driver"
"""The module that runs a demo."""

DRIVER = f"""
import importlib, os, sys
from mpi4py import MPI
from common.laboratory.sweep import parse_command_line
from common.measurement import machine

sweep, name = parse_command_line("", sys.argv[2:]), os.environ["{DEMO}"]
machine.pin(sweep, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
before, timed = sweep.warmup_iterations, sweep.iterations
often = dict(skip=before, loop=timed, skip_large=before, loop_large=timed)
getattr(importlib.import_module(name), name)(**often, MAX_MSG_SIZE=sweep.size_bytes[-1])
"""
"""Its text: it takes the place of the library's script, whose path comes first."""

START = "import sys; from common.laboratory import launch; launch.main(runner=sys.argv.pop(1))"
"""The laboratory's launcher, which is told what to run in place of the library's script."""


@dataclass(frozen=True)
class Peer:
    """Another program that makes the same calls."""

    library: str
    """Ours, which it is measured beside."""
    runner: str
    """The module that takes the place of our library's script."""
    calls: int
    """Timed calls at each size; a tenth as many come before."""
    collective: Collective = Collective.ALL_REDUCE
    there_and_back: bool = False
    """Whether a call sends back and forth, and counts as two."""
    parts: int = 1
    """How many times the peer's size ours is."""

    def sweep(self, parts: int) -> Sweep:
        """What a launch measures, with so many times the peer's sizes."""
        return Sweep(
            collectives=(self.collective,),
            sizes=tuple(str(parts * size_bytes) for size_bytes in SIZES),
            iterations=self.calls,
            warmup_iterations=self.calls // 10,
            check=False,
            pipelined=True,
            workers=RANKS,
            device="cpu",
        )


PEERS = {
    "osu_latency": Peer("mpi", OSU, 3000, Collective.SEND_RECEIVE, there_and_back=True),
    "osu_bcast": Peer("mpi", OSU, 3000, Collective.BROADCAST),
    "osu_allgather": Peer("mpi", OSU, 3000, Collective.ALL_GATHER, parts=RANKS),
    "bare_gloo": Peer("gloo", "tests.benchmarks.bare_all_reduce_torch", 1000),
    "bare_mpi": Peer("mpi", "tests.benchmarks.bare_all_reduce_mpi", 3000),
    "bare_horovod_gloo": Peer("horovod_gloo", "tests.benchmarks.bare_all_reduce_horovod", 500),
    "bare_horovod_mpi": Peer("horovod_mpi", "tests.benchmarks.bare_all_reduce_horovod", 500),
    "bare_tensorflow": Peer("tensorflow", "tests.benchmarks.bare_all_reduce_tensorflow", 300),
}

Means = Mapping[int, float]
"""Seconds by the peer's size in bytes."""


@dataclass(frozen=True)
class Arguments:
    """Measure the laboratory beside its peers."""

    peers: tuple[Literal[tuple(PEERS)], ...] = tuple(PEERS)
    """Peers to measure it beside."""
    pairs: int = 10
    """Pairs of launches beside each."""


def main() -> None:
    """Measure beside every peer, in turn, and print a row for each of its sizes."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140)
    pairs: dict[str, list[tuple[Means, Means]]] = {name: [] for name in arguments.peers}
    turns = [name for name in arguments.peers for _ in range(arguments.pairs)]
    random.shuffle(turns)
    with machine.alone(), tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if any(PEERS[name].runner == OSU for name in arguments.peers):
            fetch_demos(folder)
        for number, name in enumerate(turns, start=1):
            pairs[name].append(pair_of(name, folder))
            ratios = ", ".join(f"{ours / other:.3f}" for ours, other in by_size(pairs[name][-1]))
            console.print(f"{number}/{len(turns)} {name}: {ratios}")
    table = Table("peer", "collective", "bytes", "pairs", "ours, us", "peer, us", "ratio", "95 % interval", "within")
    for name, measured in pairs.items():
        for place, size_bytes in enumerate(SIZES):
            table.add_row(
                name, PEERS[name].collective, *row_of(size_bytes, [by_size(each)[place] for each in measured])
            )
    console.print(table)


def fetch_demos(folder: Path) -> None:
    """Put mpi4py's demos, from its checked source archive, and their driver there. Raises UserError if pip can't."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"mpi4py=={MPI4PY} --hash=sha256:{ARCHIVE_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "mpi4py"]
    command += ["--requirement", str(requirements), "--dest", str(folder)]
    download = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if download.returncode:
        reason = (download.stdout.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"pip could not download mpi4py {MPI4PY}'s source ({reason}): check the network connection and pip's "
            "settings, or leave out the peers that are its demos."
        )
    shutil.unpack_archive(folder / f"mpi4py-{MPI4PY}.tar.gz", folder, filter="data")
    for script in (folder / f"mpi4py-{MPI4PY}" / "demo").glob("osu_*.py"):
        shutil.copy(script, folder)
    (folder / f"{OSU}.py").write_text(DRIVER)


def pair_of(name: str, folder: Path) -> tuple[Means, Means]:
    """Our means and the peer's, measured in an order that chance decides."""
    means = {}
    for measure in random.sample((ours_of, peers_of), 2):
        means[measure] = measure(name, folder)
    return means[ours_of], means[peers_of]


def ours_of(name: str, folder: Path) -> Means:
    """The laboratory's means. Raises LaunchFailedError where its launch doesn't end well."""
    peer, means = PEERS[name], {}
    sweep = peer.sweep(peer.parts)
    sweeps = [there_and_back(sweep, size_bytes, folder) for size_bytes in SIZES] if peer.there_and_back else [sweep]
    for each in sweeps:
        planned = PlannedSweep(find_library(peer.library), each, 1)
        record = run_planned(planned, folder)
        if record.status != "ok":
            raise LaunchFailedError(f"{planned.name} {record.status}: {record.reason}")
        parts = 2 if peer.there_and_back else peer.parts
        sent = 2 if peer.there_and_back else 1
        means |= {cell.size_bytes // parts: mean_seconds(cell) / sent for cell in record.cells}
    return means


def there_and_back(sweep: Sweep, size_bytes: int, folder: Path) -> Sweep:
    """The sweep whose every call sends so many bytes from the first rank to the last, and as many back."""
    known = {"collective": Collective.SEND_RECEIVE.value, "size_bytes": size_bytes}
    messages = [Message(**known), Message(**known, backwards=True)]
    about = {"strategy": "", "source": "this benchmark", "library": "mpi", "data_type": sweep.data_type}
    path = folder / f"{size_bytes}.messages"
    write_trace(path, Trace(**about, workers=sweep.workers, messages=messages))
    return dataclasses.replace(sweep, messages=path)


def mean_seconds(cell: Cell) -> float:
    """Seconds of a call: the first rank's whole loop over the number of its calls."""
    [entered], [left] = cell.entered_seconds[0], cell.left_seconds[0]
    return (left - entered) / cell.loop_calls


def peers_of(name: str, folder: Path) -> Means:
    """The peer's means, as it prints them. Raises LaunchFailedError where its launch doesn't end well."""
    peer, log = PEERS[name], folder / "peer.log"
    sweep = peer.sweep(1)
    arguments = ["-c", START, peer.runner, peer.library, *to_arguments(sweep)]
    variables = {DEMO: name, "PYTHONPATH": str(folder)} if peer.runner == OSU else {}
    status = supervision.start(arguments, ROOT, log, sweep.deadline_seconds, variables)
    printed = log.read_text(errors="replace")
    # horovodrun puts the rank's number before each line.
    told = re.search(r'\{"mean_seconds": (\{.*?\})\}', printed)
    if told:
        found = {int(size_bytes): seconds for size_bytes, seconds in json.loads(told[1]).items()}
    else:
        lines = re.findall(r"^ *(\d+) +([\d.]+)$", printed, re.MULTILINE)
        found = {int(size_bytes): float(microseconds) / 1e6 for size_bytes, microseconds in lines}
    if status or not {*SIZES} <= {*found}:
        raise LaunchFailedError(f"{name} ended with {status}:\n{printed[-1000:]}")
    return found


def by_size(pair: tuple[Means, Means]) -> list[tuple[float, float]]:
    """Our mean and the peer's at each of the sizes."""
    ours, peers = pair
    return [(ours[size_bytes], peers[size_bytes]) for size_bytes in SIZES]


def row_of(size_bytes: int, pairs: Sequence[tuple[float, float]]) -> list[str]:
    """The medians over the pairs of both means, and of their ratio with its interval, beside what is claimed."""
    ratio = median_interval([ours / peers for ours, peers in pairs])
    medians = [f"{1e6 * statistics.median(means):,.2f}" for means in zip(*pairs, strict=True)]
    shown = [f"{size_bytes:,}", str(ratio.n), *medians, f"{ratio.median:.3f}"]
    if ratio.low is None:
        return [*shown, f"takes {FEWEST_LAUNCHES} pairs", ""]
    holds = "yes" if ratio.low >= LEAST and ratio.high <= MOST else "no"
    return [*shown, f"{ratio.low:.3f} to {ratio.high:.3f}", holds]


if __name__ == "__main__":
    exit_with_one_line(main)
