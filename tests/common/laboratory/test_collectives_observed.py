"""common/laboratory/collectives.py: what it observes in made-up records, worked out by hand."""

import pytest

from common.declarations.sweep import Sweep
from common.laboratory.collectives import EXPERIMENT
from common.observations.table import CONDITION
from common.records.collective_times import Cell
from common.sessions.experiment import observed_of
from tests.common.laboratory.collective_records import cell, record, taking

HOSTS = [
    {"name": "one", "workers": 1, "clock_offset_seconds": 0.0, "clock_uncertainty_seconds": 1e-6},
    {"name": "two", "workers": 1, "clock_offset_seconds": 3600.0, "clock_uncertainty_seconds": 2e-6},
]


def found_in(*records):
    found = observed_of(EXPERIMENT, {f"{place:02d}": each for place, each in enumerate(records)})
    return found.observed, found.missing


def value(measure, own):
    """The record's only number of this measure; None where there is none."""
    observed, _ = found_in(own)
    values = observed[observed["measure"] == measure]["value"].tolist()
    assert len(values) <= 1
    return values[0] if values else None


def test_a_launch_is_the_median_of_its_calls_from_the_last_arrival_which_one_process_lacks_to_the_last_result():
    calls = [(0.0, 3.0), (10.0, 17.0), (20.0, 24.0)]
    # The second rank begins half a second later: 2.5, 6.5 and 3.5 s pass from then on.
    own = record(cell(calls=calls, late=0.5))
    assert (value("seconds", own), value("arrival_seconds", own), value("unsure_seconds", own)) == (3.5, 0.5, None)
    own = record(taking(1.0, ranks=1), workers=4, one_process=True)
    assert (value("seconds", own), value("arrival_seconds", own)) == (1.0, None)


@pytest.mark.parametrize(
    ("collective", "workers", "factor"),
    [("all_reduce", 4, 1.5), ("all_gather", 4, 0.75), ("broadcast", 4, 1.0), ("all_reduce", 2, 1.0)],
)
def test_bandwidths_are_those_of_nccl_tests(collective, workers, factor):
    own = record(taking(0.5, 4096, collective=collective, ranks=workers), workers=workers)
    assert value("algorithm_bytes_per_second", own) == 8192
    assert value("bus_bytes_per_second", own) == factor * 8192
    assert value("bus_bytes_per_rank", own) == factor * 4096


def test_bytes_are_those_of_one_rank_and_processor_time_is_that_of_one_byte_where_they_were_measured():
    names = ("sent_bytes_per_rank", "formula_bytes_per_rank", "processor_seconds_per_byte")
    own = record(taking(1.0, 1024, ranks=4, sent_bytes=6000, processor_seconds=3.0), workers=4)
    assert [value(name, own) for name in names] == [1500, 512, 3.0 / 1024]
    own = record(taking(1.0, sent_bytes=None, formula_bytes=None, processor_seconds=None))
    assert [value(name, own) for name in names] == [None] * 3
    own = record(taking(1.0, 0, collective="barrier"))
    assert value("seconds", own) == 1.0
    assert value("algorithm_bytes_per_second", own) is value("processor_seconds_per_byte", own) is None


def test_what_libraries_must_share_is_told_in_a_place():
    link = {"virtual": {"bandwidth_bits_per_second": 1e8, "delay_seconds": 0.005}}
    observed, _ = found_in(
        record(taking(1.0), taking(1.0, 4096), taking(1.0, collective="broadcast")),
        record(taking(1.0, ranks=4), workers=4),
        record(taking(1.0), device="a GPU"),
        record(taking(1.0), sweep=Sweep(data_type="float64")),
        record(taking(1.0), hosts=HOSTS),
        record(taking(1.0), hosts=HOSTS, **link),
    )
    assert len(observed[observed["measure"] == "seconds"].drop_duplicates(CONDITION)) == 8
    assert [*dict.fromkeys(observed["world"])] == [
        "2 ranks, cpu, float32",
        "4 ranks, cpu, float32",
        "2 ranks, a GPU, float32",
        "2 ranks, cpu, float64",
        "2 ranks, 2 hosts, cpu, float32",
        "2 ranks, 2 hosts, 100 Mbit/s, 5 ms delay, cpu, float32",
    ]


