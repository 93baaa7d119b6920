"""common/observations/answers.py: numbers that were worked out by hand from made-up observations."""

import math
import statistics

import pandas as pd
import pytest

from common.observations.answers import (
    beside,
    beside_base,
    everyone,
    exponents,
    in_columns,
    leaders,
    lines,
    medians,
    of_rounds,
    pays_from,
    shares,
    sides,
)
from common.observations.table import CONDITION, Observation, tables
from common.statistics.paired import judge

TIMES = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0]


def observed(times, x=64.0, **changes):
    """Rows of these times by series, a round each."""
    return [
        Observation(
            **{"series": series, "x": x, "round": place, "launch": f"{series}-{place}", "measure": "seconds"} | changes,
            value=value,
        )
        for series, own in times.items()
        for place, value in enumerate(own, start=1)
    ]


def table(*rows):
    return tables([each for own in rows for each in own])[0]


def growing(launches, sizes=(64, 128, 256)):
    """Rows of a series whose time grows by the third power of the size."""
    times = {size: [size**3 * (1 + 0.01 * n) for n in range(launches)] for size in sizes}
    return [row for size in sizes for row in observed({"alone": times[size]}, x=size)]


# Medians


def test_a_row_is_the_median_over_launches_that_differ_in_nothing_else():
    [row] = medians(table(observed({"fast": [5.0, 1.0, 3.0, 2.0, 6.0, 4.0]}))).to_dict("records")
    assert [row[name] for name in ("n", "median", "low", "high")] == [6, 3.5, 1.0, 6.0]
    [few] = medians(table(observed({"fast": [5.0, 1.0, 3.0]}))).to_dict("records")
    assert (few["n"], few["median"]) == (3, 3.0)
    assert math.isnan(few["low"])
    alike = observed({"fast": [1.0, 2.0]})
    others = [{"x": 8.0}, {"subject": "broadcast"}, {"world": "4 ranks"}, {"measure": "bytes"}, {"part": "product"}]
    found = medians(table(alike, *(observed({"fast": [9.0]}, **each) for each in others), observed({"slow": [9.0]})))
    assert found["median"].tolist() == [1.5] + [9.0] * 6


def test_shares_are_means_over_launches_so_that_they_add_up():
    parts = {"scatter": [0.1, 0.5], "product": [0.9, 0.5]}
    rows = [observed({"rows": own}, part=part, measure="share") for part, own in parts.items()]
    found = shares(table(*rows, observed({"rows": [1.0, 1.0]})))
    assert found["part"].tolist() == ["scatter", "product"], "in the order of the observations"
    assert found["share"].tolist() == pytest.approx([0.3, 0.7])


def test_medians_stand_in_columns_without_what_does_not_exist():
    many = observed({"fast": [5.0, 1.0, 3.0, 2.0, 6.0, 4.0]}, measure="ratio")
    found = in_columns(medians(table(many, observed({"slow": [2.0]}, measure="rows"))), ["ratio", "rows", "else"])
    fast, slow = found.loc[[("", "", 64.0, "fast"), ("", "", 64.0, "slow")]].to_dict("records")
    assert [fast[f"ratio{each}"] for each in ("", "_low", "_high", "_n")] == [3.5, 1.0, 6.0, 6]
    assert [slow["rows"], slow["rows_n"], slow["ratio_n"], slow["else_n"]] == [2.0, 1, 0, 0]
    assert all(math.isnan(slow[name]) for name in ("rows_low", "ratio", "ratio_low", "ratio_high", "else"))
    assert [*in_columns(medians(table()), ["rows"])] == ["rows", "rows_low", "rows_high", "rows_n"]


def test_values_of_rounds_are_observations_where_they_exist():
    rounds = [("", "", 2, "fast", number) for number in (1, 2)]
    index = pd.MultiIndex.from_tuples(rounds, names=[*CONDITION, "series", "round"])
    found = of_rounds({"ratio": pd.Series([1.5, math.nan], index), "rows": pd.Series([3.0, 5.0], index)})
    expected = [["ratio", 1, 1.5], ["rows", 1, 3.0], ["rows", 2, 5.0]]
    assert found[["measure", "round", "value"]].to_numpy().tolist() == expected


@pytest.mark.parametrize(
    ("n", "low", "high", "said"),
    [
        (6, 0.5, 0.9, "slower"),
        (6, 1.1, 1.5, "faster"),
        (6, 0.9, 1.1, "can't tell"),
        (6, 0.9, 1.0, "can't tell"),
        (6, 1.0, 1.1, "can't tell"),
        (5, math.nan, math.nan, "too few rounds"),
        (0, math.nan, math.nan, "no shared round"),
    ],
)
def test_an_interval_lies_on_one_side_of_the_middle_or_cannot_tell(n, low, high, said):
    found = pd.DataFrame([{"ratio": 1.0, "ratio_low": low, "ratio_high": high, "ratio_n": n}])
    assert [*sides(found, "ratio", 1, "slower", "faster")] == [said]


