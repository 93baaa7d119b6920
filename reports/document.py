"""Tables and figures to one PDF. What is said is put together here; how it looks is in `template.typ`.

The template reads everything from one JSON file, so no text of a record is ever read as markup.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import typst

from reports import (
    bandwidths,
    blocks,
    ceilings,
    disturbances,
    exchanges,
    first_page,
    hosts,
    memory,
    ranking,
    regression,
    sections,
    side_by_side,
    strategy_pages,
    summaries,
)
from reports.blocks import Block
from reports.charts import svg
from reports.drawing import draw_all
from reports.material import Drawings, Material, gather
from reports.results import Results
from reports.tables.paying import but_for_batch
from reports.words import costs, decomposition, paying


def build(results: Results) -> bytes:
    """The report on `results` as a PDF: the same bytes for the same records. Raises UserError for a damaged task."""
    content, drawings = compose(results)
    return typeset(results.started_at, content, draw_all(drawings))


def typeset(started_at: Iterable[str], content: dict[str, object], images: Mapping[str, bytes]) -> bytes:
    """The PDF of the content, with its figures drawn, dated by the last launch: each started at one of these times."""
    files = {
        "main.typ": Path(__file__).with_name("template.typ").read_bytes(),
        "content.json": json.dumps(content, ensure_ascii=False).encode(),
        **images,
    }
    timestamp = int(max(map(datetime.fromisoformat, started_at), default=datetime(1980, 1, 1, tzinfo=UTC)).timestamp())
    # Only the fonts inside the wheels: another machine's fonts would make another PDF. PDF/UA-1 (ISO 14289-1) is what
    # screen readers need: tags, a title, alternative texts, headings without gaps; the compiler refuses anything less.
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[svg.FONT_FILE.parent])
    return typst.compile(files, timestamp=timestamp, pdf_standards="ua-1", font_paths=fonts)


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
    parts += _chapter("Curves", [sections.curves(material, name, name == regimes[0]) for name in drawn])
    parts += side_by_side.section(material.cells, results, against)
    parts += regression.section(results.folder)
    parts += _chapter(
        "Where the time goes",
        [
            decomposition.story(material.scaling, material.cells, material.ceilings, shown, material.drawings),
            ceilings.story(results.ceilings, material.ceilings, regimes[0] if regimes else ""),
        ],
    )
    parts += _chapter("Hosts", _on_hosts(material, results, shown))
    parts += sections.certificate_section(material)
    pages = strategy_pages.section(material, results, regimes)
    parts += [*pages, blocks.new_page()] if pages else []
    parts += _chapter("Tables", _tables(material, results, shown))
    parts += _chapter(
        "How this was measured",
        [
            first_page.in_words(material, results, regimes),
            sections.cautions_section(material, results.records),
            sections.method_section(results),
            sections.machine_section(results),
            sections.endings_section(material.endings),
            disturbances.section(material.disturbances),
        ],
    )
    dates = sorted({record.started_at[:10] for record in results.records.values()})
    content = {
        "title": "Lockstep",
        "subtitle": "Distributed training systems compared on exactly the same maths",
        "date": " to ".join([dates[0], dates[-1]][: len(dates)]) if dates else blocks.DASH,
        "blocks": parts,
    }
    return content, material.drawings


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
    swept = bandwidths.sections(material.bandwidths, material.launches, records, shown, material.drawings)
    return [about, *swept, *measured]


def _tables(material: Material, results: Results, shown: Mapping[str, str]) -> list[list[Block]]:
    """The sections with all numbers; `shown` are the short names of the regimes in their order."""
    names = material.names
    return [
        *(sections.speed(material, regime) for regime in shown),
        ranking.section(material.ranking, shown, material.drawings),
        decomposition.tables(material.scaling, material.cells, shown),
        paying.section(material.paying, shown),
        exchanges.section(material.exchanges, results.replays, shown),
        costs.section(material),
        ceilings.tables(results.ceilings, material.ceilings, names),
        memory.section(material.memory, names),
        sections.deviations(material),
        sections.accuracy_section(results.records),
    ]


def _chapter(title: str, parts: list[list[Block]]) -> list[Block]:
    """The sections one after another under a heading of their own; nothing where they say nothing."""
    content = [block for part in parts for block in part]
    return [blocks.heading(title), *content] if content else []