def test_each_hosts_clock_is_set_right_before_its_ranks_are_compared_and_the_two_least_sure_decide_what_is_unknown():
    # Ranks 2 and 3 are on a host whose clock is an hour ahead; by one clock all begin 0, 1, 2, 3 ms after the first.
    entered = [[0.0], [0.001], [3600.002], [3600.003]]
    left = [[0.010], [0.010], [3600.010], [3600.011]]
    own = record(cell(entered_seconds=entered, left_seconds=left), workers=4, hosts=HOSTS)
    assert value("seconds", own) == pytest.approx(0.008)
    assert value("arrival_seconds", own) == pytest.approx(0.003)
    assert value("unsure_seconds", own) == pytest.approx(3e-6)
    hosts = [HOSTS[0] | {"clock_uncertainty_seconds": sure} for sure in (1e-6, 5e-6, 3e-6)]
    assert value("unsure_seconds", record(taking(1.0, ranks=3), workers=3, hosts=hosts)) == pytest.approx(8e-6)


@pytest.mark.parametrize(("late", "arrival"), [(2.9e-6, None), (3.1e-6, pytest.approx(3.1e-6, abs=1e-9))])
def test_an_arrival_that_the_hosts_clocks_cannot_tell_is_not_told(late, arrival):
    own = cell(entered_seconds=[[0.0], [3600.0 + late]], left_seconds=[[1.0], [3601.0]])
    assert value("arrival_seconds", record(own, hosts=HOSTS)) == arrival


def test_a_call_that_took_no_time_by_the_hosts_clocks_is_missing_with_the_reason():
    own = cell(entered_seconds=[[1.0], [3600.0]], left_seconds=[[1.0], [3600.5]])
    observed, missing = found_in(record(own, hosts=HOSTS))
    assert observed.empty
    [told] = missing.to_dict("records")
    assert told["reason"] == "The hosts' clocks may be 3e-06 s apart, and it took less."
    assert (told["subject"], told["x"], told["status"]) == ("all_reduce", 1024, "failed")


def test_cells_without_a_time_and_launches_that_failed_are_told_with_their_reasons():
    lacking = Cell(collective="gather", size_bytes=8, status="unsupported", reason="It has no gather.")
    wrong = Cell(collective="broadcast", size_bytes=8, status="failed", reason="A result was wrong.")
    observed, missing = found_in(
        record(lacking, taking(1.0)),
        record(lacking, taking(2.0), wrong, repetition=2, status="failed", reason="It ended with status 1."),
    )
    told = missing[["subject", "status", "reason", "round"]].to_numpy().tolist()
    assert told == [
        ["gather", "unsupported", "It has no gather.", 1],
        ["", "failed", "It ended with status 1.", 2],
        ["gather", "unsupported", "It has no gather.", 2],
        ["broadcast", "failed", "A result was wrong.", 2],
    ]
    # What the failed launch had measured before counts.
    assert observed[observed["measure"] == "seconds"]["value"].tolist() == [1.0, 2.0]


def test_a_replay_of_a_strategys_step_belongs_into_another_report(refusal):
    replayed = {"strategy": "torch_ddp", "launch": "", "source": "a tracer"}
    assert "give the session's folder to `nox -s report" in refusal(
        lambda: found_in(record(taking(1.0, collective="step"), replayed=replayed))
    )


def test_algorithms_libraries_and_what_timing_costs_are_told_beside_the_numbers():
    told = {"timing_seconds": 2e-6, "facts": {"tuned": "by hand"}, "backend": "tcp"}
    own = [record(taking(1e-3, size), **told) for size in (8, 4096)]
    display = observed_of(EXPERIMENT, {str(place): each for place, each in enumerate(own)}).display
    algorithms, libraries = display.tables
    assert algorithms.rows == [["amber", "all_reduce", "8 to 4,096", "ring", "2 (N - 1) S", "a paper"]]
    assert libraries.rows == [["amber", "The library amber", "Amber", "tcp", "tuned: by hand"]]
    assert display.sentences == ["Looking at the clock takes, of each library's shortest call: amber 2000 ns, 0.20 %."]
