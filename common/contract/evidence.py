"""Evidence of what a launch did: the states of all its replicas before and after a few of its steps, in one file.

The file is a zip of NumPy arrays, `STEP/REPLICA/NAME.npy`, that is written step by step, so that no state is held in
memory. A replica that is like an earlier one has no arrays of its own: `index.json` says, by step, for each replica
which one has its state.
"""

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from common.contract.model import State
from common.errors import LaunchFailedError, UserError

MOST_BYTES = 2**31
"""Evidence that may be larger isn't kept."""

FIRST_STEPS = 3
"""Of a run, whose updates are evidence: with momentum the third is the first that tells all coefficients apart."""

_INDEX = "index.json"


def evidence_path(record: Path) -> Path:
    """Where a launch leaves its evidence, beside its record."""
    return record.with_name(record.name.removesuffix(".json") + ".evidence")


class EvidenceFile:
    """The file while it is written. Raises LaunchFailedError where the disk is full or its folder can't be written."""

    def __init__(self, path: Path) -> None:
        self._path, self._likes = path, dict[int, Sequence[int]]()

    def add(self, step: int, states: Sequence[State | None], likes: Sequence[int]) -> None:
        """Add the state of each replica after so many steps; None: as that of the replica that `likes` names."""
        self._likes[step] = likes
        try:
            # Opened anew each time, since the file has to be whole whenever training stops.
            with zipfile.ZipFile(self._path, "a" if len(self._likes) > 1 else "w") as file:
                for replica, state in enumerate(states):
                    for name, value in (state or {}).items():
                        with file.open(f"{step}/{replica}/{name}.npy", "w", force_zip64=True) as member:
                            np.lib.format.write_array(member, np.ascontiguousarray(value), allow_pickle=False)
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> str:
        """Write the index, and return the SHA-256 of the file."""
        try:
            with zipfile.ZipFile(self._path, "a") as file:
                file.writestr(_INDEX, json.dumps(self._likes))
            return _digest(self._path)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> LaunchFailedError:
        return LaunchFailedError(
            f"The evidence {self._path} can't be written ({error.strerror}): free space on its disk, or let the record "
            "be in another folder."
        )


def read_evidence(path: Path, sha256: str) -> dict[int, list[State]]:
    """By step, how many were done, the state of each replica. Raises UserError for another file than that digest's."""
    try:
        if _digest(path) != sha256:
            raise ValueError("it isn't what the launch left")
        with zipfile.ZipFile(path) as file:
            likes = {int(step): each for step, each in json.loads(file.read(_INDEX)).items()}
            states: dict[int, dict[int, State]] = {step: {} for step in likes}
            for member in file.namelist():
                if member != _INDEX:
                    step, replica, name = member.removesuffix(".npy").split("/", 2)
                    with file.open(member) as array:
                        value = np.lib.format.read_array(array, allow_pickle=False)
                    states[int(step)].setdefault(int(replica), {})[name] = value
        return {step: [states[step][replica] for replica in each] for step, each in likes.items()}
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(f"Its evidence {path} can't be read ({error}).") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
