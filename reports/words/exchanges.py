"""What a strategy's exchange takes alone, beside its step: sentences on overlap and contention, and two tables."""

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from common.records.collectives import CollectivesRecord, Replayed
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.tables.exchanges import CONTENTION, OVERLAP, SENT, trouble
from reports.tables.material import Material
from reports.tables.pairs import NO_ROUND, TOO_FEW

_MINUS, _DAGGER = "\N{MINUS SIGN}", "\N{DAGGER}"


def section(material: Material) -> list[Block]:
    """What was replayed and what it means, for each regime, and what wasn't; nothing without replays."""
    found, replays, names = material.exchanges, material.results.replays, material.shown
    if not replays:
        return []
    told = {regime: found[found["regime"] == regime] for regime in names}
    told = {regime: rows for regime, rows in told.items() if len(rows)}
    parts = [blocks.heading("The exchange replayed alone", level=2), blocks.text(_about())]
    parts += [blocks.items(_meanings(found["under_way_steps"].sum() > 0))] if told else []
    for regime, rows in told.items():
        ordered = rows.assign(order=[blocks.natural(name) for name in rows["strategy"]])
        lines = ordered.sort_values(["order", "workers"]).to_dict("records")
        parts += [
            blocks.heading(names[regime], level=3),
            blocks.items([_sentence(row) for row in lines]),
            _sent(lines),
            _times(lines),
        ]
    refused = _refused(found, replays)
    return [*parts, *([blocks.text("What wasn't replayed, and why:"), blocks.items(refused)] if refused else [])]


def _about() -> str:
    return (
        "The messages of a step, as a tracer saw them, were sent again by the same library in fresh processes that "
        "compute nothing, one after another. A call has all messages of a step, and is clocked from when the last rank "
        "begins it until the last one has left it; a launch counts by the median over its calls. Left over is what the "
        f"step shows of its exchange, T_step {_MINUS} T_comp, less the replay of the same round, the median over "
        "rounds with its order-statistic interval."
    )


def _meanings(is_traced: bool) -> list[str]:
    meanings = [
        "Overlap, below 0: a part of the exchange is hidden behind computing, or messages overlap one another, which a "
        "replay doesn't let them: it waits for each before it sends the next.",
        "Contention, above 0: beside computing the same messages take longer. Processors and memory are shared, ranks "
        "wait for one another, and buffers are copied.",
        "There may be both in a step. Left over is contention less overlap, so each may be more than that. It is said "
        f"where the whole interval is on one side of 0, from {FEWEST_LAUNCHES} rounds on.",
    ]
    if is_traced:
        meanings.append(
            "Under way: how long a traced step had at least one message under way on its first rank, a second "
            "witness. By as much as that is longer than the replay, messages took longer while they were on their way, "
            "which includes waiting for other ranks; by as much as it is longer than what the step shows, they were "
            "hidden behind computing. Tracing makes a step slower, so it's too long rather than too short."
        )
    return meanings


def _sentence(row: Mapping[str, object]) -> str:
    """What the step shows, what its messages take alone, and what that comes to."""
    messages = _messages(row)
    alone = f"its {messages} alone take{'s' if messages == 'one message' else ''} {_ms(row, 'replay')}"
    if row["verdict"] == NO_ROUND:
        missing = "no round has that beside the step with and without exchange, so nothing tells what is left over"
        return f"{_who(row)}: {alone}; {missing}{_traced(row)}."
    shown = _ms(row, "exposed", " of exchange")
    return f"{_who(row)}: the step shows {shown}, {alone}: {_leftover(row)}{_traced(row)}."


def _leftover(row: Mapping[str, object]) -> str:
    """The verdict with its numbers."""
    seconds, low, high, n = (row[f"leftover_{name}"] for name in ("seconds", "low", "high", "n"))
    between = f"{_signed(low)} to {_signed(high)}, n = {n}"
    if row["verdict"] == CONTENTION:
        return f"contention of {_signed(seconds)} ms ({between})"
    if row["verdict"] == OVERLAP:
        return f"overlap of {_signed(-seconds)} ms ({_signed(-high)} to {_signed(-low)}, n = {n})"
    if row["verdict"] == TOO_FEW:
        return f"{_signed(seconds)} ms left over, which too few rounds tell anything of (n = {n})"
    return f"{_signed(seconds)} ms left over ({between}), which may be nothing"


def _traced(row: Mapping[str, object]) -> str:
    """What the traced steps say beside both times; nothing where none do."""
    under_way = row["under_way_seconds"]
    if math.isnan(under_way):
        return ""
    was = "it was" if _messages(row) == "one message" else "they were"
    times = blocks.ratio(under_way / row["replay_seconds"])
    steps = f"{row['under_way_steps']} traced step{'s' if row['under_way_steps'] > 1 else ''}"
    said = f"; in {steps} of one launch {was} under way for {_signed(under_way)} ms, {times} times as long as alone"
    # Ends of intervals are NaN below six launches, which leaves all of these unsaid.
    took_longer = under_way > row["replay_high"]
    said += f", so {was.split()[0]} took longer there, waiting for other ranks included" if took_longer else ""
    shown = row["exposed_seconds"]
    if under_way > row["exposed_high"]:
        return f"{said}, and {_signed(under_way - shown)} ms of that lay behind computing"
    if under_way < row["exposed_low"]:
        return f"{said}, and {_signed(shown - under_way)} ms of what the step shows had no message under way"
    return said


