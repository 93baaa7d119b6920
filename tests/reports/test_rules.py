"""Hoefler and Belli's twelve rules: one test for each that a test can decide, on made-up results."""

import dataclasses
import json
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from common.contract.task import PRESETS
from common.records.training import Record
from reports.blocks import DASH, Block
from reports.charts import speed as speed_charts
from reports.document import Section
from reports.tables import summaries
from reports.tables.material import Material
from reports.tables.results import Origin, Results
from reports.words import data, first_page, machine, ranking, speed
from tests.reports.charts.read_marks import read
from tests.reports.drawings import drawings_of, looks_of
from tests.reports.records import STRATEGIES, certified, make_record, named, over_hosts, unfinished

DRIFT = (1.0, 1.4, 0.8, 1.9, 1.1, 2.5)
"""How many times as long everything takes in each round."""

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)


@pytest.fixture
def told(tmp_path) -> Callable[..., list[Block]]:
    """A function that gives what these sections say of these records."""

    def tell(sections: Sequence[Section], *records: Record, **more: object) -> list[Block]:
        material = Material(Results(tmp_path, named(*certified(tmp_path, *records)), None, **more))
        return [block for section in sections for block in section(material)]

    return tell


def tables_with(blocks: list[Block], *columns: str) -> list[Block]:
    return [block for block in blocks if block["kind"] == "table" and {*columns} <= {*block["columns"]}]


def rows_with(blocks: list[Block], *columns: str) -> list[dict[str, str]]:
    """Every row of the tables with these columns, by the title of the column."""
    tables = tables_with(blocks, *columns)
    return [dict(zip(table["columns"], row, strict=True)) for table in tables for row in table["rows"]]


def rounds_of(name: str, factor: float = 1.0, n: int = 6, noise: Sequence[float] = NOISE) -> list[Record]:
    """A launch in each of n rounds, which differ much; so many times as fast as others."""
    times = [2.0 * drift * each / factor for drift, each in zip(DRIFT[:n], noise, strict=False)]
    return [make_record(name, 2, (milliseconds,) * 4) for milliseconds in times]


def number(cell: str) -> float:
    return float(cell.replace(",", "").removesuffix(" %"))


@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_every_speed_up_has_the_rate_and_the_n_of_its_base_beside_it(told, scaling):
    def launch(name, workers=1, milliseconds=2.0):
        lengths = {"steps": 60, "warmup_steps": 20, "window_steps": 10}
        task = dataclasses.replace(PRESETS["digits"], scaling=scaling, seed=3, workers=workers, **lengths)
        return make_record(name, workers, (milliseconds,) * 4, task=task)

    rings = [launch(name, workers) for name in ("amber_ring", "cobalt_replicas") for workers in (1, 2)]
    bases = [launch("amber_single", milliseconds=1.0), launch("cobalt_single", milliseconds=4.0)]
    content = told([first_page.section, speed.tables], *bases, *rings)
    notes = " ".join(tables_with(content, "relative", "speed-up")[0]["notes"])
    assert re.findall(r"(\w+_single) \(([\d,]+) samples/s, n = 1\)", notes) == [
        ("amber_single", f"{bases[0].examples_per_step / 1e-3:,.0f}"),
        ("cobalt_single", f"{bases[1].examples_per_step / 4e-3:,.0f}"),
    ]
    [table] = tables_with(content, "speed-up", "over own 1")
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    rates = {(row["strategy"], row["workers"]): number(row["samples/s"]) for row in rows}
    assert len(rows) == 6
    for row in rows:
        base = STRATEGIES[row["strategy"]].base or row["strategy"]
        [rate] = re.findall(rf"are over {base}: ([\d,]+) samples/s \(n = 1\)", " ".join(table["notes"]))
        assert number(row["speed-up"]) == pytest.approx(number(row["samples/s"]) / number(rate), abs=0.01)
        own = rates[row["strategy"], "1"]
        assert number(row["over own 1"]) == pytest.approx(number(row["samples/s"]) / own, abs=0.01)


def test_without_its_base_there_is_no_speed_up(told):
    [row] = rows_with(told([speed.tables], make_record("amber_ring", 2)), "speed-up", "over own 1")
    assert [row[name] for name in ("speed-up", "efficiency", "over own 1")] == [DASH] * 3


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
    [table] = tables_with(told([ranking.section], *rings, *libraries), "ratio", "rounds (n)")
    [row] = table["rows"]
    assert row[0] == "amber_ring"
    assert row[1] == f"{128_000 / statistics.median(times):,.0f}"
    assert row[2] == "amber_library"
    assert row[3] == f"{128_000 / statistics.median(slower):,.0f}"
    assert row[table["columns"].index("ratio")] == f"{statistics.geometric_mean(factors):.3f}"


