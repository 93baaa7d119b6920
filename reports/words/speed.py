"""How fast each strategy was: curves over the number of workers, and the table of all times."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from reports import blocks
from reports.blocks import Block, listed
from reports.charts import speed as speed_charts
from reports.charts import style
from reports.tables import summaries
from reports.tables.material import Material
from reports.words import configurations


def curves(material: Material) -> list[Block]:
    """The curves of each regime, and what several workers gain over the fastest baseline.

    Left out are regimes that differ from one before in their batch alone, and have one number of workers of each
    strategy: that is a batch that was tried, and makes no curve.
    """
    parts: list[Block] = []
    drawn: set[str] = set()
    for name in material.regimes:
        shown = summaries.with_exchange(material.cells, name)
        any_batch = shown["regime_of_any_batch"].iloc[0]
        if any_batch not in drawn or shown.groupby("strategy")["workers"].nunique().max() > 1:
            drawn.add(any_batch)
            parts += _curves(material, name, shown)
    return parts


def _curves(material: Material, name: str, shown: pd.DataFrame) -> list[Block]:
    """The curves of one regime, whose cells with gradient exchange are `shown`."""
    title, first = configurations.regime_in_words(shown), shown.iloc[0]
    batch = configurations.batch_in_words(shown)
    about = f"{blocks.capitalized(batch)}. Options: {first['task']}. Machine: {first['machine']}."
    parts = [blocks.heading(title, level=2), blocks.text(about)]
    said = [*_gain(shown), *filter(None, [oversubscription(summaries.with_exchange(material.launches, name))])]
    parts += [blocks.items(said)] if said else []
    every, shown = shown, summaries.over_fastest_links(shown)
    only = " Of several links the fastest." if len(shown) < len(every) else ""
    if shown["workers"].nunique() == 1:
        return [*parts, blocks.text("Only one number of workers was measured here, so there is no curve to draw.")]
    points = summaries.with_exchange(material.launches, name)
    points = points[points["strategy"].isin(shown["strategy"])]
    is_many = shown["strategy"].nunique() > speed_charts.MOST_CURVES
    draw = speed_charts.multiples if is_many else speed_charts.curves
    what = "Throughput, a panel for each strategy" if is_many else "Throughput, speed-up and efficiency"
    whose = " of a strategy on as many hosts" if shown["placement"].any() else ""
    caption = (
        f"{what}, {configurations.regime_name(shown)}. Every mark is one launch, hollow with more threads than cores; "
        f"lines join the medians{whose}. n = {blocks.span(shown['n'])} launches each.{only}"
    )
    alt = "A panel for each strategy with its samples per second over the number of workers, the others' in grey."
    if not is_many:
        alt = (
            "Four panels of lines over the number of workers: samples per second, speed-up over the undistributed "
            "base, efficiency, speed-up over one worker of the same strategy."
        )
    alt += " The table of speeds has all numbers."
    looks = style.styles(material.colors)
    return [*parts, blocks.figure("curves", partial(draw, shown, points, looks), caption, alt)]


def _gain(shown: pd.DataFrame) -> list[str]:
    """What the fastest world of several workers with a core each has over the fastest base; none without either."""
    fitting = shown[~shown["oversubscribed"].astype(bool) & shown["same_maths"].astype(bool)]
    bases, several = fitting[fitting["bare_strategy"] == fitting["named_base"]], fitting[fitting["workers"] > 1]
    if bases.empty or several.empty:
        return []
    base, best = (table.loc[table["samples_per_second"].idxmax()] for table in (bases, several))
    ratio = best["samples_per_second"] / base["samples_per_second"]
    verdict = "" if ratio > 1 else ", so distributing doesn't pay here"
    rate = f"{base['samples_per_second']:,.0f} samples/s"
    return [
        f"The fastest with several, {best['strategy']} at {best['workers']}, has {blocks.ratio(ratio)} times the rate "
        f"of {base['strategy']}, the fastest without distribution ({rate}){verdict}; "
        f"medians of n = {best['n']} and {base['n']}, not tested."
    ]


def tables(material: Material) -> list[Block]:
    """The table of each regime."""
    parts: list[Block] = []
    for name in material.regimes:
        shown = summaries.with_exchange(material.cells, name)
        title = f"Speed: {configurations.regime_name(shown)}"
        parts += [blocks.heading(title, level=2), *_speed_table(shown, material.endings)]
    return parts


def _speed_table(cells: pd.DataFrame, endings: pd.DataFrame) -> list[Block]:
    """Absolute times first, then what they make of either base; cells without a measurement stand with their ending."""
    rows = [_speed_row(row) for row in cells.to_dict("records")]
    first = cells.iloc[0]
    same = (endings["preset"] == first["preset"]) & (endings["scaling"] == first["scaling"]) & endings["for_speed"]
    here = endings[same & endings["task"].isin([first["task"], ""]) & (endings["ending"] != "ok")]
    measured = set(zip(cells["strategy"], cells["workers"], strict=True))
    for (strategy, workers), group in here.groupby(["strategy", "workers"]):
        counts = group["ending"].value_counts()
        note = ", ".join(f"{count} {ending}" for ending, count in counts.items())
        if (strategy, workers) in measured:
            row = next(row for row in rows if row[0] == strategy and row[1].rstrip("†") == str(workers))
            row[-1] = note
        else:
            rows.append([strategy, str(workers), "0", *[blocks.DASH] * 7, note])
    rows.sort(key=lambda row: (blocks.natural(row[0]), int(row[1].rstrip("†"))))
    if all(not row[-1] for row in rows):
        rows = [row[:-1] for row in rows]
    columns = ["strategy", "workers", "n", "ms per step", "95 % interval", "samples/s", "speed-up", "efficiency"]
    columns += ["over own 1", "first step, s", "not ok"]
    notes = [*_base_notes(cells), *_asynchronous_notes(cells)]
    notes += [*blocks.oversubscribed_note(cells), *blocks.few_note(cells["n"], "launches")]
    return [blocks.table(columns[: len(rows[0])], rows, notes, left=(0, 10))]


def _speed_row(row: Mapping[str, object]) -> list[str]:
    return [
        row["strategy"],
        blocks.world(row),
        str(row["n"]),
        blocks.milliseconds(row["seconds"]),
        blocks.interval(row["low_seconds"], row["high_seconds"], blocks.milliseconds),
        f"{row['samples_per_second']:,.0f}",
        blocks.ratio(row["speed_up"]),
        blocks.percent(row["efficiency"]),
        blocks.ratio(row["own_speed_up"]),
        blocks.number(row["first_step_seconds"]),
        "",
    ]


def _base_notes(cells: pd.DataFrame) -> list[str]:
    """What each ratio is over, in absolute numbers."""
    notes = []
    bases_of = cells.groupby("framework")["named_base"].nunique()
    for (framework, name), group in cells.groupby(["framework", "named_base"]):
        strategies = f"{framework} strategies"
        if not framework or bases_of[framework] > 1:
            strategies = blocks.listed(sorted(group["bare_strategy"].unique()))
        known = group.dropna(subset=["base"])
        if known.empty:
            notes.append(f"{name}, the undistributed base of {strategies}, wasn't measured: no speed-up over it.")
            continue
        base = known.iloc[0]
        notes.append(
            f"Speed-up and efficiency of {strategies} are over {name}: "
            f"{base['base_samples_per_second']:,.0f} samples/s (n = {base['base_n']})."
        )
    return notes


def _asynchronous_notes(cells: pd.DataFrame) -> list[str]:
    """What a step of the asynchronous cells is, and how they were clocked; how cells over a chosen link were."""
    notes = []
    found = cells[~cells["synchronous"].astype(bool)]
    for (name, batch), own in found.groupby([summaries.without_hosts(found), "global_batch"]):
        steps = blocks.alternatives(own["window_steps"])
        notes.append(
            f"{name} is asynchronous: a step is one worker's update, of {batch} rows. It was clocked in windows of "
            f"{steps} steps, at whose end the workers run dry."
        )
    linked = cells[cells["synchronous"].astype(bool) & cells["bandwidth_bits_per_second"].notna()]
    if linked["window_steps"].nunique() > 1:
        notes.append(
            f"Over links of a chosen bandwidth windows have {blocks.alternatives(linked['window_steps'])} steps, fewer "
            "where these take longer."
        )
    return notes


_MOST_NAMED = 5


def oversubscription(launches: pd.DataFrame) -> str:
    """A sentence that names the worker counts with more threads than cores; empty where there are none.

    A strategy with processes beside its workers may have too many threads where others don't: it is named by itself.
    """
    if launches.empty or not launches["oversubscribed"].any():
        return ""
    over = launches[launches["oversubscribed"]]
    everywhere = summaries.oversubscribed_worlds(launches)
    places = [f"{listed([str(count) for count in everywhere])} workers"] if everywhere else []
    alone = over[~over["workers"].isin(everywhere)]
    places += [_of_strategy(str(name), group) for name, group in alone.groupby("strategy")]
    cores = listed([str(count) for count in sorted(over["cores"].dropna().unique())])
    return (
        f"With {blocks.some(places, _MOST_NAMED)} there were more threads than the machine's {cores} cores: such "
        "numbers are marked † and show that it works, not how it scales."
    )


def _of_strategy(name: str, launches: pd.DataFrame) -> str:
    counts = listed([str(count) for count in sorted(launches["workers"].unique())])
    workers = "worker" if counts == "1" else "workers"
    beside = " (other processes beside them)" if launches["processes_beside"].any() else ""
    return f"{counts} {workers} of {name}{beside}"