def _messages(row: Mapping[str, object]) -> str:
    fewest, most = row["fewest_messages"], row["most_messages"]
    return "one message" if most == 1 else f"{blocks.span(pd.Series([fewest, most]))} messages"


def _who(row: Mapping[str, object]) -> str:
    return f"{row['strategy']} with {blocks.workers(row['workers'])}{f' {_DAGGER}' if row['oversubscribed'] else ''}"


def _ms(row: Mapping[str, object], name: str, of: str = "") -> str:
    return f"{_signed(row[f'{name}_seconds'])} ms{of} (n = {row[f'{name}_n']})"


def _signed(seconds: float) -> str:
    """Milliseconds without the unit, with a true minus."""
    return blocks.milliseconds(seconds).replace("-", _MINUS)


def _sent(lines: list[dict[str, object]]) -> Block:
    """What was sent again: by whom, and who told of it."""
    rows = []
    for row in lines:
        messages = blocks.span(pd.Series([row["fewest_messages"], row["most_messages"]]))
        sizes = [blocks.megabytes(row["size_bytes"]), *(_sent_megabytes(row[name]) for name in SENT)]
        rows.append([*_place(row), messages, *sizes, row["library"], row["source"]])
    columns = ["strategy", "workers", "messages\nof a step", "their\nMB", "MB sent,\nreplay", "MB sent,\nstep"]
    notes = [
        "Their MB: sizes of the messages as nccl-tests counts them. MB sent: by all ranks over the launch's own "
        "network, packet headers included; where the replay sends what the step sends, the trace has all of it. What "
        "doesn't cross the network isn't counted."
    ]
    return blocks.table([*columns, "sent by", "as told by"], rows, notes, left=(0, 6, 7), wide={6: 1, 7: 1})


def _sent_megabytes(count: float) -> str:
    """A dash for nothing: within a process, or where ranks share memory, there was nothing to count."""
    return blocks.megabytes(count) if count > 0 else blocks.DASH


def _times(lines: list[dict[str, object]]) -> Block:
    rows = []
    for row in lines:
        times = [_with_interval(row, name) for name in ("exposed", "replay", "leftover")]
        steps = f"{_signed(row['under_way_seconds'])} (n = {row['under_way_steps']})"
        rows.append([*_place(row), *times, steps if row["under_way_steps"] else blocks.DASH, row["verdict"]])
    columns = ["strategy", "workers", "the step\nshows, ms", "alone, ms", "left over, ms", "under way, ms", "which is"]
    notes = [
        "Below each time the 95 % interval of the median; n counts rounds, alone launches, under way traced steps."
    ]
    counts = pd.DataFrame(lines)[["replay_n", "exposed_n", "leftover_n"]]
    few = f"No interval is given for fewer than {FEWEST_LAUNCHES}."
    notes += [few] if ((counts > 0) & (counts < FEWEST_LAUNCHES)).any(axis=None) else []
    if any(row["oversubscribed"] for row in lines):
        notes.append(f"{_DAGGER} more threads than cores: shows that it works, not how it scales.")
    return blocks.table(columns, rows, notes, left=(0, 6))


def _place(row: Mapping[str, object]) -> list[str]:
    return [row["strategy"], f"{row['workers']}{_DAGGER if row['oversubscribed'] else ''}"]


def _with_interval(row: Mapping[str, object], name: str) -> str:
    if not row[f"{name}_n"]:
        return blocks.DASH
    number = f"{_signed(row[f'{name}_seconds'])} (n = {row[f'{name}_n']})"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return number if math.isnan(low) else f"{number}\n{_signed(low)} to {_signed(high)}"


def _refused(found: pd.DataFrame, replays: Mapping[str, CollectivesRecord]) -> list[str]:
    """A sentence for each strategy, number of workers and reason of replays that `found` has nothing of."""
    used = {stem for stems in found["replays"] for stem in stems}
    counts: dict[tuple[str, int, str], int] = {}
    for stem, record in replays.items():
        if stem not in used:
            replayed = record.replayed or Replayed(strategy=record.title, launch="", source="")
            step = f"its launch {replayed.launch} of the whole step wasn't measured."
            key = (replayed.strategy, record.world_size, trouble(record) or step)
            counts[key] = counts.get(key, 0) + 1
    return [_refusal(*key, count) for key, count in sorted(counts.items(), key=lambda each: _in_order(each[0]))]


def _in_order(key: tuple[str, int, str]) -> Iterable[object]:
    return blocks.natural(key[0]), *key[1:]


def _refusal(strategy: str, workers: int, reason: str, count: int) -> str:
    return f"{strategy} with {blocks.workers(workers)} ({count} launch{'es' if count > 1 else ''}): {reason}"
