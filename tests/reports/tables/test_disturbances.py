"""What else happened around windows: which launches and rounds it disturbed, and what is said of them."""

from collections.abc import Mapping
from itertools import cycle

import pytest
from msgspec import structs

from common.records.header import Virtual
from common.records.training import Record
from reports.tables.disturbances import disturbed_rounds
from reports.words.certainty import disturbed
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.records import make_record, varied

QUIET = {"steal_seconds": 0.0, "busy_seconds": 0.9, "own_seconds": 0.9, "spin_seconds": 1e-4}
QUIET |= {"involuntary_switches": 5, "clock_megahertz": 2000.0}


def told(record: Record | None = None, *of_windows: Mapping[str, float], cores: int = 1, **of_all: float) -> Record:
    """The record with windows of a second each that tell what happened: nothing but what is given, by window and rank.

    None takes a key away.
    """
    record = record or make_record()
    known = {"seconds": 1.0, "core_seconds": float(cores)} | QUIET | of_all
    each = cycle(of_windows or ({},))
    windows = [structs.replace(window, **known | next(each)) for window in record.windows]
    return changed(record, windows=windows, pinned_cores=[*range(cores)])


def rows(*records: Record) -> list:
    return [*material_of(*records).disturbances.itertuples()]


@pytest.mark.parametrize("share", [0.04, 0.06])
@pytest.mark.parametrize(
    ("cause", "disturbance"),
    [
        ("steal", lambda share: {"steal_seconds": share}),
        ("quota", lambda share: {"throttled_seconds": share}),
        ("others", lambda share: {"busy_seconds": 0.92 + share, "own_seconds": 0.92}),
    ],
)
def test_more_than_five_per_cent_of_a_core_taken_disturbs_a_launch_and_less_does_not(cause, disturbance, share):
    quiet, other = rows(told(), told(None, **disturbance(share)))
    assert (quiet.disturbed, getattr(quiet, cause)) == (False, 0.0)
    assert (other.disturbed, getattr(other, cause)) == (share > 0.05, pytest.approx(share))
    # The kernel may count less in all than for the launch itself.
    assert rows(told(None, busy_seconds=0.8))[0].others == 0


def test_the_rank_that_lost_most_decides():
    [row] = rows(told(make_record("amber_ring", 2, (2.0,)), {}, {"steal_seconds": 0.08}))
    assert (row.disturbed, row.steal) == (True, pytest.approx(0.08))


@pytest.mark.parametrize(
    ("windows", "taken", "disturbed"), [(1, 0.010, False), (1, 0.013, True), (9, 0.036, False), (9, 0.037, True)]
)
def test_what_may_be_rounding_of_the_kernels_counts_disturbs_nothing(windows, taken, disturbed):
    # All of it is more than 5 % of these windows of 50 ms.
    record = make_record("amber_ring", 1, (2.0,) * windows)
    lengths = {"seconds": 0.05, "core_seconds": 0.05, "own_seconds": 0.02, "busy_seconds": 0.02 + taken / windows}
    assert rows(told(record, **lengths))[0].disturbed is disturbed


def test_a_core_slower_than_usual_disturbs_where_the_same_rank_tells_what_is_usual():
    usual, slow = told(make_record(milliseconds=(2.0,) * 5)), told(spin_seconds=1.2e-4, clock_megahertz=1800.0)
    first, second = rows(usual, slow)
    assert (first.disturbed, first.spin, first.clock) == (False, 0.0, 0.0)
    assert second.disturbed
    assert (second.spin, second.clock) == pytest.approx((0.2, 0.1))


def test_what_is_usual_is_told_by_launches_of_the_same_kind_alone():
    others = [
        make_record("amber_library"),
        make_record("amber_ring", 2),
        varied("amber_ring", exchange=False),
        varied("amber_ring", compiled=True),
    ]
    # Two workers on two sibling threads of a core are slower than one of them, on the quietest machine.
    slow = [told(each, spin_seconds=seconds / 1e4) for seconds, each in enumerate(others, start=2)]
    assert [row.spin for row in rows(told(), *slow)] == [0.0] * 5


