"""A cache of oracles, kept beside the data: each takes seconds to compute, and every report needs the same ones.

A file holds one oracle. Its name is a digest of the maths, the rows of a step, the steps, the kind, the data, and the
contract's code. Its first line is the SHA-256 of the rest. An oracle whose file doesn't match is computed anew.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from common.contract import dataset, oracle
from common.contract.mlp import Kink, State, Trajectory
from common.contract.rows import Piece
from common.contract.task import Task
from common.contract.work import Alone
from common.errors import UserError
from common.files import cache_folder, write_atomically

_CODE = ("dataset.py", "mlp.py", "oracle.py", "rows.py", "task.py")


def of_batch(
    maths: Task, global_batch: int, steps: int, with_state: bool, earlier_pieces: Sequence[Piece] = ()
) -> Trajectory:
    """The oracle of `maths`, as `run_oracle` computes it. Its final state is empty unless `with_state`."""
    kind = f"{global_batch} rows, {steps} steps"
    kind += "".join(f", before it {piece.global_batch} rows for {piece.steps} steps" for piece in earlier_pieces)
    return _stored(
        maths, kind, with_state, lambda: oracle.run_oracle(maths, global_batch, steps, earlier_pieces=earlier_pieces)
    )


def of_workers_alone(
    maths: Task, global_batch: int, steps: int, workers: int, alone: Alone, with_states: bool
) -> Trajectory:
    """The oracle of workers with gradient exchange off, as `run_alone` computes it.

    Its final states are empty unless `with_states`.
    """
    kind = f"{global_batch} rows, {steps} steps, {workers} workers, {alone.name}"
    return _stored(maths, kind, with_states, lambda: oracle.run_alone(maths, global_batch, steps, workers, alone))


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


def _stored(maths: Task, kind: str, with_states: bool, compute: Callable[[], Trajectory]) -> Trajectory:
    """The oracle of the cache's file. Without a valid file, computes and writes it."""
    key = repr((maths, kind, with_states, data_digest(maths), _code_digest()))
    path = cache_folder() / "oracles" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.safetensors"
    with contextlib.suppress(OSError, SafetensorError):
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(key.encode() + content).hexdigest().encode() == digest:
            return _trajectory(load(content))
    print(f"the oracle: {maths.preset}, {kind}, in float64", flush=True)
    computed = compute()
    arrays = {"row_losses": np.array(computed.row_losses), "models": np.array([len(computed.states)])}
    kinks = [(kink.distance, kink.step, kink.layer, kink.unit) for kink in computed.kinks]
    arrays["kinks"] = np.array(kinks).reshape(-1, 4)
    for number, state in enumerate(computed.states if with_states else []):
        arrays |= {f"state{number}/{name}": np.ascontiguousarray(value) for name, value in state.items()}
    content = save(arrays)
    digest = hashlib.sha256(key.encode() + content).hexdigest().encode()
    # Where the cache can't be written to, the next report computes it again.
    with contextlib.suppress(UserError):
        write_atomically(path, digest + b"\n" + content)
    return _trajectory(arrays)


def _trajectory(arrays: Mapping[str, np.ndarray]) -> Trajectory:
    """The oracle with these arrays, as `_stored` writes them."""
    kinks = [Kink(float(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in arrays["kinks"]]
    states: list[State] = []
    for number in range(int(arrays["models"][0])):
        prefix = f"state{number}/"
        states.append({name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)})
    return Trajectory(arrays["row_losses"], states, kinks)
