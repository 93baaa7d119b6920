"""The charts: what their figures draw, from the same arguments, as Vega-Lite that is valid."""

import json
from functools import partial
from pathlib import Path

import altair
import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from reports import altair_of, certificate, chart_parts, deviation_charts, scaling, strategy_pages, summaries
from reports.chart_parts import Chart
from reports.charts import deviation as deviation_figures
from reports.charts import speed as speed_figures
from reports.charts import steps as scaling_figures
from reports.charts import strategy as strategy_figures
from reports.material import gather
from reports.results import Results
from tests.changes import changed
from tests.reports.drawings import drawing_of_sweep, looks_of
from tests.reports.records import make_record, named, over_hosts, varied


def of_speed(*records, draw=speed_figures.curves) -> Chart:
    launches = summaries.launches(named(*records))
    looks = looks_of(launches["strategy"].tolist())
    return altair_of.chart_of(partial(draw, summaries.cells(launches), launches, looks))


def of_losses(tmp_path, *records) -> Chart:
    comparisons = certificate.compare(Results(tmp_path, named(*records), None))
    names = [comparison.strategy for comparison in comparisons]
    return altair_of.chart_of(partial(deviation_figures.losses, comparisons, looks_of(names)))


def of_residuals(**logs: list[float]) -> Chart:
    rows = [
        {"strategy": name, "other": "base", "rounds": [*range(1, len(each) + 1)], "logs": each}
        for name, each in logs.items()
    ]
    return altair_of.chart_of(partial(deviation_figures.residuals, pd.DataFrame(rows)))


def of_parts(milliseconds: float = 4.0, workers: tuple[int, ...] = (2,), alone: float = 3.0) -> Chart:
    records = [make_record("amber_single", 1, (2.0,) * 3)]
    for index in range(4):
        for count in workers:
            time = milliseconds if index == 3 else 4.0
            records.append(make_record(f"amber_{index}", count, (time,) * 3))
            records.append(varied(f"amber_{index}", count, (alone,) * 3, exchange=False))
    launches = summaries.launches(named(*records))
    table = scaling.table(summaries.cells(launches), launches, None).assign(products_seconds=1e-3)
    return altair_of.chart_of(partial(scaling_figures.scaling, table))


def of_sweep(*records) -> Chart:
    """The chart of three bandwidths between two hosts, beside these records."""
    swept = [over_hosts(milliseconds=(time,) * 3, megabits=100 / time) for time in (1.0, 5.0, 20.0)]
    return altair_of.chart_of(drawing_of_sweep(*records, *swept))


def of_page(*records, **changed) -> Chart:
    """The chart of the first strategy's page, of the arguments of its figure with these changed."""
    results = Results(Path(), named(*records), None)
    material = gather(results)
    strategy_pages.section(material, results, summaries.regimes(material.launches))
    draw = next(draw for draw in material.drawings.values() if draw.func is strategy_figures.strategy)
    return altair_of.chart_of(partial(draw.func, *draw.args, **draw.keywords | changed))


def columns_of(chart: Chart) -> set[str]:
    return {column for rows in chart.data.values() for row in rows for column in row}


def keys_of(chart: Chart) -> list[chart_parts.Key]:
    return [*chart.keys, *(key for panel in chart.panels for key in panel.keys)]


@pytest.fixture(params=["headline", "curves", "losses", "residuals", "scaling", "strategy", "sweep"])
def each(request, tmp_path) -> Chart:
    """A chart of every kind."""
    records = [make_record("amber_single"), *(make_record("amber_ring", workers) for workers in (1, 2, 4, 8))]
    return {
        "headline": lambda: of_speed(*records, draw=speed_figures.headline),
        "curves": lambda: of_speed(*records),
        "losses": lambda: of_losses(tmp_path, *records),
        "residuals": lambda: of_residuals(one=[0.0, 0.1, 0.2], two=[0.0, 0.3, 0.0]),
        "scaling": of_parts,
        "strategy": lambda: of_page(*records, varied("amber_ring", 2, exchange=False)),
        "sweep": lambda: of_sweep(*records[:1]),
    }[request.param]()


def test_every_chart_is_valid_and_its_data_are_json_that_any_browser_reads(each):
    assert each.panels
    for panel in each.panels:
        altair.LayerChart.from_dict(panel.specification, validate=True)
    json.dumps([each.data, [panel.specification for panel in each.panels]], allow_nan=False)