def test_ranks_on_cores_of_different_speed_each_have_their_own_usual_spin():
    [row] = rows(told(make_record("amber_ring", 2, (2.0,)), {"spin_seconds": 1e-4}, {"spin_seconds": 2e-4}))
    assert row.spin == 0.0


def test_workers_that_share_their_cores_are_judged_by_what_was_stolen_alone():
    oversubscribed = {"busy_seconds": None, "own_seconds": None, "clock_megahertz": None}
    records = [
        told(None, {"spin_seconds": 1e-4}, {"spin_seconds": 9e-4}, **oversubscribed, steal_seconds=s) for s in (0, 0.1)
    ]
    quiet, stolen = rows(*(changed(record, pinned_cores=[]) for record in records))
    assert (quiet.disturbed, [*quiet[3:8]]) == (False, [0.0] * 5)
    assert stolen.disturbed


def test_what_the_kernel_did_not_tell_is_not_judged():
    nothing = dict.fromkeys(("core_seconds", "steal_seconds", "busy_seconds", "own_seconds", "clock_megahertz"))
    [row] = rows(told(None, **nothing))
    assert (row.disturbed, [*row[3:8]]) == (False, [0.0] * 5)
    assert rows(make_record()) == []


def test_a_disturbed_launch_disturbs_its_round_where_it_is_of_the_rounds():
    records = [told(), told(), told(None, steal_seconds=0.5), told(None, steal_seconds=0.5)]
    material = material_of(*records, rounds=[1, 1, 2, 3])
    material.results.plan.loc[3, "stage"] = "certificates"
    assert disturbed_rounds(material.disturbances) == [2]
    assert disturbed_rounds(material_of().disturbances) == []


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([make_record()], "No launch tells what else happened on its cores."),
        ([told()], "No launch was disturbed."),
        (
            [
                *(told(), told(), told(None, busy_seconds=0.97, own_seconds=0.86, spin_seconds=1.07e-4)),
                told(None, busy_seconds=0.99, own_seconds=0.9, steal_seconds=0.2),
            ],
            "2 of 4 launches were disturbed (rounds 3 and 4 of 4): other processes took up to 11 % of a worker's cores "
            "and the hypervisor gave up to 20 % of a worker's cores to others. To see smaller differences, close other "
            "programs and use a machine of your own.",
        ),
        (
            [told(make_record(milliseconds=(2.0,) * 5)), told(spin_seconds=1.3e-4, clock_megahertz=1500.0)],
            "1 of 2 launches were disturbed (rounds 2 of 2): a fixed piece of work took up to 30 % longer than usual "
            "and a clock was up to 25 % slower than usual. To see smaller differences, keep the machine cool and its "
            "clock rate fixed.",
        ),
    ],
    ids=["not told", "quiet", "others and the hypervisor", "slow cores, which have one remedy"],
)
def test_the_sentence_counts_launches_and_rounds_and_names_causes_and_remedies(records, sentence):
    assert disturbed(material_of(*records).disturbances) == sentence


def test_a_quota_stops_all_threads_of_a_launch_of_which_as_many_run_as_there_are_cores():
    stopped = {cores: told(make_record("amber_ring", 4), cores=cores, throttled_seconds=1.0) for cores in (1, 2, 64)}
    shared = [changed(stopped[cores], pinned_cores=[]) for cores in (2, 64)]
    assert [row.quota for row in rows(*shared, stopped[1])] == pytest.approx([1 / 2, 1 / 4, 1 / 4])


def test_the_cores_that_virtual_hosts_were_asked_to_have_disturb_nothing():
    assert not rows(changed(told(None, throttled_seconds=0.5), virtual=Virtual(cores_per_host=0.5)))[0].disturbed
