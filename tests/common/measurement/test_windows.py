"""common/measurement/windows.py: as many steps are clocked with evidence as without, and all evidence is unclocked."""

import dataclasses
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from common.contract.task import PRESETS, Task
from common.measurement.windows import MOST_STATES, unforeseen, windows_of

DIGITS = PRESETS["digits"]


def clocked(windows):
    return [(start, stop) for start, stop in pairwise(windows.edges) if start not in windows.unclocked]


def test_evidence_are_the_first_three_steps_two_on_the_way_and_the_last_two_and_less_after_a_short_warm_up():
    windows = windows_of(DIGITS, 0, 0.5)
    assert windows.evidence == [0, 1, 2, 3, 171, 172, 173, 298, 299, 300]
    assert len(windows.evidence) == MOST_STATES
    assert clocked(windows) == [
        *[(start, start + 25) for start in range(46, 171, 25)],
        *[(start, start + 25) for start in range(173, 298, 25)],
    ]
    assert windows.end(0) == 1
    assert windows.end(100) == 121
    short_warm_ups = {1: [0, 1], 3: [0, 1, 26, 27, 28], 5: [0, 1, 26, 27, 28, 53, 54, 55]}
    for warmup, evidence in short_warm_ups.items():
        assert windows_of(Task(steps=50 + warmup, warmup_steps=warmup), 0, 0.5).evidence == evidence


def test_the_step_on_the_way_may_be_before_any_window_but_the_first_and_a_fault_is_an_edge():
    places = {windows_of(DIGITS, 0, draw / 100).evidence[4] for draw in range(100)}
    assert places == {46 + 25 * window for window in range(1, 10)}
    assert 0 <= unforeseen() < 1
    assert unforeseen() != unforeseen()
    task = Task(inject="kill:rank=1,step=160")
    assert 160 in windows_of(task, 0, 0.1).edges
    windows = windows_of(DIGITS, 0, None)
    assert windows.evidence == []
    assert windows.edges[:3] == [0, 1, 50]
    assert clocked(windows)[0] == (50, 75)


@given(
    st.integers(1, 60),
    st.integers(1, 200),
    st.integers(1, 40),
    st.integers(0, 100),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([0, 7, 25]),
)
def test_as_many_steps_are_clocked_as_the_task_says_and_checkpoints_are_edges(
    warmup, steps, full, first, draw, checkpoint_steps
):
    task = dataclasses.replace(DIGITS, steps=first + warmup + steps, warmup_steps=warmup, window_steps=full)
    object.__setattr__(task, "checkpoint_steps", checkpoint_steps)
    windows = windows_of(task, first, draw)
    assert [windows.edges[0], windows.edges[-1]] == [first, task.steps]
    assert [*windows.edges] == sorted({*windows.edges})
    assert sum(stop - start for start, stop in clocked(windows)) == steps
    assert max(stop - start for start, stop in clocked(windows)) <= full
    assert {*windows.evidence} <= {*windows.edges}
    read = {start for start, stop in pairwise(windows.edges) if {start, stop} <= {*windows.evidence}}
    assert read & windows.unclocked >= {first}
    if checkpoint_steps:
        assert {*range(checkpoint_steps, task.steps, checkpoint_steps)} - {*range(first)} <= {*windows.edges}
