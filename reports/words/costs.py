"""The tables of what takes time beside the training itself: exchange, a library's loop, one process, the start."""

from collections.abc import Mapping

import pandas as pd

from reports import blocks
from reports.tables import summaries
from reports.tables.material import Material
from reports.tables.phases import table
from reports.words import factors

_PLACES = {True: " between hosts", False: ""}


def section(material: Material) -> list[blocks.Block]:
    """What communication costs, what goes over the wire, and what else takes time beside the training itself."""
    names = material.names
    return [
        *_communication(material.exposed, names),
        *phases(table(material.launches, material.results.records), names),
        *factors.section(material),
        *_startup(material.startups),
    ]


def _communication(split: pd.DataFrame, names: dict[str, str]) -> list[blocks.Block]:
    heading = blocks.heading("Exchange, and bytes sent", level=2)
    if split.empty:
        nothing = (
            "No launch ran without exchange (--no-exchange) and no bytes were counted: communication isn't told apart."
        )
        return [heading, blocks.text(nothing)]
    explanation = (
        "T_step is the step as trained, T_comp the same program with gradient exchange switched off, each the median "
        "over n launches; exposed communication is the median difference over n pairs of the same round. Bytes are "
        "those that all processes sent over the launch's own loopback in a step, or from host to host where there were "
        "several, headers included, beside what the algorithm's formula has them send. By formula, N workers send in "
        "all:"
    )
    formulas = []
    named = split.assign(own=summaries.without_hosts(split), place=(split["placement"] != "").map(_PLACES))
    for (formula, source), group in named.groupby(["formula", "formula_source"]):
        users = []
        for name, own in group.groupby("bare_strategy"):
            # Without their labels where all labels send as much.
            every = named[named["bare_strategy"] == name]
            users += [name] if len(own) == len(every) else sorted({*(own["own"] + own["place"])})
        sources = f" ({source})" if source else ""
        formulas.append(f"{formula or 'no formula is declared'}: {blocks.listed(users)}{sources}.")
    rows = []
    for row in split.sort_values(["strategy", "regime", "workers"]).to_dict("records"):
        times = [
            f"{blocks.milliseconds(row[f'{name}_seconds'])} (n = {row[f'{name}_n']})"
            if row[f"{name}_n"]
            else blocks.DASH
            for name in ("step", "compute", "exposed")
        ]
        between = blocks.interval(row["exposed_low"], row["exposed_high"], blocks.milliseconds)
        sent = [blocks.megabytes(row[name]) for name in ("wire_bytes", "formula_bytes")]
        share = blocks.percent(row["exposed_seconds"] / row["step_seconds"])
        rows.append([row["strategy"], str(row["workers"]), names[row["regime"]], *times, between, share, *sent])
    columns = ["strategy", "workers", "regime", "T_step, ms", "T_comp, ms", "exposed, ms", "95 % interval", "of T_step"]
    columns += ["MB sent, measured", "MB by formula"]
    table = blocks.table(columns, rows, blocks.few_note(split["exposed_n"], "pairs"), left=(0, 2))
    return [heading, blocks.text(explanation), blocks.items(formulas), table]


def phases(accounts: pd.DataFrame, names: Mapping[str, str]) -> list[blocks.Block]:
    """The frameworks' own accounts of an exchange: a part for each family that has any."""
    parts: list[blocks.Block] = []
    for family, found in accounts.groupby("family"):
        whose = family or "The framework"
        meanings = found.drop_duplicates("phase").set_index("phase")["meaning"]
        rows = []
        for (strategy, regime, workers), cell in found.groupby(["strategy", "regime", "workers"]):
            seconds = cell.set_index("phase")["seconds"].reindex(meanings.index)
            counts = [str(workers), names[regime], str(cell["n"].max())]
            rows.append([strategy, *counts, *map(blocks.milliseconds, seconds)])
        columns = ["strategy", "workers", "regime", "n", *(f"{phase}, ms" for phase in meanings.index)]
        parts += [
            blocks.heading(f"{whose}'s own account of the exchange", level=2),
            blocks.text(
                f"{whose}'s own account of a step: how long at least one gradient was in each phase of its exchange. A "
                "phase may overlap with computing, so it can be longer than exposed communication."
            ),
            blocks.items([f"{phase}: {meaning}" for phase, meaning in meanings.items()]),
            blocks.table(columns, rows, [], left=(0, 2)),
        ]
    return parts


def _startup(found: pd.DataFrame) -> list[blocks.Block]:
    if found.empty:
        return []
    parts = ("imports", "world", "first_step")
    rows = [
        [row["strategy"], str(row["workers"]), str(row["n"]), *(blocks.number(row[name]) for name in ("whole", *parts))]
        for row in found.sort_values(["strategy", "workers"]).to_dict("records")
    ]
    columns = ["strategy", "workers", "n", "first step after, s", *(f"{name.replace('_', ' ')}, s" for name in parts)]
    return [
        blocks.heading("Time to the first step", level=2),
        blocks.text(
            "From the start of the slowest rank's process to the end of its first step, medians over n launches: the "
            "imports, joining the world, and the rest: rows, model, compiling or tracing it, and the step."
        ),
        blocks.table(columns, rows, [], left=(0,)),
    ]
