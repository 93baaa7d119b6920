"""What a link's bandwidth makes of a step between virtual hosts, and from which one on distributing it pays."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from common.contract import mlp
from common.launching.virtual_hosts.calibration import PAYLOAD_BYTES, WIRE_BYTES
from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks, summaries
from reports.blocks import Block
from reports.charts import style, sweep
from reports.tables import pairs

FEWEST = 3
"""Bandwidths that make a sweep."""

FILE = "sweep.svg"
"""The figure of the first regime that has a sweep."""

_MOST_NAMED = 6
_SWEEP = ["regime", "hosts", "workers", "delay_seconds"]
_CELL = (
    *("regime", "strategy", "bare_strategy", "hosts", "workers", "delay_seconds", "n", "seconds", "low_seconds"),
    *("high_seconds", "samples_per_second", "global_batch", "same_maths", "synchronous", "oversubscribed", "base"),
    *("base_samples_per_second", "base_n"),
)
_COLUMNS = (
    *(*_CELL, "own", "bandwidth_bits_per_second", "is_chosen", "bound_seconds", "base_seconds", "ratio", "low", "high"),
    "rounds",
)


def table(
    launches: pd.DataFrame, cells: pd.DataFrame, records: Mapping[str, Record], plan: pd.DataFrame | None
) -> pd.DataFrame:
    """One row for each cell with exchange over virtual hosts whose links had at least three bandwidths.

    `own` is the strategy with its own options, whatever its hosts. `bandwidth_bits_per_second` is what was asked for,
    or, where nothing was (`is_chosen` is false), what calibration found on the wire. `bound_seconds` is the least that
    the link needs for a ring's exchange (`ring_bound`), `base_seconds` what the undistributed base needs for the rows
    of one worker. `ratio` is the samples per second over that base's: the median over `rounds` that have both, with its
    order-statistic interval from `low` to `high`, NaN below six.
    """
    if cells.empty:
        return pd.DataFrame(columns=[*_COLUMNS])
    told = cells[cells["exchange"].astype(bool) & cells["virtual"].astype(bool) & (cells["hosts"] > 1)]
    told = told.assign(own=summaries.without_hosts(told), is_chosen=told["bandwidth_bits_per_second"].notna())
    told["bandwidth_bits_per_second"] = _on_the_wire(told)
    counts = told.groupby(_SWEEP)["bandwidth_bits_per_second"].transform("nunique")
    rates, rows = _rates(launches, plan), []
    first = launches.drop_duplicates("regime").set_index("regime")["launch"]
    for cell in told[counts >= FEWEST].to_dict("records"):
        parameter_bytes = mlp.parameter_bytes(records[first[cell["regime"]]].task)
        about = {name: cell[name] for name in (*_CELL, "own", "bandwidth_bits_per_second", "is_chosen")}
        about["bound_seconds"] = ring_bound(parameter_bytes, cell["workers"], cell["bandwidth_bits_per_second"])
        # An asynchronous step is one worker's.
        workers = cell["workers"] if cell["synchronous"] else 1
        about["base_seconds"] = cell["global_batch"] / workers / cell["base_samples_per_second"]
        rows.append(about | _over_base(cell, rates))
    found = pd.DataFrame(rows, columns=[*_COLUMNS])
    return found.sort_values(["regime", "own", "workers", "hosts", "delay_seconds", "bandwidth_bits_per_second"])


def ring_bound(parameter_bytes: int, workers: int, bits_per_second: float) -> float:
    """Seconds that a ring all-reduce of gradients as large as the parameters needs on a host's link at least.

    From each host 2 (N - 1) / N times their bytes go to the next one (Patarasuk & Yuan, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations", 2009, equation 1), however many of the N workers it has, and each 1448 of
    them take 1514 on Ethernet, as a full TCP segment with a time stamp.
    """
    payload = 2 * (workers - 1) / workers * parameter_bytes
    return 8 * payload * WIRE_BYTES / PAYLOAD_BYTES / bits_per_second


def paying(found: pd.DataFrame) -> pd.DataFrame:
    """One row for each strategy with its options, hosts and workers: from which bandwidth on it pays.

    `found` are rows of `table`. `pays_from` is the smallest measured bandwidth at which, and at all above it, the whole
    interval of the ratio to one host is above 1; NaN where there is none. The row of the fastest link comes along, with
    `least_bits_per_second`, the slowest link, and `least_ratio`, the ratio there.
    """
    rows = []
    for _, group in found.groupby(["own", *_SWEEP], sort=False):
        ordered = group.sort_values("bandwidth_bits_per_second", ascending=False)
        above = (ordered["low"] > 1).cummin()
        pays_from = ordered.loc[above, "bandwidth_bits_per_second"].min()
        slowest = ordered.iloc[-1]
        least = {"least_bits_per_second": slowest["bandwidth_bits_per_second"], "least_ratio": slowest["ratio"]}
        rows.append(ordered.iloc[0].to_dict() | {"pays_from": pays_from} | least)
    return pd.DataFrame(rows, columns=[*_COLUMNS, "pays_from", "least_bits_per_second", "least_ratio"])


def losses(found: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> dict[tuple, dict[str, float]]:
    """What other maths does to the loss: by regime, `own`, hosts and workers the `loss` after so many `steps`, the
    median over launches, and its `difference` from that of the same strategy without other maths.

    Both are after the last step that a launch of either made.
    """
    said = {}
    trained = launches[launches["exchange"].astype(bool) & launches["virtual"].astype(bool) & (launches["hosts"] > 1)]
    trained = trained.assign(own=summaries.without_hosts(trained))
    world = ["regime", "bare_strategy", "hosts", "workers"]
    for key, group in trained[trained["bare_strategy"].isin(found["bare_strategy"])].groupby(world):
        same = group[group["same_maths"].astype(bool)].sort_values("options")
        if same.empty:
            continue
        plain = [records[name].losses for name in same.loc[same["own"] == same["own"].iloc[0], "launch"]]
        for own, others in group[~group["same_maths"].astype(bool)].groupby("own"):
            changed = [records[name].losses for name in others["launch"]]
            steps = min(max(map(len, plain)), max(map(len, changed)))
            reached, beside = _loss_after(changed, steps), _loss_after(plain, steps)
            regime, _, hosts, workers = key
            said[regime, own, hosts, workers] = {"loss": reached, "difference": reached - beside, "steps": steps}
    return said


def finding(found: pd.DataFrame, regime: str) -> list[str]:
    """For each number of hosts of a regime a sentence: who pays by its own interval, and from which bandwidth on."""
    said = []
    shown = _one_world(found[found["regime"] == regime])
    for (hosts, delay), group in shown.groupby(["hosts", "delay_seconds"]):
        told = paying(group)
        told = told[(told["rounds"] >= FEWEST_LAUNCHES) & told["same_maths"].astype(bool)]
        if told.empty:
            continue
        behind = f" with {1000 * delay:g} ms delay" if delay else ""
        crowded = "; † more threads than cores" if told["oversubscribed"].any() else ""
        rounds = f"n = {blocks.span(told['rounds'])} rounds"
        said.append(f"Over {hosts} virtual hosts{behind} {_pays(told)} ({rounds}{crowded}).")
    return said


def sections(
    found: pd.DataFrame,
    launches: pd.DataFrame,
    records: Mapping[str, Record],
    names: Mapping[str, str],
    drawings: dict[str, Callable[[], bytes]],
) -> list[list[Block]]:
    """For each regime that has a sweep its figure, which is added to `drawings`, and its table.

    `found` are the rows of `table`, `launches` those of `summaries`, `names` the short names of the regimes in the
    order in which they are shown.
    """
    looks = _looks(found, launches, records)
    swept = [name for name in names if (found["regime"] == name).any()]
    parts = []
    for place, regime in enumerate(swept):
        rows = found[found["regime"] == regime]
        file = f"sweep-{place + 1}.svg" if place else FILE
        drawings[file] = drawing(rows, launches, looks)
        title = "From which bandwidth on it pays" + (f": {names[regime]}" if len(swept) > 1 else "")
        said = finding(found, regime)
        parts.append(
            [
                blocks.heading(title, level=2),
                blocks.text(_about()),
                blocks.figure(file, _caption(rows, names[regime]), _alternative(rows)),
                *([blocks.items(said)] if said else []),
                _table(rows, losses(rows, launches, records)),
            ]
        )
    return parts


def _on_the_wire(cells: pd.DataFrame) -> pd.Series:
    """The bandwidth of each cell, bits per second: as it was asked for, else as it was measured for that many hosts."""
    measured = 8 * cells["link_bytes_per_second"] * WIRE_BYTES / PAYLOAD_BYTES
    unchosen = measured.where(cells["bandwidth_bits_per_second"].isna())
    together = unchosen.groupby([cells["regime"], cells["hosts"], cells["delay_seconds"]]).transform("median")
    return cells["bandwidth_bits_per_second"].fillna(together)


def _rates(launches: pd.DataFrame, plan: pd.DataFrame | None) -> dict[tuple[str, str, int], pd.Series]:
    """By work, strategy and workers the samples per second of the launches, by their rounds."""
    trained = pairs.with_rounds(launches[launches["exchange"].astype(bool)], plan)
    rates = trained.groupby(["work", "strategy", "workers", "round"])["samples_per_second"].median()
    return {key: own.droplevel([0, 1, 2]) for key, own in rates.groupby(level=[0, 1, 2])}


def _over_base(cell: Mapping[str, object], rates: Mapping[tuple, pd.Series]) -> dict[str, float]:
    """The columns on the ratio of a cell's rate to that of one worker of its base, by the rounds of `rates`."""
    nothing = pd.Series(dtype=float)
    own = rates.get((cell["work"], cell["strategy"], cell["workers"]), nothing)
    ratios = (own / rates.get((cell["work"], cell["base"], 1), nothing)).dropna()
    return dict(zip(("ratio", "low", "high", "rounds"), pairs.median(ratios), strict=True))


def _one_world(found: pd.DataFrame) -> pd.DataFrame:
    """Of as many hosts the rows with the fewest workers, so that a panel has one number of them."""
    fewest = found.groupby(["regime", "hosts", "delay_seconds"])["workers"].transform("min")
    return found[found["workers"] == fewest]


def _loss_after(losses: list[list[float | None]], steps: int) -> float:
    """The median of the losses after so many steps, of those launches that made them; NaN where it isn't finite."""
    reached = [each[steps - 1] for each in losses if len(each) >= steps > 0]
    return math.nan if None in reached else float(pd.Series(reached, dtype=float).median())


def _looks(found: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> dict[str, style.Style]:
    """One style for each strategy with its options, whatever its hosts, and for each base."""
    strategies = {*found["strategy"], *found["base"].dropna()}
    shown = launches[launches["strategy"].isin(strategies)].drop_duplicates("strategy")
    names = summaries.without_hosts(shown)
    return style.styles({name: records[launch].colors for name, launch in zip(names, shown["launch"], strict=True)})


def drawing(rows: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> partial:
    """How the sweep of one regime is drawn: `rows` of `table`, and the launches of `summaries` that they rest on."""
    shown = _one_world(rows)
    points = launches[launches["exchange"].astype(bool)].merge(
        shown[["regime", "strategy", "workers", "own", "bandwidth_bits_per_second"]],
        on=["regime", "strategy", "workers"],
        suffixes=("_asked", ""),
    )
    return partial(sweep.sweep, shown, points, dict(looks))


def _about() -> str:
    return (
        "The same step over links of several bandwidths, with as many workers on every host. Above, how long a step "
        "takes; below, the samples per second of all workers together. A step can't be shorter than the link needs for "
        "its exchange: by a ring, 2 (N \N{MINUS SIGN} 1) / N times the bytes of the gradients leave each host, of N "
        f"workers (Patarasuk & Yuan, 2009, equation 1), and {PAYLOAD_BYTES} bytes of them take {WIRE_BYTES} on "
        "Ethernet. Computing isn't in that bound. One host alone is the undistributed base, for the rows of one "
        "worker. Distributing pays by its own interval where the whole interval of the ratio to its rate, over "
        "launches of the same round, is above 1, there and over every faster link."
    )


def _caption(rows: pd.DataFrame, name: str) -> str:
    shown = _one_world(rows)
    said = [
        f"Step time and throughput by bandwidth, {name}: medians with their intervals, every launch a faint mark, "
        f"n = {blocks.span(shown['n'])} launches each. Dotted: the ring's lower bound. Level: one host alone."
    ]
    said += ["Dashed: other maths, which sends less than the ring."] if not shown["same_maths"].all() else []
    said += ["A step of asynchronous workers is one worker's update."] if not shown["synchronous"].all() else []
    said += ["Hollow: more threads than cores."] if shown["oversubscribed"].any() else []
    said += ["With more workers on each host: in the table."] if len(shown) < len(rows) else []
    return " ".join(said)


def _alternative(rows: pd.DataFrame) -> str:
    hosts = blocks.listed([str(count) for count in sorted(rows["hosts"].unique())])
    return (
        f"Two panels for each of {hosts} hosts: lines over the bandwidth of the link, of the step's time above and of "
        "samples per second below, beside one host alone and the ring's lower bound. A table has what they come to."
    )


def _table(rows: pd.DataFrame, reached: Mapping[tuple, Mapping[str, float]]) -> Block:
    """From which bandwidth on each pays, and what other maths does to the loss."""
    found = paying(rows)
    slowest, fastest = (found[name].unique() for name in ("least_bits_per_second", "bandwidth_bits_per_second"))
    is_shared = len(slowest) == len(fastest) == 1
    lines = []
    for row in found.to_dict("records"):
        crowded = "\N{DAGGER}" if row["oversubscribed"] else ""
        ends = {"least_bits_per_second": "least_ratio", "bandwidth_bits_per_second": "ratio"}
        links = ["" if is_shared else f"{_megabits(row[link])}: " for link in ends]
        ratios = [f"{link}{blocks.number(row[name])}" for link, name in zip(links, ends.values(), strict=True)]
        loss = reached.get((row["regime"], row["own"], row["hosts"], row["workers"]))
        lines.append(
            [
                *[row["own"], str(row["hosts"]), f"{row['workers']}{crowded}", _in_words(row), str(row["rounds"])],
                *ratios,
                blocks.DASH if math.isnan(row["low"]) else f"{blocks.ratio(row['low'])} to {blocks.ratio(row['high'])}",
                *_loss(loss),
            ]
        )
    at = ["over the\nslowest link", "over the\nfastest link"]
    if is_shared:
        at = [f"at {_megabits(each[0])}\nMbit/s" for each in (slowest, fastest)]
    columns = ["strategy", "hosts", "workers", "pays from,\nMbit/s", "rounds\n(n)"]
    columns += [*(f"ratio {each}" for each in at), "95 %\ninterval", "loss", "beside\nplain"]
    if not reached:
        columns, lines = columns[:-2], [line[:-2] for line in lines]
    return blocks.table(columns, lines, _notes(rows, bool(reached)), left=(0, 3))


def _notes(rows: pd.DataFrame, has_losses: bool) -> list[str]:
    notes = ["Ratio: how many times one host's samples per second, the median over rounds that have both."]
    if has_losses:
        notes.append(
            "Loss: of the last step, the median over launches, after so many steps; beside it the difference from the "
            "same strategy's without other maths after as many."
        )
    if (rows["rounds"] < FEWEST_LAUNCHES).any():
        notes.append(f"With fewer than {FEWEST_LAUNCHES} rounds there is no interval, and so no telling what pays.")
    if rows["oversubscribed"].any():
        notes.append("† more threads than cores: hosts with cores of their own compute faster, and may pay earlier.")
    if not rows["is_chosen"].all():
        notes.append("The fastest link is as fast as it goes: its bandwidth is what calibration found.")
    return notes


def _in_words(row: Mapping[str, object]) -> str:
    if math.isnan(row["ratio"]):
        return "its base wasn't measured"
    if row["rounds"] < FEWEST_LAUNCHES:
        return "too few rounds"
    if math.isnan(row["pays_from"]):
        return f"not up to {_megabits(row['bandwidth_bits_per_second'])}"
    return _megabits(row["pays_from"])


def _loss(reached: Mapping[str, float] | None) -> list[str]:
    if reached is None:
        return [blocks.DASH, blocks.DASH]
    if math.isnan(reached["loss"]):
        return ["not finite", blocks.DASH]
    loss, difference = f"{reached['loss']:.5f} after {reached['steps']:,}", reached["difference"]
    if math.isnan(difference):
        return [loss, blocks.DASH]
    sign = "+" if difference > 0 else "\N{MINUS SIGN}" if difference < 0 else ""
    return [loss, f"{sign}{blocks.tiny(abs(difference))}" if difference else "0"]


def _pays(told: pd.DataFrame) -> str:
    """From which bandwidths on the strategies of these rows of `paying` pay, and with whom it doesn't."""
    parts = [f"from {_megabits(bandwidth)} Mbit/s on with {_who(own)}" for bandwidth, own in told.groupby("pays_from")]
    verb, never = ("pays" if parts else "doesn't pay"), told[told["pays_from"].isna()]
    if len(never):
        until = f"up to {_megabits(never['bandwidth_bits_per_second'].max())} Mbit/s with {_who(never)}"
        parts.append(f"not {until}" if parts else until)
    return f"distributing {verb} by its own interval, beside one host alone, {', '.join(parts)}"


def _who(rows: pd.DataFrame) -> str:
    """The strategies of these rows, with a dagger where they're crowded; of many how many they are."""
    names = [f"{row['own']}{' †' if row['oversubscribed'] else ''}" for row in rows.to_dict("records")]
    return blocks.listed(names) if len(names) <= _MOST_NAMED else f"{len(names)} strategies"


def _megabits(bits_per_second: float) -> str:
    return f"{float(f'{bits_per_second / 1e6:.3g}'):,g}"