def test_every_column_that_a_chart_reads_is_in_its_data(each):
    drawn = json.dumps([panel.specification for panel in each.panels])
    assert {part.split('"')[0] for part in drawn.split('"field": "')[1:]} <= columns_of(each)
    assert {part.split('"')[0] for part in drawn.split('"name": "')[1:]} - {"chosen", "label_limit"} <= {*each.data}


def test_all_rows_of_a_table_have_the_same_columns(each):
    for rows in each.data.values():
        assert len({tuple(row) for row in rows}) <= 1


def test_a_key_that_chooses_picks_out_marks(each):
    marks = {row["key"] for rows in each.data.values() for row in rows if "key" in row}
    assert {key.name for key in keys_of(each) if key.chooses} <= marks


def test_every_chart_draws_what_a_figure_of_the_same_name_draws():
    names = {draw.__name__: make.__name__ for draw, make in altair_of._CHARTS.items()}
    assert names.pop("multiples") == "curves"
    assert names == {
        name: name for name in ("headline", "curves", "losses", "residuals", "scaling", "strategy", "sweep")
    }
    assert altair_of.chart_of(partial(len, "of something else")) is None


def test_every_marker_has_a_shape():
    assert {*chart_parts.SHAPES} == {
        look.marker for look in looks_of([f"amber_{index:02d}" for index in range(40)]).values()
    }


def test_medians_and_launches_stand_with_their_numbers_and_colors():
    times = (2.0, 2.2, 2.4)
    records = [make_record("amber_ring", 2, (time,) * 3) for time in times]
    chart = of_speed(make_record("amber_single"), *records)
    [median] = [row for row in chart.data["medians"] if row["key"] == "amber_ring"]
    # 128 rows in 2.2 ms are 58,182 samples/s; amber_single's 64 in 2 ms are 32,000.
    assert (median["said"], median["milliseconds"], median["n"]) == ("58,182", "2.20", 3)
    assert (median["speed_up_said"], median["efficiency_said"]) == ("1.82", "91 %")
    assert median["rate"] == pytest.approx(128 / 2.2e-3, rel=1e-5)
    assert median["interval"] == "none: too few launches"
    assert (
        median["color"]
        == f"color-mix(in oklab, white var(--lift), {looks_of(['amber_ring', 'amber_single'])['amber_ring'].color})"
    )
    launches = [row for row in chart.data["launches"] if row["key"] == "amber_ring"]
    assert [row["milliseconds"] for row in launches] == ["2.00", "2.20", "2.40"]
    assert [row["speed_up"] for row in launches] == pytest.approx([128 / time / 32 for time in times], rel=1e-5)


def test_an_interval_goes_between_the_rates_of_two_launches():
    records = [make_record("amber_ring", 1, (2.0 + index / 10,) * 3) for index in range(6)]
    [median] = of_speed(*records).data["medians"]
    assert (median["low"], median["high"]) == pytest.approx((64 / 2.5e-3, 64 / 2.0e-3), rel=1e-5)
    assert median["interval"] == "25,600 to 32,000"


def test_a_ratio_over_a_base_that_was_not_measured_is_said_instead_of_drawn():
    chart = of_speed(make_record("amber_ring", 2), make_record("amber_ring", 4))
    missing = [panel for panel in chart.panels if panel.specification is None]
    assert len(missing) == 3
    assert {panel.absent for panel in missing} == {"The base wasn't measured."}


def test_crowded_worlds_have_a_dagger_and_are_explained():
    chart = of_speed(*(make_record("amber_ring", workers) for workers in (1, 2, 4)))
    assert [row["world"] for row in chart.data["medians"]] == ["1", "2", "4†"]
    assert "† hollow: more threads than cores" in {key.name for key in chart.keys}
    assert "'†'" in json.dumps(chart.panels[0].specification, ensure_ascii=False)


def test_of_very_many_launches_a_chart_has_the_slowest_the_fastest_and_some_between(monkeypatch):
    monkeypatch.setattr(chart_parts, "MOST_POINTS", 5)
    records = [make_record("amber_ring", 1, (2.0 + index / 100,) * 3) for index in range(20)]
    chart = of_speed(*records)
    said = [row["milliseconds"] for row in chart.data["launches"]]
    assert len(said) == 5
    assert {"2.00", "2.19"} <= set(said)
    assert chart.note == (
        "The chart has 5 launches of each strategy and number of workers, from the slowest to the fastest."
    )
    assert chart.data["medians"][0]["n"] == 20
    assert of_speed(*records[:5]).note == ""


