"""A cache of oracles, kept beside the data: each takes seconds to compute, and every report needs the same ones.

A file holds one oracle. Its name is a digest of the maths, the rows of a step, the steps, the data, and the contract's
code. Its first line is the SHA-256 of the rest. An oracle whose file doesn't match is computed anew.
"""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from common.contract import dataset, oracle
from common.contract.model import Trajectory
from common.contract.rows import Piece
from common.contract.task import Task
from common.errors import UserError
from common.files import cache_folder, write_atomically

_LOSSES = "row_losses"
"""The name of that array in a file; the others are the final state's."""

_CODE = ("dataset.py", "layers.py", "model.py", "oracle.py", "rows.py", "task.py")


def of_batch(
    maths: Task, global_batch: int, steps: int, with_state: bool, earlier_pieces: Sequence[Piece] = ()
) -> Trajectory:
    """The oracle of `maths`, as `run_oracle` computes it. Its final state is empty unless `with_state`."""
    kind = f"{global_batch} rows, {steps} steps"
    kind += "".join(f", before it {piece.global_batch} rows for {piece.steps} steps" for piece in earlier_pieces)
    key = repr((maths, kind, with_state, data_digest(maths), _code_digest()))
    path = cache_folder() / "oracles" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.safetensors"
    with contextlib.suppress(OSError, SafetensorError):
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(key.encode() + content).hexdigest().encode() == digest:
            return _trajectory(load(content))
    print(f"the oracle: {maths.preset}, {kind}, in float64", flush=True)
    computed = oracle.run_oracle(maths, global_batch, steps, earlier_pieces=earlier_pieces)
    arrays = {_LOSSES: np.array(computed.row_losses)}
    arrays |= {name: np.ascontiguousarray(value) for name, value in (computed.state if with_state else {}).items()}
    content = save(arrays)
    digest = hashlib.sha256(key.encode() + content).hexdigest().encode()
    # Where the cache can't be written to, the next report computes it again.
    with contextlib.suppress(UserError):
        write_atomically(path, digest + b"\n" + content)
    return _trajectory(arrays)


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


def _trajectory(arrays: Mapping[str, np.ndarray]) -> Trajectory:
    """The oracle of a file with these arrays."""
    return Trajectory(arrays[_LOSSES], {name: value for name, value in arrays.items() if name != _LOSSES})