# Beside a base


def of_base(times, base=TIMES, x=64.0):
    found = beside_base(table(observed({"alone": base} | times, x=x)), dict.fromkeys(times, "alone"))
    return found.to_dict("records")


def test_launches_are_paired_within_their_rounds_and_not_judged_where_they_share_none():
    drift = [2.0**place for place in range(6)]
    [row] = of_base({"shared": [2 * each for each in drift]}, base=drift)
    assert (row["series"], row["n"], row["ratio"], row["verdict"]) == ("shared", 6, pytest.approx(0.5), "slower")
    late = observed({"shared": [9.0, 1.0, 1.5, 7.0]})[1:]
    [row] = beside_base(table(observed({"alone": [1.0, 2.0, 3.0]}), late), {"shared": "alone"}).to_dict("records")
    assert (row["n"], row["ratio"], row["base_median"]) == (2, pytest.approx(2.0), 2.0)
    assert row["verdict"] == "too few rounds"
    assert beside_base(table(observed({"alone": [1.0]}), late), {"shared": "alone"}).empty
    assert beside_base(table(late), {"shared": "alone"}).empty


def paying(ratios, launches=6):
    """From where on a series pays whose ratios to its base these are, by size."""
    rows = []
    for size, ratio in ratios.items():
        noise = [1 + 0.001 * (place % 3) for place in range(launches)]
        rows += observed(
            {"alone": TIMES[:launches], "shared": [each / ratio * n for each, n in zip(TIMES, noise, strict=False)]},
            x=size,
        )
    return pays_from(beside_base(table(rows), {"shared": "alone"}))


def test_it_pays_from_the_smallest_size_at_and_above_which_the_whole_interval_is_surely_above_one():
    assert paying({64: 0.5, 128: 1.3, 256: 1.6}) == 128
    assert paying({64: 1.2, 128: 1.3, 256: 1.6}) == 64
    assert paying({64: 2.0}, launches=5) is None
    [row] = of_base({"shared": [0.9, 1.2, 0.8, 1.0, 0.85, 1.05]})
    assert row["low"] < 1 < row["ratio"]


# Everyone beside everyone


@pytest.mark.parametrize("judged", [everyone, lambda rows: beside_base(rows, dict.fromkeys("abc", "base"))])
def test_a_family_is_all_series_at_one_place_and_more_of_them_make_intervals_wider(judged):
    times = {name: [each * (1.3 + 0.2 * (place % 2)) for place, each in enumerate(TIMES)] for name in "abc"}
    pair = {"base": TIMES, "a": times["a"]}
    [alone] = judged(table(observed(pair))).to_dict("records")
    elsewhere = [observed(pair, **each) for each in ({"x": 8.0}, {"world": "4 ranks"})]
    found = judged(table(observed(pair), *elsewhere))
    assert found[["low", "high", "p"]].to_numpy().tolist() == [[alone["low"], alone["high"], alone["p"]]] * 3
    many = judged(table(observed({"base": TIMES} | times)))
    assert len(many) > 2
    assert (many["high"] - many["low"]).iloc[0] > alone["high"] - alone["low"]
    assert many["p"].iloc[0] > alone["p"]


def test_a_pair_has_both_medians_the_log_ratios_of_its_rounds_and_how_many_would_do():
    slow = [each * (1.02 + 0.03 * (place % 3)) for place, each in enumerate(TIMES)]
    # Who shares no round with anybody is in no pair.
    apart = [Observation(series="apart", x=64.0, round=9, launch="", measure="seconds", value=1.0)]
    [found] = everyone(table(observed({"slow": slow, "fast": TIMES}), apart), margin=0.02).to_dict("records")
    assert (found["first"], found["second"]) == ("fast", "slow")
    assert found["first_median"] == pytest.approx(1.0)
    assert found["second_median"] == pytest.approx(statistics.median(slow))
    assert found["rounds"] == [1, 2, 3, 4, 5, 6]
    assert found["logs"] == pytest.approx([math.log(own / each) for own, each in zip(slow, TIMES, strict=True)])
    needed = judge([found["logs"]], 0.02)[0].needed
    assert (found["fewest"], found["most"]) == (needed.fewest, needed.most)
    assert needed.fewest < needed.most
    [few] = everyone(table(observed({"slow": slow[:5], "fast": TIMES[:5]}))).to_dict("records")
    assert math.isnan(few["fewest"])


# Who is in front


def leading(*rows):
    found = table(*rows)
    [row] = leaders(medians(found), everyone(found)).to_dict("records")
    return row["series"], row["verdict"], row["rivals"], row["n"]


