"""Sections without a file of their own: curves, speed, certificate, accuracy, cautions, endings, machine, method."""

import math
from collections.abc import Iterable, Mapping
from functools import partial

import pandas as pd

from common.contract.oracle import LOSS_BOUND, LOSS_FLOOR, LOSS_TOLERANCE, WEIGHT_TOLERANCE
from common.records import manifest
from common.records.certificate import Comparison
from common.records.training import Record
from common.sessions import calibration
from common.sessions.folder import variables_in_words
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.charts import deviation, style
from reports.charts import speed as speed_charts
from reports.tables import certificate, summaries
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import configurations, findings
from reports.words.cautions import cautions


def curves(material: Material, name: str) -> list[Block]:
    """The curves of one regime, and what several workers gain over the fastest baseline."""
    shown = summaries.with_exchange(material.cells, name)
    title, first = configurations.regime_in_words(shown), shown.iloc[0]
    batch = configurations.batch_in_words(shown)
    about = f"{blocks.capitalized(batch)}. Options: {first['task']}. Machine: {first['machine']}."
    parts = [blocks.heading(title, level=2), blocks.text(about)]
    oversubscription = findings.oversubscription(summaries.with_exchange(material.launches, name))
    said = [*_gain(shown), *filter(None, [oversubscription])]
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


def speed(material: Material, name: str) -> list[Block]:
    """The table of one regime."""
    shown = summaries.with_exchange(material.cells, name)
    title = f"Speed: {configurations.regime_name(shown)}"
    return [blocks.heading(title, level=2), *_speed_table(shown, material.endings)]


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
    if cells["oversubscribed"].any():
        notes.append("† more threads than cores: shows that it works, not how it scales.")
    if (cells["n"] < FEWEST_LAUNCHES).any():
        notes.append(f"No interval is given for n < {FEWEST_LAUNCHES} launches.")
    return [blocks.table(columns[: len(rows[0])], rows, notes, left=(0, 10))]


