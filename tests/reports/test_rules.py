"""Hoefler and Belli's twelve rules: one test for each that a test can decide, on made-up results."""

import json
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from common.records.training import Record
from reports.blocks import DASH, Block
from reports.charts import bars
from reports.document import Section
from reports.tables import summaries
from reports.tables.results import Origin
from reports.words import data, first_page, machine
from tests.reports.charts.read_marks import read
from tests.reports.materials import material_of
from tests.reports.pieces import drawings_of, looks_of, rows_of
from tests.reports.records import STRATEGIES, certified, make_record, named, over_hosts, task_of, unfinished

DRIFT = (1.0, 1.4, 0.8, 1.9, 1.1, 2.5)
"""How many times as long everything takes in each round."""

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)


@pytest.fixture
def told(tmp_path) -> Callable[..., list[Block]]:
    """A function that gives what these sections say of these records."""

    def tell(sections: Sequence[Section], *records: Record, **more: object) -> list[Block]:
        material = material_of(*certified(tmp_path, *records), folder=tmp_path, **more)
        return [block for section in sections for block in section(material)]

    return tell


def rounds_of(name: str, factor: float = 1.0, n: int = 6, noise: Sequence[float] = NOISE) -> list[Record]:
    """A launch in each of n rounds, which differ much; so many times as fast as others."""
    times = [2.0 * drift * each / factor for drift, each in zip(DRIFT[:n], noise, strict=False)]
    return [make_record(name, 2, (milliseconds,) * 4) for milliseconds in times]


def number(cell: str) -> float:
    return float(cell.replace(",", "").removesuffix(" %"))


@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_every_speed_up_has_the_rate_and_the_n_of_its_base_beside_it(told, scaling):
    def launch(name, workers=1, milliseconds=2.0):
        return make_record(name, workers, (milliseconds,) * 4, task=task_of(workers, scaling=scaling))

    rings = [launch(name, workers) for name in ("amber_ring", "cobalt_replicas") for workers in (1, 2)]
    bases = [launch("amber_single", milliseconds=1.0), launch("cobalt_single", milliseconds=4.0)]
    content = told([first_page.section, data.section], *bases, *rings)
    [table, *_] = [block for block in content if block["kind"] == "table"]
    notes = " ".join(table["notes"])
    assert re.findall(r"(\w+_single) \(([\d,]+) samples/s, n = 1\)", notes) == [
        ("amber_single", f"{bases[0].examples_per_step / 1e-3:,.0f}"),
        ("cobalt_single", f"{bases[1].examples_per_step / 4e-3:,.0f}"),
    ]
    rows = rows_of(content, "cells")
    rates = {(row["strategy"], row["workers"]): number(row["samples_per_second"]) for row in rows}
    assert len(rows) == 6
    for row in rows:
        rate = number(row["samples_per_second"])
        assert (row["base"], row["base_n"]) == (STRATEGIES[row["strategy"]].base or row["strategy"], "1")
        assert number(row["speed_up"]) == pytest.approx(rate / number(row["base_samples_per_second"]), rel=0.01)
        assert number(row["own_speed_up"]) == pytest.approx(rate / rates[row["strategy"], "1"], rel=0.01)


def test_whatever_is_missing_is_named_with_its_reason(told):
    wrong = [
        unfinished("unsupported", "It has no GPU.", "cobalt_central"),
        unfinished("failed", "It ended with status 3."),
    ]
    blocks = told([first_page.section], make_record("amber_single"), *wrong, left_out={"teal_amber": 11.2})
    text = json.dumps(blocks, default=lambda _: "")
    assert "Not compared: amber_ring. It ended with status 3." in text
    assert "Not compared: cobalt_central. It has no GPU." in text
    assert "The time didn't suffice for teal_amber (--minutes 12 would do)." in text
    assert "1 ok, 1 unsupported, 1 failed, 0 not run" in text


@pytest.mark.parametrize("milliseconds", [(1.0, 3.0), (1.0, 3.0, 8.0), (0.5, 0.5, 1.5, 9.0)])
def test_a_rate_is_that_of_the_median_time_and_no_mean_of_rates(milliseconds):
    launches = summaries.launches(named(*(make_record(milliseconds=(each,) * 4) for each in milliseconds)))
    rates = [64_000 / each for each in milliseconds]
    assert launches["samples_per_second"].tolist() == pytest.approx(rates)
    [rate] = summaries.cells(launches)["samples_per_second"]
    assert rate == pytest.approx(64_000 / statistics.median(milliseconds))
    assert rate < statistics.mean(rates) * 0.9
    # The windows of one launch are summarised in the same way.
    [of_windows] = summaries.launches(named(make_record(milliseconds=milliseconds)))["samples_per_second"]
    assert of_windows == pytest.approx(rate)


def test_a_ratio_of_rounds_stands_beside_the_rates_that_it_rests_on(told):
    times, factors = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0), (1.1, 1.2, 1.3, 1.1, 1.2, 1.3)
    rings = [make_record("amber_ring", 2, (each,) * 4) for each in times]
    slower = [each * factor for each, factor in zip(times, factors, strict=True)]
    libraries = [make_record("amber_library", 2, (each,) * 4) for each in slower]
    [row] = rows_of(told([data.section], *rings, *libraries), "comparisons")
    assert (row["strategy"], row["other"]) == ("amber_ring", "amber_library")
    assert row["rate"] == f"{128_000 / statistics.median(times):,.0f}"
    assert row["other_rate"] == f"{128_000 / statistics.median(slower):,.0f}"
    assert number(row["ratio"]) == pytest.approx(statistics.geometric_mean(factors), abs=0.005)


