"""Oracles that were computed before, kept beside the data: each takes seconds, and every report needs the same ones.

A file holds one oracle, named by what decides it: the maths, the rows of a step, the steps, the kind, the data, and the
digest of the contract's code. Its first line is the SHA-256 of the rest. A file that doesn't match is computed anew.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from common.contract import dataset, oracle
from common.contract.mlp import Kink, Trajectory
from common.contract.oracle import AloneTrajectory
from common.contract.task import Task
from common.contract.work import Alone
from common.errors import UserError
from common.files import cache_folder, write_atomically

_CODE = ("dataset.py", "mlp.py", "oracle.py", "rows.py", "task.py")

_Arrays = Mapping[str, np.ndarray]


def of_batch(maths: Task, global_batch: int, steps: int, with_state: bool) -> Trajectory:
    """The oracle of `maths`, as `run_oracle` computes it; without its final state unless asked for it."""

    def compute() -> _Arrays:
        trajectory = oracle.run_oracle(maths, global_batch, steps)
        state = {f"state.{name}": value for name, value in trajectory.state.items()} if with_state else {}
        losses = {"losses": np.array(trajectory.losses), "row_losses": np.array(trajectory.row_losses)}
        return losses | {"kinks": _table(trajectory.kinks)} | state

    arrays = _stored(maths, f"{global_batch} rows, {steps} steps", with_state, compute)
    return Trajectory(
        losses=arrays["losses"].tolist(),
        state=_state(arrays, "state."),
        kinks=_kinks(arrays["kinks"]),
        row_losses=list(arrays["row_losses"]),
    )


def of_workers_alone(
    maths: Task, global_batch: int, steps: int, workers: int, alone: Alone, with_states: bool
) -> AloneTrajectory:
    """The oracle of workers without exchange, as `run_alone` computes it; without final states unless asked for them.

    Without them there are as many states all the same, each of them empty.
    """

    def compute() -> _Arrays:
        trajectory = oracle.run_alone(maths, global_batch, steps, workers, alone)
        arrays = {"losses": trajectory.losses, "kinks": _table(trajectory.kinks)}
        arrays["states"] = np.array([len(trajectory.states)])
        for place, state in enumerate(trajectory.states if with_states else []):
            arrays |= {f"state{place}.{name}": value for name, value in state.items()}
        return arrays

    kind = f"{global_batch} rows, {steps} steps, {workers} workers, {alone.name}"
    arrays = _stored(maths, kind, with_states, compute)
    states = [_state(arrays, f"state{place}.") for place in range(int(arrays["states"][0]))]
    return AloneTrajectory(arrays["losses"], states, _kinks(arrays["kinks"]))


@cache
def data_digest(maths: Task) -> str:
    """SHA-256 of the rows on this machine. Raises UserError as `dataset.load` does."""
    return dataset.load(maths).sha256


@cache
def _code_digest() -> str:
    """SHA-256 of the files that decide what an oracle computes, and of NumPy's version."""
    digest = hashlib.sha256(np.__version__.encode())
    for name in _CODE:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


def _stored(maths: Task, kind: str, with_state: bool, compute: Callable[[], _Arrays]) -> _Arrays:
    """The arrays of the file, or those that `compute` returns, which a file has from then on."""
    key = repr((maths, kind, with_state, data_digest(maths), _code_digest()))
    path = cache_folder() / "oracles" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.safetensors"
    with contextlib.suppress(OSError, SafetensorError):
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(key.encode() + content).hexdigest().encode() == digest:
            return load(content)
    print(f"the oracle: {maths.preset}, {kind}, in float64", flush=True)
    arrays = compute()
    content = save({name: np.ascontiguousarray(value) for name, value in arrays.items()})
    digest = hashlib.sha256(key.encode() + content).hexdigest().encode()
    # Where the cache can't be written to, the next report computes it again.
    with contextlib.suppress(UserError):
        write_atomically(path, digest + b"\n" + content)
    return arrays


def _state(arrays: _Arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _table(kinks: list[Kink]) -> np.ndarray:
    return np.array([(kink.distance, kink.step, kink.layer, kink.unit) for kink in kinks]).reshape(-1, 4)


def _kinks(table: np.ndarray) -> list[Kink]:
    return [Kink(float(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in table]
