"""A cache of oracles, kept beside the data: each takes seconds to compute, and every report needs the same ones.

A file holds one oracle. Its name is a digest of the maths, the rows of a step, the steps, the kind, the data, and the
contract's code. Its first line is the SHA-256 of the rest. An oracle whose file doesn't match is computed anew.
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
    """The oracle of `maths`, as `run_oracle` computes it. It has its final state only `with_state`."""

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
    """The oracle of workers with gradient exchange off, as `run_alone` computes it.

    It has final states only `with_states`; otherwise each state is empty.
    """

    def compute() -> _Arrays:
        trajectory = oracle.run_alone(maths, global_batch, steps, workers, alone)
        arrays = {"losses": trajectory.losses, "kinks": _table(trajectory.kinks)}
        arrays["states"] = np.array([len(trajectory.states)])
        for number, state in enumerate(trajectory.states if with_states else []):
            arrays |= {f"state{number}.{name}": value for name, value in state.items()}
        return arrays

    kind = f"{global_batch} rows, {steps} steps, {workers} workers, {alone.name}"
    arrays = _stored(maths, kind, with_states, compute)
    states = [_state(arrays, f"state{number}.") for number in range(int(arrays["states"][0]))]
    return AloneTrajectory(arrays["losses"], states, _kinks(arrays["kinks"]))


@cache
def data_digest(maths: Task) -> str:
    """The SHA-256 of the rows on this machine. Raises UserError as `dataset.load` does."""
    return dataset.load(maths).sha256


@cache
def _code_digest() -> str:
    """The SHA-256 of the code that computes oracles, and of NumPy's version."""
    digest = hashlib.sha256(np.__version__.encode())
    for name in _CODE:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


def _stored(maths: Task, kind: str, with_state: bool, compute: Callable[[], _Arrays]) -> _Arrays:
    """The arrays of the oracle's file. Without a valid file, computes and writes them."""
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
