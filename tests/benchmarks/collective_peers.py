"""Whether the laboratory's means are those of others: mpi4py's own benchmarks, and a bare all-reduce of each library.

To start it: `.nox/tools/bin/python -m tests.benchmarks.collective_peers`. It takes about 20 minutes. In a launch with
two ranks, each on a core of its own, the laboratory with checking off and the peer take turns: loops of calls one right
after the other, a tenth as many before the clock as under it, in memory that each loop takes anew and fills, since
zeros travel faster (up to 7 % over TensorFlow). What is compared is the first rank's mean; a pair is the median ratio
over the turns of a launch. What the demos do differs thus:

- osu_latency sends back and forth and reports half of it. So does the laboratory here, with two messages for its step,
  one each way.
- osu_allgather counts the bytes of one rank. The laboratory counts those of all, so its size is twice as much here.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
import tyro
from rich.console import Console
from rich.table import Table

from common.command_line import options_of
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError, UserError, exit_with_one_line
from common.launching import executor
from common.measurement import machine
from common.paths import ROOT
from common.statistics.intervals import FEWEST_LAUNCHES, median_interval
from tests.benchmarks.peers import PEER, PEERS, RANKS

LEAST, MOST = 0.9, 1.1
"""What the 95 % interval of our mean over the peer's is to lie within."""

RUNNER = "tests.benchmarks.peers"
"""The module that runs our library's script and takes turns with it."""

MPI4PY, ARCHIVE_SHA256 = "4.1.2", "56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02"
"""The release whose demos are run, and the SHA-256 of its source archive on the Python Package Index."""


@dataclass(frozen=True)
class Arguments:
    """Measure the laboratory beside its peers."""

    peers: tuple[Literal[tuple(PEERS)], ...] = tuple(PEERS)
    """Peers to measure it beside."""
    pairs: int = 10
    """Launches beside each."""


def main() -> None:
    """Measure beside every peer, in turn, and print a row for each of its sizes."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140)
    launches: dict[str, list[pd.DataFrame]] = {name: [] for name in arguments.peers}
    turns = [name for name in arguments.peers for _ in range(arguments.pairs)]
    random.shuffle(turns)
    with machine.alone(), tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if any(name.startswith("osu_") for name in arguments.peers):
            fetch_demos(folder)
        for number, name in enumerate(turns, start=1):
            launches[name].append(launch_of(name, folder))
            ratios = ", ".join(f"{ratio:.3f}" for ratio in launches[name][-1]["ratio"])
            console.print(f"{number}/{len(turns)} {name}: {ratios}")
    table = Table("peer", "collective", "bytes", "pairs", "ours, us", "peer, us", "ratio", "95 % interval", "within")
    for name, measured in launches.items():
        for size_bytes, pairs in pd.concat(measured).groupby(level="size_bytes"):
            table.add_row(name, PEERS[name].collective, *row_of(size_bytes, pairs))
    console.print(table)


def fetch_demos(folder: Path) -> None:
    """Put mpi4py's demos, from its checked source archive, there. Raises UserError if pip can't."""
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


def launch_of(name: str, folder: Path) -> pd.DataFrame:
    """By size the medians, over the turns of a launch, of both means and of their ratio.

    Raises LaunchFailedError where it doesn't end well.
    """
    peer, log, found = PEERS[name], folder / "launch.log", folder / "means"
    found.unlink(missing_ok=True)
    sweep = Sweep(workers=RANKS, device="cpu", seed=random.randrange(2**31), record=found)
    arguments = ["-m", "common.launching.launch", "--runner", RUNNER, peer.library, *options_of(sweep, Sweep())]
    # NumPy asks for huge pages from 4 MiB on. Who gets them, and when, is chance, and shared memory is faster in them.
    variables = {PEER: name, "PYTHONPATH": str(folder), "NUMPY_MADVISE_HUGEPAGE": "0"}
    status = executor.start(arguments, ROOT, log, sweep.deadline_seconds, variables)
    if status:
        raise LaunchFailedError(f"{name} ended with {status}:\n{log.read_text(errors='replace')[-1000:]}")
    turns = pd.read_json(found, lines=True)
    turns["ratio"] = turns["ours_seconds"] / turns["peer_seconds"]
    return turns.groupby("size_bytes").median()


def row_of(size_bytes: int, pairs: pd.DataFrame) -> list[str]:
    """The medians over the pairs of both means, and of their ratio with its interval, beside what is claimed."""
    ratio = median_interval(pairs["ratio"].tolist())
    medians = [f"{1e6 * pairs[column].median():,.2f}" for column in ("ours_seconds", "peer_seconds")]
    shown = [f"{size_bytes:,}", str(ratio.n), *medians, f"{ratio.median:.3f}"]
    if ratio.low is None:
        return [*shown, f"takes {FEWEST_LAUNCHES} pairs", ""]
    holds = "yes" if ratio.low >= LEAST and ratio.high <= MOST else "no"
    return [*shown, f"{ratio.low:.3f} to {ratio.high:.3f}", holds]


if __name__ == "__main__":
    exit_with_one_line(main)
