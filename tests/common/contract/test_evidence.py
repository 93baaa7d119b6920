"""common/contract/evidence.py: the states come back as they were, from the launch's own file alone."""

from pathlib import Path

import numpy as np
import pytest

from common.contract.evidence import EvidenceFile, evidence_path, read_evidence
from common.errors import LaunchFailedError, UserError

STATES = [{"layer0.weight": np.full((3, 2), value, np.float32)} for value in (1.0, 2.0)]


@pytest.fixture
def left(tmp_path):
    """A file of evidence and its digest: two replicas that are alike first, and then not."""
    path = evidence_path(tmp_path / "launch-2.5ms-01.json")
    file = EvidenceFile(path)
    file.add(0, [STATES[0], None], [0, 0])
    file.add(1, STATES, [0, 1])
    return path, file.close()


def test_states_come_back_by_step_and_replica_until_a_second_run_begins_anew(left):
    evidence = read_evidence(*left)
    assert [*evidence] == [0, 1]
    assert evidence[0][0] is evidence[0][1]
    for found, expected in zip(evidence[1], STATES, strict=True):
        assert np.array_equal(found["layer0.weight"], expected["layer0.weight"])
        assert found["layer0.weight"].dtype == np.float32
    path, _ = left
    file = EvidenceFile(path)
    file.add(60, STATES[:1], [0])
    assert [*read_evidence(path, file.close())] == [60]


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(path.read_bytes() + b"x"), Path.unlink])
def test_evidence_that_is_damaged_is_refused(left, damage):
    path, digest = left
    damage(path)
    with pytest.raises(UserError, match=r"Its evidence .* can't be read"):
        read_evidence(path, digest)


def test_evidence_that_cannot_be_written_ends_the_launch(tmp_path):
    with pytest.raises(LaunchFailedError, match="can't be written"):
        EvidenceFile(tmp_path / "gone" / "launch.evidence").add(0, STATES[:1], [0])
