"""How fast each strategy was: curves over the number of workers, and the table of all times."""

from functools import partial

import pandas as pd

from common.observations import numbers
from reports import blocks
from reports.charts import speed as speed_charts
from reports.charts import style
from reports.tables import summaries
from reports.tables.material import Material


def curves(material: Material) -> list[blocks.Block]:
    """The curves of each regime.

    Left out are regimes that differ from one before in their batch alone, and have one number of workers of each
    strategy: that is a batch that was tried, and makes no curve.
    """
    parts: list[blocks.Block] = []
    drawn: set[str] = set()
    for name in material.regimes:
        shown = summaries.with_exchange(material.cells, name)
        any_batch = shown["regime_of_any_batch"].iloc[0]
        if any_batch in drawn and shown.groupby("strategy")["workers"].nunique().max() == 1:
            continue
        drawn.add(any_batch)
        regime, first = material.names[name], shown.iloc[0]
        about = f"{blocks.capitalized(batch_in_words(shown))}. Options: {first['task']}. Machine: {first['machine']}."
        parts += [blocks.heading(blocks.capitalized(regime), level=2), blocks.text(about)]
        every, shown = shown, summaries.over_fastest_links(shown)
        only = " Of several links the fastest." if len(shown) < len(every) else ""
        if shown["workers"].nunique() == 1:
            parts.append(blocks.text("Only one number of workers was measured here, so there is no curve to draw."))
            continue
        points = summaries.with_exchange(material.launches, name)
        points = points[points["strategy"].isin(shown["strategy"])]
        whose = " of a strategy on as many hosts" if shown["placement"].any() else ""
        caption = (
            f"Throughput, a panel for each strategy, {regime}. Every faint mark is one launch; lines join the medians"
            f"{whose}, hollow with more threads than cores. n = {blocks.span(shown['n'])} launches each.{only}"
        )
        alt = (
            "A panel for each strategy with its samples per second over the number of workers, the others' in grey. "
            "The table of speeds has all numbers."
        )
        draw = partial(speed_charts.by_workers, shown, points, style.styles(material.colors))
        parts.append(blocks.figure("curves", draw, caption, alt, stacks=True))
    return parts


def tables(material: Material) -> list[blocks.Block]:
    """The table of each regime."""
    parts: list[blocks.Block] = []
    for name in material.regimes:
        shown = summaries.with_exchange(material.cells, name)
        parts += [blocks.heading(f"Speed: {material.names[name]}", level=2), _speed_table(shown, material.endings)]
    return parts


def _speed_table(cells: pd.DataFrame, endings: pd.DataFrame) -> blocks.Block:
    """Absolute times first, then what they make of either base; cells without a measurement stand with their ending."""
    rows = [
        [
            *[row["strategy"], blocks.world(row["workers"], row["oversubscribed"]), str(row["n"])],
            blocks.milliseconds(row["seconds"]),
            numbers.interval(row["low_seconds"], row["high_seconds"], blocks.milliseconds),
            f"{row['samples_per_second']:,.0f}",
            *[numbers.ratio(row["speed_up"]), numbers.percent(row["efficiency"]), numbers.ratio(row["own_speed_up"])],
            *[blocks.number(row["first_step_seconds"]), ""],
        ]
        for row in cells.to_dict("records")
    ]
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
    notes, apart = _base_notes(cells), cells[~cells["synchronous"]]
    for name, batch in sorted(set(zip(summaries.without_hosts(apart), apart["global_batch"], strict=True))):
        notes.append(
            f"{name} is asynchronous: a step is one worker's update, of {batch} rows. It was clocked in windows at "
            "whose end the workers run dry."
        )
    notes += [*blocks.oversubscribed_note(cells["oversubscribed"]), *blocks.few_note(cells["n"], "launches")]
    return blocks.table(columns[: len(rows[0])], rows, notes)


def batch_in_words(cells: pd.DataFrame) -> str:
    """The batch of the cells of one regime, and whose it is."""
    batch, is_weak = cells["batch"].iloc[0], cells["scaling"].iloc[0] == "weak"
    return f"{batch} rows per step for each worker" if is_weak else f"{batch} rows per step, shared by all workers"


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