def _speed_row(row: Mapping[str, object]) -> list[str]:
    return [
        row["strategy"],
        f"{row['workers']}{'†' if row['oversubscribed'] else ''}",
        str(row["n"]),
        blocks.milliseconds(row["seconds"]),
        blocks.interval_in_milliseconds(row["low_seconds"], row["high_seconds"]),
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


def certificate_section(material: Material) -> list[Block]:
    """Every launch beside its oracle: the curves, and the largest deviations with a verdict."""
    verdicts = [
        findings.certificate(material.certificates),
        findings.without_exchange(material.certificates_without_exchange),
    ]
    parts = [
        blocks.heading("The same maths"),
        blocks.text(
            "A float64 NumPy run of the same rows is the oracle. A launch follows it under three conditions. Every "
            f"recorded loss is off by at most {blocks.tiny(LOSS_TOLERANCE)} of its value (of {LOSS_FLOOR:g} where it "
            "is smaller): that of the global batch, and that of every worker's or replica's shard, each beside the "
            "oracle's loss of the same rows. The final weights, where they were kept, are off by at most "
            f"{blocks.tiny(WEIGHT_TOLERANCE)} of their norm. Every row was computed on once. The loss of a step "
            "proves all updates before it; the last update is proven where the weights were kept. The shards' losses "
            "prove which rows each worker computed on. Float32 may take the other side of a ReLU whose input is "
            f"almost zero. After the oracle's first such kink losses may be off by {100 * LOSS_BOUND:g} %, and the "
            "verdict is \u201cfollows up to\u201d its step. A launch with an option that rounds or approximates on "
            "purpose (other maths) isn't held to this: its deviation says what the option costs. "
            f"{' '.join(filter(None, verdicts))}"
        ),
    ]
    compared = [comparison for comparison in material.comparisons if len(comparison.oracle_losses)]
    groups: dict[tuple, list[Comparison]] = {}
    for comparison in compared:
        groups.setdefault((comparison.preset, comparison.global_batch, comparison.maths), []).append(comparison)
    for (preset, batch, _), members in sorted(groups.items()):
        worst: dict[tuple[str, int, int], Comparison] = {}
        for member in members:
            key = (member.without_hosts, member.hosts, member.workers)
            if key not in worst or member.loss > worst[key].loss:
                worst[key] = member
        draw = partial(deviation.losses, [worst[key] for key in sorted(worst)], style.styles(material.colors))
        workers = ", ".join(str(count) for count in sorted({member.workers for member in members}))
        spread = any(member.hosts > 1 for member in members)
        caption = (
            f"{preset}, seed {members[0].seed}, global batch {batch}, workers {workers}: n = {len(members)} launches; "
            f"drawn is the launch of each strategy{', hosts' if spread else ''} and worker count that deviates most."
        )
        alt = (
            "Two panels of lines over the steps: losses, which lie on the oracle's, and their relative deviation from "
            f"it, at most {blocks.tiny(max(member.loss for member in members))}. A table has all numbers."
        )
        parts.append(blocks.figure("losses", draw, caption, alt))
    return parts


def deviations(material: Material) -> list[Block]:
    """The largest deviation of every setting, with its verdict, and how well asynchronous launches trained."""
    summary = certificate.summary([*material.comparisons, *material.without_exchange])
    table = [_deviation_table(summary)] if len(summary) else []
    parts = [blocks.heading("Deviation from the oracle", level=2), *table] if table else []
    return parts + _asynchronous_section(material.asynchronous)


def _asynchronous_section(table: pd.DataFrame) -> list[Block]:
    """How well asynchronous launches trained, beside an oracle that had as many updates."""
    if table.empty:
        return []
    explanation = (
        "An asynchronous update is computed from weights that other workers may change before it is applied; its "
        "staleness is how many of their updates came in between. Such a run computes other numbers than the oracle, "
        "and other ones each time, so it can't follow it, and nothing here says that it is wrong. What can be asked "
        "is how well it trained: the loss of its final weights over the whole training set, beside that of the oracle "
        "after as many updates of as many rows. A positive difference is a higher loss than the oracle's. Each row is "
        "a single launch (n = 1)."
    )
    columns = ["strategy", "workers", "preset", "rows per update", "seed", "updates", "training loss", "the oracle's"]
    columns += ["difference", "median staleness", "largest"]
    rows, notes = [], {}
    for row in table.sort_values(["preset", "strategy", "workers"]).to_dict("records"):
        mark = f" ({notes.setdefault(row['note'], len(notes) + 1)})" if row["note"] else ""
        known = math.isfinite(row["difference"])
        difference = blocks.signed_percent(row["difference"], 1) if known else blocks.DASH
        rows.append(
            [
                *[row["strategy"] + mark, str(row["workers"]), row["preset"], str(row["batch"]), str(row["seed"])],
                *[f"{row['updates']:,}", _loss(row["loss"], row["note"]), _loss(row["oracle_loss"], row["note"])],
                *[difference, _count(row["staleness"]), _count(row["largest_staleness"])],
            ]
        )
    listed = [f"({number}) {note}." for note, number in notes.items()]
    return [
        blocks.heading("Asynchronous launches: how well they trained", level=2),
        blocks.text(explanation),
        blocks.table(columns, rows, listed, left=(0, 2)),
    ]


def _loss(value: float, note: str) -> str:
    if math.isfinite(value):
        return f"{value:.5f}"
    return blocks.DASH if note else "not finite"


def _count(value: float) -> str:
    return blocks.DASH if math.isnan(value) else f"{value:g}"


def _deviation_table(summary: pd.DataFrame) -> Block:
    columns = ["strategy", "workers", "preset", "global batch", "seed", "n", "largest loss deviation", "of a shard"]
    columns += ["of weights", "rows counted / expected", "verdict"]
    rows, notes = [], {}
    order = ["preset", "strategy", "workers", "global_batch", "seed"]
    for row in summary.sort_values(order).to_dict("records"):
        mark = ""
        if row["note"]:
            mark = f" ({notes.setdefault(row['note'], len(notes) + 1)})"
        rows.append(
            [
                *[row["strategy"] + ("" if row["exchange"] else ", without exchange"), str(row["workers"])],
                *[row["preset"], f"{row['global_batch']:,}", str(row["seed"]), str(row["n"])],
                *(blocks.tiny(row[name]) for name in ("loss", "shard", "weights")),
                f"{row['examples']:,} / {row['expected']:,}",
                certificate.verdict_in_words(row) + mark,
            ]
        )
    listed = [f"({number}) {note}." for note, number in notes.items()]
    return blocks.table(columns, rows, listed, left=(0, 2, 10), warned="deviates")


def accuracy_section(records: Mapping[str, Record]) -> list[Block]:
    """Accuracy reached on real data and the time to a stated target."""
    parts = [blocks.heading("Accuracy on real data", level=2)]
    table = summaries.accuracies(records)
    targets = ", ".join(f"{value:.2f} on {name}" for name, value in summaries.ACCURACY_TARGETS.items())
    if table.empty:
        return [*parts, blocks.text("No launch was on real data; on generated rows an accuracy would mean nothing.")]
    parts.append(
        blocks.text(
            f"Test accuracy after the last step, and the clocked training time until it first reached a target: "
            f"{targets}. The clock includes the first step and the warm-up. Only launches that looked at the accuracy "
            "on the way (--checkpoint-steps) can tell when the target was reached."
        )
    )
    rows = []
    for row in table.to_dict("records"):
        reached = blocks.DASH
        if row["looked"]:
            reached = f"{row['reached']} of {row['looked']}"
        rows.append(
            [
                *[row["strategy"], str(row["workers"]), row["preset"], str(row["global_batch"]), str(row["seed"])],
                *[str(row["steps"]), str(row["n"]), f"{row['accuracy']:.4f}", f"{row['lowest']:.4f}", reached],
                blocks.DASH if math.isnan(row["target_seconds"]) else f"{blocks.number(row['target_seconds'])} s",
            ]
        )
    columns = ["strategy", "workers", "preset", "global batch", "seed", "steps", "n", "median accuracy", "lowest"]
    return [*parts, blocks.table([*columns, "reached target", "time to target"], rows, [], left=(0, 2))]


def cautions_section(material: Material, records: Mapping[str, Record]) -> list[Block]:
    """Instabilities with cause and remedy."""
    parts = [blocks.heading("Cautions", level=2)]
    found = cautions(material.launches, records)
    if not found:
        return [*parts, blocks.text("None: no outlying launch, no slow first windows, no spread above 10 %.")]
    for caution in found:
        parts.append(blocks.caution(caution.what, caution.cause, caution.remedy, caution.where))
    return parts


def endings_section(endings: pd.DataFrame) -> list[Block]:
    """How many launches ended how, by strategy, and why those that aren't ok did."""
    parts = [blocks.heading("How every launch ended", level=2), blocks.text(findings.endings(endings))]
    counts = endings.groupby("strategy")["ending"].value_counts().unstack(fill_value=0)
    names = ("ok", "unsupported", "failed", "not run")
    rows = [[name, *[str(int(row.get(ending, 0))) for ending in names]] for name, row in counts.iterrows()]
    total = ["all", *[str(int((endings["ending"] == ending).sum())) for ending in names]]
    parts.append(blocks.table(["strategy", *names], [*rows, total], [], left=(0,), total=True))
    wrong = endings[endings["ending"].isin(["unsupported", "failed"])]
    if len(wrong):
        rows = []
        for (ending, reason), group in wrong.groupby(["ending", "reason"], sort=True):
            found = list(dict.fromkeys(log for log in group["log"] if log))
            logs = f" (log: {', '.join(found)})" if found else ""
            rows.append([", ".join(group["launch"]), ending, (reason or "no reason was recorded") + logs])
        parts.append(blocks.table(["launches", "ending", "reason"], rows, [], left=(0, 1, 2), wide={0: 3, 2: 2}))
    return parts


def machine_section(results: Results) -> list[Block]:
    """What the launches ran on, with which versions, settings and order."""
    records = list(results.records.values())
    ok = [record for record in records if record.status == "ok"] or records
    rows = [
        [
            "processor",
            _values(f"{record.host.processor or '?'}, {record.host.cores or '?'} cores" for record in ok),
        ],
        ["memory", _values(f"{record.host.memory_bytes / 2**30:.1f} GiB" for record in ok if record.host.memory_bytes)],
        ["GPUs", _values(", ".join(record.host.gpus) or "none" for record in ok)],
        ["system", _values(record.host.system or "?" for record in ok)],
        ["computed on", _values(record.device for record in ok)],
        ["threads per worker", _values(str(record.threads_per_worker) for record in ok)],
        ["kept on their cores", blocks.share_of_launches(bool(record.pinned_cores) for record in ok)],
        ["private network", blocks.share_of_launches(record.private_network for record in ok)],
        ["commit", _values(record.git_commit or "unknown" for record in ok)],
        ["measured", _values(sorted(record.started_at[:16].replace("T", " ") + " UTC" for record in ok), ends=True)],
        ["order of the launches", _order(results.plan)],
    ]
    rows.append(["schema of the records", _values(str(record.schema_version) for record in records)])
    rows.append(["seeds", _values(str(seed) for seed in sorted({record.task.seed for record in ok}))])
    rows.append(
        ["rows of the datasets, SHA-256", _values(sorted(_data(record) for record in ok if record.data_sha256))]
    )
    rows.append(["all records, SHA-256", results.digest])
    rows.append(["digests of all files", manifest.summary(results.differences)])
    over_hosts = any(record.hosts for record in records)
    rows.append(["variables that frameworks obey", variables_in_words(results.variables, over_hosts)])
    rows.append(["to repeat it", results.command or "unknown: the folder has no command.txt"])
    versions = {f"{package} {version}" for record in ok for package, version in record.versions.items()}
    rows.append(["versions", ", ".join(sorted(versions))])
    backends: dict[str, set[str]] = {}
    for record in ok:
        backends.setdefault(record.strategy, set()).add(record.backend or "none")
    rows.append(["carried by", "; ".join(f"{name}: {', '.join(sorted(backends[name]))}" for name in sorted(backends))])
    return [
        blocks.heading("Machine, versions and settings", level=2),
        blocks.table(["", ""], rows, [], left=(0, 1), wide={1: 1}),
    ]


def method_section(results: Results) -> list[Block]:
    """How the numbers came about and how to read them."""
    return [
        blocks.heading("How to read these numbers", level=2),
        blocks.items(
            [
                "Every launch is a fresh process. Windows of many steps are clocked, after a warm-up; the slowest rank "
                "of each window sets its cost, and a launch counts by its median window.",
                "A number is the median over n launches. Its interval goes from one launch to another (order "
                f"statistics) and covers the true median in at least 95 % of experiments; below n = {FEWEST_LAUNCHES} "
                "no such interval exists, and none is printed. No launch is dropped; those that stopped on the way to "
                "save checkpoints serve the certificate and the accuracy, and are no part of the throughput.",
                "Who is faster, or alike, is said by tests of pairs within rounds, corrected for how many there are. "
                "Two of the intervals above, apart or not, decide nothing. Exposed communication is the median over "
                "rounds of the difference between the launch with exchange and the one without.",
                "Weak scaling keeps the batch of each worker; strong scaling keeps the global batch. Launches of "
                "different scaling, preset or task never share a curve. A strategy's own options stand beside its "
                "name where they aren't at their default, and make a curve of their own; so do the hosts and the link "
                "between them where workers are on several, and virtual hosts never share one with real ones. Options "
                "that compute other maths are shown and not ranked.",
                "Speed-up is samples per second over the framework's undistributed base (the tables of speed name it), "
                "with the same batch per worker (weak) or the same global batch (strong); "
                "\u201cover own 1\u201d is that over one worker of the same strategy. Ratios are those of medians and "
                "carry no interval of their own. Efficiency is the speed-up per worker.",
                "Time to first step runs from the start of the process to the end of its first step and is no part of "
                "the throughput.",
                "The oracle is float64 NumPy on the same rows; see the section on the same maths. Asynchronous "
                "launches are held to it with one worker only: with more, a step is one worker's update, and the "
                "order of the updates isn't repeatable.",
                calibration.for_report(results.folder),
            ]
        ),
    ]


def _values(values: Iterable[str], ends: bool = False) -> str:
    """Distinct values in order; with `ends` only the first and the last."""
    distinct = list(dict.fromkeys(values))
    if ends and len(distinct) > 1:
        return f"{distinct[0]} to {distinct[-1]}"
    return "; ".join(distinct) or blocks.DASH


def _data(record: Record) -> str:
    return f"{record.task.preset} {record.data_sha256}"


def _order(plan: pd.DataFrame | None) -> str:
    if plan is None:
        return "no plan: launched one by one"
    seeds = ", ".join(str(seed) for seed in sorted(set(plan["order_seed"]))) if "order_seed" in plan else "unknown"
    return f"shuffled across strategies, seed {seeds}"