def test_of_very_many_pairs_a_chart_has_those_with_the_farthest_rounds(monkeypatch):
    monkeypatch.setattr(chart_parts, "MOST_POINTS", 6)
    chart = of_residuals(quiet=[0.0, 0.01, 0.0], wild=[0.0, 0.5, 0.0], loud=[0.0, 0.2, 0.0])
    assert [row["key"] for row in chart.data["pairs"]] == ["loud over base", "wild over base"]
    assert chart.note == "Of 3 pairs the chart has the 2 that leave their mean farthest."


def test_residuals_are_off_the_mean_of_their_own_pair():
    [row] = of_residuals(one=[2.0, 2.1, 2.2]).data["pairs"]
    assert row["percent"] == pytest.approx((100 * np.expm1([-0.1, 0.0, 0.1])).tolist(), abs=1e-4)
    assert (row["ratio"], row["n"]) == (f"{np.exp(2.1):.3f}", 3)


def test_long_loss_curves_are_thinned_and_keep_their_largest_deviation(tmp_path, monkeypatch):
    losses = [*make_record().losses]
    losses[31] *= 1.01
    full = of_losses(tmp_path, make_record(losses=losses))
    [run] = full.data["runs"]
    assert (len(run["step"]), full.note) == (60, "")
    monkeypatch.setattr(deviation_charts, "_STEPS_OF_A_LINE", (1, 20))
    thinned = of_losses(tmp_path, make_record(losses=losses))
    [run] = thinned.data["runs"]
    assert run["step"] == [*range(0, 60, 3)]
    assert run["deviation"][10] == pytest.approx(0.01, rel=1e-2)
    assert thinned.note == "The chart has one loss of every 3 steps, and their largest deviation."


def test_a_loss_that_is_no_number_leaves_a_gap(tmp_path):
    losses = [*make_record().losses]
    losses[5] = None
    [run] = of_losses(tmp_path, make_record(losses=losses)).data["runs"]
    assert run["loss"][5] is None


def test_the_parts_of_a_bar_join_and_end_at_the_measured_step():
    chart = of_parts()
    bars = [bar for bar in chart.data["bars"] if bar["strategy"] == "amber_0"]
    assert bars[0]["key"] == "ideal"
    assert [bar["start"] for bar in bars[1:]] == pytest.approx([bar["end"] for bar in bars[:-1]])
    [step] = [step for step in chart.data["steps"] if step["strategy"] == "amber_0"]
    assert (step["measured"], step["said"], step["products"]) == (4.0, "4.00 ms", 1.0)
    assert bars[-1]["end"] == pytest.approx(4.0)


def test_a_part_below_zero_goes_left_from_zero():
    chart = of_parts(alone=1.5)
    [part] = [bar for bar in chart.data["bars"] if bar["strategy"] == "amber_0" and bar["key"] == "computing"]
    assert (part["start"], part["end"], part["said"]) == (-0.5, 0.0, "\N{MINUS SIGN}0.500 ms")


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    long = next(step for step in of_parts(milliseconds=80.0).data["steps"] if step["strategy"] == "amber_3")
    assert (long["said"], long["place"]) == ("80.0 ms »", 10.0)


def test_each_number_of_workers_has_a_panel():
    assert [panel.title.partition(":")[0] for panel in of_parts(workers=(1, 2, 4)).panels] == [
        *["1 worker", "2 workers", "4 workers"]
    ]
    records = [make_record("amber_ring", workers) for workers in (1, 2, 4)]
    assert [panel.title.partition(":")[0] for panel in of_speed(*records, draw=speed_figures.headline).panels] == [
        *["1 worker", "2 workers", "4 workers †"]
    ]


def test_names_that_look_like_code_are_data_and_nothing_else(tmp_path):
    name = "');alert('x"
    chart = of_speed(make_record(name), make_record(name, 2), draw=speed_figures.headline)
    assert {row["key"] for row in chart.data["medians"]} == {name}
    expressions = [part.split('"')[0] for part in json.dumps(chart.panels[0].specification).split('"expr": "')[1:]]
    assert not any("alert" in expression for expression in expressions)