def test_who_wins_every_pair_of_six_rounds_is_the_fastest():
    slow = [2 * each for each in TIMES]
    assert leading(observed({"slow": slow, "fast": TIMES})) == ("fast", "fastest", [], 6)
    # The shortest median is of rounds that nobody else had.
    assert leading(observed({"slow": [*slow, *[0.1] * 9], "fast": TIMES})) == ("fast", "fastest", [], 6)
    assert leading(observed({"slow": [2.0] * 5, "fast": [1.0] * 5})) == ("fast", "not ranked", [], 5)
    assert leading(observed({"fast": TIMES})) == ("fast", "not ranked", [], 0)
    many = observed({"many": [each / 2 for each in TIMES]}, oversubscribed=True)
    assert leading(observed({"fast": TIMES}), many)[0] == "fast"
    assert leading(many)[0] == "many"


def test_a_leader_is_equivalent_to_who_is_within_the_margin_and_not_the_fastest_if_somebody_beats_it():
    near = [1.001 * each for each in TIMES]
    assert leading(observed({"even": near, "fast": TIMES})) == ("fast", "equivalent", ["even"], 6)
    uneven = [each * (3 if place % 2 else 1) for place, each in enumerate(TIMES)]
    series, verdict, rivals, _ = leading(observed({"one": uneven, "other": uneven[::-1]}))
    assert verdict == "can't tell"
    assert {series, *rivals} == {"one", "other"}
    rows = []
    for start, (fast, slow) in enumerate((("amber", "teal"), ("teal", "cobalt"), ("cobalt", "amber"))):
        for name, factor in ((fast, 1.0), (slow, 3.0)):
            rows += [
                Observation(series=name, round=6 * start + n, launch=f"{n}", measure="seconds", value=factor * time)
                for n, time in enumerate(TIMES)
            ]
    assert leading(rows)[1] == "can't tell"


def test_conditions_have_their_leaders_in_the_order_of_the_cells_also_a_series_with_nobody_beside_it():
    found = table(observed({"slow": [2 * each for each in TIMES], "fast": TIMES}, x=128), observed({"only": TIMES}))
    rows = leaders(medians(found), everyone(found))[["x", "series", "verdict", "n"]].to_numpy().tolist()
    elsewhere = table(*(observed({"slow": TIMES, "fast": TIMES}, x=size) for size in (128, 64)))
    assert everyone(elsewhere)["x"].tolist() == [128.0, 64.0]
    assert rows == [[128.0, "fast", "fastest", 6], [64.0, "only", "not ranked", 0]]


def test_every_other_series_stands_beside_the_leader_with_how_many_times_as_long_it_takes():
    times = {"fast": TIMES, "near": [1.001 * each for each in TIMES], "slow": [2 * each for each in TIMES]}
    pairs = everyone(table(observed(times)))
    found = beside(pairs, "near").set_index("series")
    assert found["verdict"].to_dict() == {"fast": "equivalent", "slow": "slower"}
    assert found["ratio"].to_dict() == pytest.approx({"fast": 1 / 1.001, "slow": 2 / 1.001})
    [pair] = pairs[(pairs["first"] == "fast") & (pairs["second"] == "near")].to_dict("records")
    assert found.loc["fast", ["low", "high"]].tolist() == pytest.approx([1 / pair["high"], 1 / pair["low"]])
    assert pair["low"] < pair["high"]
    # One that beats it isn't slower.
    assert beside(pairs, "slow")["verdict"].tolist() == ["can't tell", "can't tell"]


# How it grows


def test_the_exponent_is_the_slope_of_the_logarithms_with_an_interval_from_six_launches():
    found = exponents(table(growing(6)))["", "", "alone"]
    assert [found.value, found.low, found.high] == pytest.approx([3.0] * 3)
    found = exponents(table(growing(5)))["", "", "alone"]
    assert (found.value, math.isnan(found.low)) == (pytest.approx(3.0), True)
    assert exponents(table(growing(6, sizes=(64, 128))))["", "", "alone"].value == pytest.approx(3.0)
    assert exponents(table(growing(6, sizes=(64,)))) == {}


def test_each_series_has_lines_of_its_own_through_the_launches_that_measured_every_size():
    def of(latency, rounds, sizes=(1000, 2000, 4000), series="fast"):
        return [
            Observation(
                world="four", series=series, x=size, round=n, launch="", measure="seconds", value=latency + size / 1e6
            )
            for n in rounds
            for size in sizes
        ]

    # The second launch ended early: its times are at the sizes that it came to, and in no fit.
    found = lines(table(of(1.0, (1, 3)), of(9.0, (2,), sizes=(1000,)), of(5.0, (1,), series="even")))
    assert [(key[2], each.launches) for key, each in found.items()] == [("fast", 2), ("even", 1)]
    for series, latency in (("fast", 1.0), ("even", 5.0)):
        [piece] = found["", "four", series].pieces
        assert piece.latency_seconds.value == pytest.approx(latency)
        assert piece.bytes_per_second.value == pytest.approx(1e6)