@pytest.mark.parametrize("n", [1, 5, 6])
def test_a_median_has_an_interval_from_six_launches_on_and_none_below(told, n):
    blocks = told([data.section], *(make_record(milliseconds=(2.0 + index,) * 4) for index in range(n)))
    [row] = rows_of(blocks, "cells")
    assert row["n"] == str(n)
    assert (row["low_seconds"] == DASH) == (row["high_seconds"] == DASH) == (n < 6)


@pytest.mark.parametrize(("n", "tested"), [(5, False), (6, True)])
def test_whatever_is_tested_has_the_ratio_of_each_round(told, n, tested):
    blocks = told([data.section], *rounds_of("amber_ring", n=n), *rounds_of("amber_library", 1.1, n=n))
    [row] = rows_of(blocks, "comparisons")
    assert (row["p"] != DASH) == tested
    assert len(row["logs"].split(", ")) == len(row["rounds"].split(", ")) == n


def test_overlapping_intervals_of_medians_decide_nothing(told):
    records = [*rounds_of("amber_ring", 1.08), *rounds_of("amber_library", noise=NOISE[::-1])]
    blocks = told([data.section], *records)
    cells = rows_of(blocks, "cells")
    lows, highs = ([number(row[name]) for row in cells] for name in ("low_seconds", "high_seconds"))
    assert max(lows) < min(highs)
    [row] = rows_of(blocks, "comparisons")
    assert (row["strategy"], row["verdict"]) == ("amber_ring", "faster")


def test_what_the_launches_ran_on_is_in_the_section_on_the_machine():
    host = {"processor": "Odd CPU", "cores": 3, "memory_bytes": 5 * 2**30, "gpus": ["Odd GPU"], "system": "Odd 9"}
    facts = {"versions": {"oddlib": "9.8.7"}, "git_commit": "fedcba98", "started_at": "2031-05-06T07:08:09+00:00"}
    facts |= {"threads_per_worker": 7, "pinned_cores": [2], "private_network": True}
    record = make_record(**facts, host=host, backend="odd backend", device="odd device")
    plan = pd.DataFrame({"launch": ["amber_ring-1w-00"], "repetition": [1], "order_seed": [4711]})
    table = machine.of_comparison(material_of(record, plan=plan))
    told = " ".join(cell for row in table["rows"] for cell in row)
    for fact in (
        *("Odd CPU, 3 cores; memory 5.0 GiB; GPUs Odd GPU; Odd 9", "on odd device, 7 threads each"),
        "of 1 launches 1 on cores of their own, 1 in a private network",
        *("2031-05-06 07:08 UTC, commit fedcba98", "order of launches shuffled with seed 4711", "oddlib 9.8.7"),
        "odd backend: amber_ring",
    ):
        assert fact in told


def test_variables_that_frameworks_obey_are_in_the_section_on_the_machine():
    material = material_of(over_hosts(), origin=Origin(variables={"OMP_DYNAMIC": "1"}))
    rows = dict(machine.of_comparison(material)["rows"])
    words = "OMP_DYNAMIC=1 where the session was started, which hosts don't get"
    assert rows["variables that frameworks obey"].partition(";")[0] == words


def test_the_slowest_rank_of_the_median_window_of_the_median_launch_counts():
    def launch(factor):
        # The slowest rank takes 9, 5 and 6 ms a step: it isn't the same one each time.
        windows = [
            {"rank": rank, "step": step, "steps": 10, "seconds": factor * milliseconds / 100}
            for rank, times in enumerate([(1, 5, 6), (9, 2, 4)])
            for step, milliseconds in zip((20, 30, 40), times, strict=True)
        ]
        return make_record("amber_ring", 2, windows=windows)

    launches = summaries.launches(named(*map(launch, (1.0, 7.0, 2.0))))
    assert launches["seconds"].tolist() == pytest.approx([0.006, 0.042, 0.012])
    assert summaries.cells(launches)["seconds"].tolist() == pytest.approx([0.012])


def test_bounds_stand_beside_what_was_measured(told):
    ring = make_record("amber_ring", 2, wire_bytes_per_step=150_000.0)
    blocks = told([first_page.section, data.section], make_record("amber_single"), ring)
    assert b"2 times amber_single" in drawings_of(blocks)["headline"]()
    [row] = rows_of(blocks, "exposed")
    # Two workers send the 17,226 parameters twice, as float32.
    assert (row["wire_bytes"], row["formula_bytes"]) == ("150,000", "137,808")


def test_every_launch_is_a_mark():
    times = (2.0, 3.0, 3.0, 4.0)
    launches = summaries.launches(named(*(make_record(milliseconds=(each,) * 4) for each in times)))
    marks = read(bars.headline(summaries.cells(launches), launches, looks_of(["amber_ring"])))
    assert sorted(mark.tip["ms per step"] for mark in marks if "launch (n = 1)" in mark.tip) == [
        f"{each:.2f}" for each in times
    ]


def test_the_readme_names_the_test_that_holds_each_of_the_twelve_rules():
    readme = Path("reports/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+)\. .*\| (.+) \|$", readme, re.M)
    assert [number for number, _ in rows] == [str(number) for number in range(1, 13)]
    holding = [name.strip("`") for number, name in rows if number != "8"]
    assert len({*holding}) == 11
    assert all(name.startswith("test_") and callable(globals().get(name)) for name in holding)
