"""Give damaged input to all that reads any, and look for tracebacks and for what was taken that shouldn't have been.

To start it: `.nox/tools/bin/python -m tests.benchmarks.generated_inputs`. Each input is a valid one with random damage:
command lines, faults, records, checkpoints, IDX files, hostfiles, `TF_CONFIG` and Slurm's variables. It has to be
refused by one line, or to be taken such that it means what it says. The exit status is 1 where this isn't so.
"""

import contextlib
import io
import json
import os
import random
import shlex
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from common.contract import model
from common.contract.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from common.contract.dataset import read_idx
from common.contract.fault import parse
from common.contract.task import PRESETS
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import strategies
from common.declarations.slurm import task_of_step
from common.errors import UserError, exit_with_one_line
from common.launching import programs
from common.launching.hosts.selection import read_hostfile
from common.records.files import read_record, write_record
from common.records.training import Record
from tests.reports.records import make_record
from tf_impl.cluster import from_tf_config

_TASK = PRESETS["digits"]
_ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
_CLUSTER = {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 1}}
_WORDS = ("--preset pathway", "--steps 300 --warmup-steps 20", "--workers 2 --scaling weak --batch 32")
_PIECES = (
    "0",
    "-1",
    "1e309",
    "nan",
    "\x00",
    "\xff",
    "99999999999999999999",
    "--",
    "=",
    ",",
    "null",
    "[",
    "{",
    " ",
    "٣",
)
_SLURM = {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "node[07-12,20]",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
}


@dataclass(frozen=True)
class Arguments:
    """Damage inputs at random, and look at what becomes of them."""

    inputs: int = 10_000
    """How many, of each kind as many."""
    seed: int = 0
    """Decides the damage."""


def main() -> None:
    """Try all inputs, print each that went wrong, and how many of each kind were refused and taken."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140, markup=False)
    chance, found = random.Random(arguments.seed), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory(prefix="inputs-") as folder:
        kinds = kinds_in(Path(folder), chance)
        for number in range(arguments.inputs):
            name, read = [*kinds.items()][number % len(kinds)]
            printed, what = io.StringIO(), ""
            try:
                with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
                    read()
                ended = "taken"
            except UserError as error:
                ended, what = "refused" if "\n" not in str(error) else "wrong", repr(error)
            except SystemExit as leaving:
                # An option that nobody has: the parser says so, as it does of every program's.
                ended, what = "refused" if leaving.code == 2 else "wrong", f"exit status {leaving.code}"
            except Exception:
                ended, what = "wrong", traceback.format_exc()
            if ended == "wrong":
                console.print(f"input {number}, {name}: {what}")
            found[name, ended] += 1
    table = Table("kind", "refused", "taken for what they say", "wrong")
    for name in kinds:
        table.add_row(name, *(str(found[name, ended]) for ended in ("refused", "taken", "wrong")))
    console.print(table)
    sys.exit(int(any(found[name, "wrong"] for name in kinds)))


def kinds_in(folder: Path, chance: random.Random) -> dict[str, Callable[[], object]]:
    """By their names what reads a damaged input of each kind, and checks one that it takes; files lie in the folder."""
    declared, path = [*strategies().values()], folder / "input"
    record, checkpoint, names = folder / "record.json", folder / "checkpoint", ("worker",)
    write_record(record, make_record())
    state = model.initial_weights(_TASK)
    write_checkpoint(checkpoint, Checkpoint(state, 10, 64), _TASK)
    header = b"\0\0\x08\x03" + np.array(_ARRAY.shape, ">i4").tobytes()
    valid_record, valid_checkpoint = record.read_bytes(), checkpoint.read_bytes()

    def damaged_file(content: bytes) -> Path:
        path.write_bytes(damaged(content, chance))
        return path

    def command_line() -> None:
        strategy = chance.choice(declared)
        words = damaged(" ".join(chance.sample(_WORDS, 2)).encode(), chance).decode(errors="replace")
        request = programs.parse(strategy, words.replace("\0", "").split())
        arguments = to_arguments(request.workload, request.options)
        assert programs.parse(strategy, arguments) == request, shlex.join(arguments)

    def fault() -> None:
        text = damaged(chance.choice([b"kill:rank=1,step=150", b"cable:name=host2,step=150,seconds=5"]), chance)
        assert parse(text.decode(errors="replace")).in_words

    def kept_record() -> None:
        taken = read_record(damaged_file(valid_record), Record)
        write_record(path, taken)
        assert read_record(path, Record) == taken

    def kept_checkpoint() -> None:
        taken = read_checkpoint(damaged_file(valid_checkpoint), _TASK, 64)
        assert taken.step == 10
        assert all(np.array_equal(taken.state[name], value) for name, value in state.items())

    def idx() -> None:
        assert read_idx(damaged_file(header + _ARRAY.tobytes())).nbytes <= len(path.read_bytes())

    def hostfile() -> None:
        hosts = read_hostfile(damaged_file(b"host1 slots=2\nhost2:4 # fast\nhost3 slots = 1 max_slots=8\n"))
        assert all(host.slots > 0 for host in hosts)
        assert len({host.name.lower() for host in hosts}) == len(hosts)

    def tf_config() -> None:
        text = damaged(json.dumps(_CLUSTER).encode(), chance).decode(errors="replace").replace("\0", "")
        os.environ["TF_CONFIG"] = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        cluster = from_tf_config(names)
        assert cluster.address in cluster.all_addresses(*names)

    def slurm() -> None:
        damage = {name: damaged(value.encode(), chance, 0.2).decode(errors="replace") for name, value in _SLURM.items()}
        os.environ |= {name: value.replace("\0", "") for name, value in damage.items()}
        os.environ["SLURM_TASK_PID"] = str(os.getpid())
        task = task_of_step()
        assert task is not None
        assert 0 <= task.rank < task.world_size
        assert 0 <= task.local_rank < task.local_world_size <= task.world_size

    return {
        "command line": command_line,
        "fault": fault,
        "record": kept_record,
        "checkpoint": kept_checkpoint,
        "IDX file": idx,
        "hostfile": hostfile,
        "TF_CONFIG": tf_config,
        "Slurm's variables": slurm,
    }


def damaged(content: bytes, chance: random.Random, share: float = 1.0) -> bytes:
    """The content with up to three random changes: cut, repeated, replaced; this share of all is damaged at all."""
    if chance.random() > share:
        return content
    for _ in range(chance.randint(1, 3)):
        first = chance.randrange(len(content) + 1)
        last = min(len(content), first + chance.choice((1, 1, 2, 4, len(content))))
        piece = chance.choice(_PIECES).encode("utf-8")
        middle = chance.choice((b"", piece, content[first:last] * 2, bytes([chance.randrange(256)])))
        content = content[:first] + middle + content[last:]
    return content


if __name__ == "__main__":
    exit_with_one_line(main)
