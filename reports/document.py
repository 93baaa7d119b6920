"""The report of a comparison: which chapters it has, in which order."""

from collections.abc import Mapping

from reports import blocks
from reports.blocks import Block
from reports.render import pdf, shell
from reports.render.drawing import Drawings, draw_all
from reports.tables import summaries
from reports.tables.material import Material, gather
from reports.tables.paying import but_for_batch
from reports.tables.results import Results
from reports.words import (
    accuracy,
    bandwidths,
    cautions,
    ceilings,
    certificate,
    costs,
    decomposition,
    disturbances,
    endings,
    exchanges,
    first_page,
    glossary,
    hosts,
    memory,
    method,
    paying,
    ranking,
    regression,
    side_by_side,
    speed,
    strategy_pages,
)


def build(results: Results) -> bytes:
    """The report on `results` as a PDF: the same bytes for the same records. Raises UserError for a damaged task."""
    content, drawings = compose(results)
    return pdf.typeset(results.started_at, content, draw_all(drawings))


def compose(
    results: Results, material: Material | None = None, against: Results | None = None
) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn. Raises UserError for a damaged task.

    `material` is what `gather` made of `results`, where somebody has it already; the cells of `against` stand beside
    those of `results`.
    """
    material = material or gather(results)
    regimes, names = summaries.regimes(material.launches), material.names
    shown = {name: names[name] for name in regimes}
    parts = [*first_page.section(material, results, regimes), blocks.contents()]
    drawn = _with_curves(regimes, material)
    parts += _chapter("Curves", [speed.curves(material, name) for name in drawn])
    parts += side_by_side.section(material.cells, results, against)
    parts += regression.section(results.folder)
    parts += _chapter(
        "Where the time goes",
        [
            decomposition.story(material.scaling, material.cells, material.ceilings, shown),
            ceilings.story(results.ceilings, material.ceilings, regimes[0] if regimes else ""),
        ],
    )
    parts += _chapter("Hosts", _on_hosts(material, results, shown))
    parts += certificate.section(material)
    pages = strategy_pages.section(material, results, regimes)
    parts += [*pages, blocks.new_page()] if pages else []
    parts += _chapter("Tables", _tables(material, results, shown))
    parts += _chapter(
        "How this was measured",
        [
            cautions.section(material, results.records),
            method.section(results),
            method.machine(results),
            endings.section(material.endings),
            disturbances.section(material.disturbances),
            glossary.section(),
        ],
    )
    return shell.compose("Distributed training systems compared on exactly the same maths", results.started_at, parts)


def _with_curves(regimes: list[str], material: Material) -> list[str]:
    """The regimes without those that differ from one before in their batch alone, and have one number of workers of
    each strategy: that is a batch that was tried, and makes no curve.
    """
    found: dict[str, list[str]] = {}
    for name in regimes:
        counts = summaries.with_exchange(material.cells, name).groupby("strategy")["workers"].nunique()
        alike = found.setdefault(but_for_batch(name), [])
        if not alike or counts.max() > 1:
            alike.append(name)
    return [name for name in regimes if name in found[but_for_batch(name)]]


def _on_hosts(material: Material, results: Results, shown: Mapping[str, str]) -> list[list[Block]]:
    """What hosts and the links between them tell; nothing where no record names any."""
    names, records = material.names, results.records
    about, *measured = hosts.sections(material.hosts, records, names) or [[]]
    swept = bandwidths.sections(material.bandwidths, material.launches, records, shown)
    return [about, *swept, *measured]


def _tables(material: Material, results: Results, shown: Mapping[str, str]) -> list[list[Block]]:
    """The sections with all numbers; `shown` are the short names of the regimes in their order."""
    names = material.names
    return [
        *(speed.speed(material, regime) for regime in shown),
        ranking.section(material.ranking, shown, material.left_out),
        decomposition.tables(material.scaling, material.cells, shown),
        paying.section(material.paying, shown),
        exchanges.section(material.exchanges, results.replays, shown),
        costs.section(material),
        ceilings.tables(results.ceilings, material.ceilings, names),
        memory.section(material.memory, names),
        certificate.deviations(material),
        accuracy.section(results.records),
    ]


def _chapter(title: str, parts: list[list[Block]]) -> list[Block]:
    """The sections one after another under a heading of their own; nothing where they say nothing."""
    content = [block for part in parts for block in part]
    return [blocks.heading(title), *content] if content else []