def test_the_bars_of_windows_have_the_quantiles_and_medians_of_their_launches():
    times = [(2.0, 2.1, 2.4), (2.2, 2.3, 2.5)]
    chart = of_page(
        *(make_record("amber_ring", 2, each) for each in times), varied("amber_ring", 2, (1.7,) * 3, exchange=False)
    )
    with_exchange, without = chart.data["windows"]
    assert (with_exchange["q0"], with_exchange["q3"], with_exchange["q6"]) == pytest.approx((2.0, 2.25, 2.5))
    assert (with_exchange["all"], with_exchange["count"], with_exchange["said"]) == ("2.00 to 2.50 ms", 6, "n = 2")
    assert (without["key"], without["q3"], without["n"]) == ("without exchange", pytest.approx(1.7), 1)
    assert [row["at"] for row in chart.data["medians"]] == pytest.approx([2.1, 2.3, 1.7])
    # The one above the other, in a row that both have.
    assert with_exchange["row"] == without["row"] == "2 workers"
    assert with_exchange["offset"] == -without["offset"] < 0


def test_a_bar_alone_stands_in_the_middle_of_its_row_and_is_not_told_from_others():
    chart = of_page(make_record("amber_ring", 4, (2.0,) * 30 + (80.0,), label="slow"))
    [window] = chart.data["windows"]
    assert (window["row"], window["offset"], window["said"]) == ("4 workers\N{DAGGER},\nslow", 0, "n = 1 »")
    assert "with exchange" not in {key.name for key in keys_of(chart)}


def test_a_first_step_is_divided_and_its_parts_join():
    chart = of_page(make_record("amber_ring", 2))
    parts = chart.data["startups"]
    assert [(part["start"], part["end"], part["said"]) for part in parts] == [
        *[(0.0, 1.0, "1.00 s"), (1.0, 1.25, "0.250 s"), (1.25, 1.5, "0.250 s")]
    ]
    assert chart.data["first steps"] == [{"row": "2 workers", "color": parts[0]["color"], "said": "1.50"}]


def test_every_rank_has_a_line_and_every_launch_a_panel():
    chart = of_page(make_record("amber_ring", 1), make_record("amber_ring", 2, (2.0, 2.0)))
    assert [panel.title for panel in chart.panels if "processor" in panel.title] == [
        *["processor use, 1 worker", "processor use, 2 workers"]
    ]
    assert [(row["group"], row["key"], len(row["start"])) for row in chart.data["ranks"]] == [
        *[(0, "rank 0", 4), (1, "rank 0", 2), (1, "rank 1", 2)]
    ]
    assert {cores for row in chart.data["ranks"] for cores in row["cores"]} == {0.9}
    assert [row["cores"] for row in chart.data["beginnings"][:3]] == [0.9, 0.2, 1.2]


def test_of_very_many_windows_a_chart_has_means_over_their_time(monkeypatch):
    monkeypatch.setattr(chart_parts, "MOST_POINTS", 2)
    record = make_record("amber_ring", 1, (1.0, 3.0, 2.0))
    windows = [
        structs.replace(window, own_seconds=share * window.seconds)
        for window, share in zip(record.windows, (0.2, 1.0, 0.5), strict=True)
    ]
    chart = of_page(changed(record, windows=windows))
    [rank] = chart.data["ranks"]
    # 1 and 3 ms a step, of which 0.2 and 3 were computed; ten steps each, 2 s after the process started.
    assert (rank["start"], rank["end"], rank["cores"]) == ([2.0, 2.04], [2.04, 2.06], [0.8, 0.5])
    assert chart.note == "Of processor use the chart has the mean of every 2 windows of a rank."


def test_windows_that_start_before_the_first_step_is_done_have_an_axis_without_a_break():
    whole = make_record("amber_ring", 2)
    windows = [structs.replace(window, started_seconds=window.started_seconds - 1) for window in whole.windows]
    early = changed(whole, windows=windows)
    domains = [
        next(panel for panel in of_page(record).panels if "processor" in panel.title).specification["layer"][0]
        for record in (whole, early)
    ]
    assert [each["encoding"]["x"]["scale"]["domain"] for each in domains] == [[0.0, 1.5, 2.0, 2.08], [0.0, 1.5]]


def test_a_panel_of_a_page_that_has_nothing_to_show_says_why_in_the_words_of_its_figure():
    windows = [structs.replace(window, started_seconds=None) for window in make_record().windows]
    chart = of_page(make_record(base=None, startup_seconds=None, windows=windows))
    assert [panel.absent for panel in chart.panels] == [
        "",
        "Nothing to divide: it distributes nothing, so its step is the ideal one.",
        "Not told.",
        "Processor use over time: the records don't tell when a window started, or what it computed.",
    ]
