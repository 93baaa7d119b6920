"""What the laboratory's loop tells apart, with a library's own launch."""

import sys

import pytest

from common.declarations import catalogue
from common.launching.launch import python_for
from common.records.collective_times import Cell, arrival_seconds, cells_path, read_lines, transfer_seconds
from tests.common.measurement.late_rank import LATE_SECONDS
from tests.conftest import run_command

CALLS = 60
LIBRARY = next(iter(catalogue.libraries().values()))


@pytest.fixture(scope="module")
def with_a_late_rank(tmp_path_factory) -> list[Cell]:
    """What a launch measured in which rank 1 came late to every second call."""
    python_for(LIBRARY)
    record = tmp_path_factory.mktemp("late") / "late.json"
    runner = ["--runner", "tests.common.measurement.late_rank"]
    command = [sys.executable, "-m", "common.launching.launch", *runner, LIBRARY.name, "--workers", "2"]
    sweep = ["--collectives", "all_reduce", "--sizes", "8", "32K", "-n", str(CALLS)]
    status, output = run_command([*command, *sweep, "--record", str(record)])
    assert status == 0, output
    return [Cell(**line) for line in read_lines(cells_path(record)) if "collective" in line]


def undisturbed(cell: Cell) -> list[int]:
    """The calls in which rank 1 was as late as it was made to be: on a busy machine either rank may come later yet."""
    _, late = arrival_seconds(cell)
    return [call for call, seconds in enumerate(late) if seconds == pytest.approx(LATE_SECONDS, rel=0.1)]


def test_a_rank_that_comes_late_shows_as_its_arrival(with_a_late_rank):
    for cell in with_a_late_rank:
        assert len(undisturbed(cell)) > CALLS / 8, arrival_seconds(cell)
        _, late = arrival_seconds(cell)
        in_time = late[0::2] if sum(late[0::2]) < sum(late[1::2]) else late[1::2]
        assert sorted(in_time)[CALLS // 8] < LATE_SECONDS / 2


def test_a_rank_that_comes_late_does_not_show_as_transfer(with_a_late_rank):
    for cell in with_a_late_rank:
        taken, late = transfer_seconds(cell), {*undisturbed(cell)}
        of_late, of_others = (
            sorted(seconds for call, seconds in enumerate(taken) if (call in late) is is_late)
            for is_late in (True, False)
        )
        assert of_late[len(of_late) // 4] < of_others[len(of_others) // 4] + LATE_SECONDS / 2
