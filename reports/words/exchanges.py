"""What a strategy's exchange takes alone, beside its step: overlap or contention."""

from collections import Counter
from collections.abc import Mapping, Sequence

from common.records.collectives import CollectivesRecord, Replayed
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import MINUS, Block
from reports.tables.exchanges import Exchange, table, trouble
from reports.tables.material import Material


def section(material: Material) -> list[Block]:
    """What was replayed and what it means, for each regime, and what wasn't; nothing without replays."""
    replays = material.results.replays
    if not replays:
        return []
    found = table(material.launches, replays, material.steps)
    told = material.by_regime(found)
    about = (
        "The messages of a step, as a tracer saw them, were sent again one after another, by the same library in fresh "
        "processes that compute nothing. A call has all messages of a step, and is clocked from when the last rank "
        "begins it until the last one has left it; a launch counts by the median over its calls. Left over is what the "
        f"step shows of its exchange, T_step {MINUS} T_comp, less the replay of the same round, the median over rounds."
    )
    parts = [blocks.heading("The exchange replayed alone", level=2), blocks.text(about)]
    if told:
        meanings = [
            "Overlap, below 0: a part of the exchange is hidden behind computing, or behind other messages.",
            "Contention, above 0: beside computing the same messages take longer. Processors and memory are shared, "
            "ranks wait for one another, and buffers are copied.",
            "There may be both in a step: left over is contention less overlap. It is said where the whole interval "
            f"is on one side of 0, from {FEWEST_LAUNCHES} rounds on.",
        ]
        if any(row.under_way_steps for row in found):
            meanings.append(
                "Under way: how long a traced step had at least one message under way on its first rank. By as much as "
                "that exceeds the replay, messages took longer beside computing; by as much as it exceeds what the "
                "step shows, they were hidden. Tracing makes a step slower, so it's too long rather than too short."
            )
        parts.append(blocks.items(meanings))
    for regime, rows in told.items():
        parts += [blocks.heading(material.names[regime], level=3), _table(rows)]
    refused = _refused(found, replays)
    return [*parts, *([blocks.text("What wasn't replayed, and why:"), blocks.items(refused)] if refused else [])]


def _table(found: Sequence[Exchange]) -> Block:
    rows = []
    for row in blocks.in_order(found):
        # Nothing was counted within a process, or where ranks share memory.
        counted = (row.sent_bytes, row.step_sent_bytes)
        sent = [blocks.megabytes(count) if count > 0 else blocks.DASH for count in counted]
        counts = [each.n for each in (row.exposed, row.replay, row.leftover) if each]
        times = [blocks.estimate(each, blocks.milliseconds) for each in (row.exposed, row.replay, row.leftover)]
        traced = f" (n = {row.under_way_steps})" if row.under_way_steps else ""
        known = [row.strategy, blocks.world(row.workers, row.oversubscribed), blocks.span(row.messages), *sent]
        under_way = blocks.milliseconds(row.under_way_seconds) + traced
        rows.append([*known, *times, blocks.span(counts), under_way, row.verdict])
    columns = ["strategy", "workers", "messages\nof a step", "MB sent,\nreplay", "MB sent,\nstep"]
    columns += ["the step\nshows, ms", "alone, ms", "left over, ms", "n", "under way, ms", "which is"]
    counts = [each.n for row in found for each in (row.replay, row.exposed, row.leftover) if each]
    sources = {f"{row.library} sent what was told by {row.source}" for row in found}
    notes = [
        "In parentheses the 95 % interval of the median; n counts rounds, alone launches, under way traced steps.",
        f"{'; '.join(sorted(sources))}. MB sent: by all ranks over the launch's own network, packet headers included; "
        "where the replay sends what the step sends, the trace has all of it.",
        *blocks.few_note(counts, "rounds or launches"),
        *blocks.oversubscribed_note(row.oversubscribed for row in found),
    ]
    return blocks.table(columns, rows, notes, left=(0, 10))


def _refused(found: Sequence[Exchange], replays: Mapping[str, CollectivesRecord]) -> list[str]:
    """A sentence for each strategy, number of workers and reason of replays that `found` has nothing of."""
    used = {stem for row in found for stem in row.replays}
    counts: Counter[tuple[str, int, str]] = Counter()
    for stem, record in replays.items():
        if stem not in used:
            replayed = record.replayed or Replayed(strategy=record.title, launch="", source="")
            step = f"its launch {replayed.launch} of the whole step wasn't measured."
            counts[replayed.strategy, record.world_size, trouble(record) or step] += 1
    return [
        f"{strategy} with {blocks.workers(workers)} ({count} launch{'es' if count > 1 else ''}): {reason}"
        for (strategy, workers, reason), count in sorted(
            counts.items(), key=lambda each: (blocks.natural(each[0][0]), *each[0][1:])
        )
    ]