@pytest.mark.parametrize("n", [1, 5, 6, 9])
def test_a_median_has_an_interval_from_six_launches_on_and_none_below(told, n):
    blocks = told([speed.tables], *(make_record(milliseconds=(2.0 + index,) * 4) for index in range(n)))
    [table] = tables_with(blocks, "ms per step", "95 % interval", "n")
    [row] = [dict(zip(table["columns"], each, strict=True)) for each in table["rows"]]
    assert row["n"] == str(n)
    assert (row["95 % interval"] == DASH) == (n < 6)
    assert any("No interval is given" in note for note in table["notes"]) == (n < 6)


@pytest.mark.parametrize(("n", "tested"), [(5, False), (6, True)])
def test_whatever_is_tested_has_its_residuals_drawn(told, n, tested):
    blocks = told([ranking.section], *rounds_of("amber_ring", n=n), *rounds_of("amber_library", 1.1, n=n))
    assert bool(tables_with(blocks, "p", "verdict")) == tested
    shown = [block for block in blocks if block["kind"] == "figure" and "Residuals" in block["caption"]]
    assert len(shown) == tested
    assert all(block["draw"]().startswith(b"<?xml") for block in shown)


def test_overlapping_intervals_of_medians_decide_nothing(told):
    records = [*rounds_of("amber_ring", 1.08), *rounds_of("amber_library", noise=NOISE[::-1])]
    blocks = told([speed.tables, ranking.section], *records)
    ends = [row["95 % interval"].split(" to ") for row in rows_with(blocks, "ms per step", "over own 1")]
    lows, highs = ([float(end) for end in side] for side in zip(*ends, strict=True))
    assert max(lows) < min(highs)
    [row] = rows_with(blocks, "p", "verdict")
    assert (row["strategy"], row["verdict"]) == ("amber_ring", "> faster")


def test_what_the_launches_ran_on_is_in_the_section_on_the_machine():
    host = {"processor": "Odd CPU", "cores": 3, "memory_bytes": 5 * 2**30, "gpus": ["Odd GPU"], "system": "Odd 9"}
    facts = {"versions": {"oddlib": "9.8.7"}, "git_commit": "fedcba98", "started_at": "2031-05-06T07:08:09+00:00"}
    facts |= {"threads_per_worker": 7, "pinned_cores": [2], "private_network": True}
    record = make_record(**facts, host=host, backend="odd backend", device="odd device")
    plan = pd.DataFrame({"launch": ["amber_ring-1w-00"], "repetition": [1], "order_seed": [4711]})
    blocks = machine.section(Material(Results(Path("nowhere"), named(record), plan)))
    told = dict(row for block in blocks if block["kind"] == "table" for row in block["rows"])
    expected = {
        **{"processor": "Odd CPU, 3 cores", "memory": "5.0 GiB", "GPUs": "Odd GPU", "system": "Odd 9"},
        **{"computed on": "odd device", "threads per worker": "7", "kept on their cores": "1 of 1 launches"},
        **{"private network": "1 of 1 launches", "commit": "fedcba98", "measured": "2031-05-06 07:08 UTC"},
        **{"order of the launches": "shuffled across strategies, seed 4711", "versions": "oddlib 9.8.7"},
        "carried by": "amber_ring: odd backend",
    }
    assert told | expected == told


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (make_record(), "OMP_DYNAMIC=1"),
        (over_hosts(), "OMP_DYNAMIC=1 where the session was started, which hosts don't get"),
    ],
)
def test_variables_that_frameworks_obey_are_in_the_section_on_the_machine(record, words):
    results = Results(Path("nowhere"), named(record), None, origin=Origin(variables={"OMP_DYNAMIC": "1"}))
    [table] = [block for block in machine.section(Material(results)) if block["kind"] == "table"]
    assert dict(table["rows"])["variables that frameworks obey"].partition(";")[0] == words


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
    assert b"ideal: N times amber_single" in drawings_of(blocks)["headline"]()
    [table] = [block for block in blocks if block.get("name") == "exposed"]
    [row] = [dict(zip(table["columns"], each, strict=True)) for each in table["rows"]]
    # Two workers send the 17,226 parameters twice, as float32.
    assert (row["wire_bytes"], row["formula_bytes"]) == ("150,000", "137,808")


def test_every_launch_is_a_mark():
    times = (2.0, 3.0, 3.0, 4.0)
    launches = summaries.launches(named(*(make_record(milliseconds=(each,) * 4) for each in times)))
    marks = read(speed_charts.headline(summaries.cells(launches), launches, looks_of(["amber_ring"])))
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
