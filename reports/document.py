"""Tables and figures to one PDF. What is said is put together here; how it looks is in `template.typ`.

The template reads everything from one JSON file, so no text of a record is ever read as markup.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import typst

from reports import (
    blocks,
    ceilings,
    costs,
    disturbances,
    memory,
    ranking,
    regression,
    rules,
    scaling,
    sections,
    side_by_side,
    summaries,
)
from reports.material import Drawings, Material, gather, regime_names
from reports.results import Results


def build(results: Results) -> bytes:
    """The report on `results` as a PDF: the same bytes for the same records. Raises UserError for a damaged task."""
    return typeset(results, *compose(results))


def typeset(results: Results, content: dict[str, object], drawings: Drawings) -> bytes:
    """The PDF of what `compose` gave for `results`."""
    files = {
        "main.typ": Path(__file__).with_name("template.typ").read_bytes(),
        "content.json": json.dumps(content, ensure_ascii=False).encode(),
        **{name: draw() for name, draw in drawings.items()},
    }
    started = [datetime.fromisoformat(record.started_at) for record in results.records.values()]
    timestamp = int(max(started, default=datetime(1980, 1, 1, tzinfo=UTC)).timestamp())
    # Only the fonts inside the wheel: another machine's fonts would make another PDF.
    return typst.compile(files, timestamp=timestamp, font_paths=typst.Fonts(include_system_fonts=False))


def compose(
    results: Results, material: Material | None = None, against: Results | None = None
) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn. Raises UserError for a damaged task.

    `material` is what `gather` made of `results`, where somebody has it already; the cells of `against` stand beside
    those of `results`.
    """
    material = material or gather(results)
    regimes = summaries.regimes(material.launches)
    parts = sections.first_page(material, regimes)
    parts += side_by_side.section(material.cells, results, against)
    parts += regression.section(results.folder)
    for name in regimes:
        parts += sections.regime_section(material, name, is_first=name == regimes[0])
    names = regime_names(material.cells)
    parts += ranking.section(material.ranking, {name: names[name] for name in regimes}, material.drawings)
    parts += sections.certificate_section(material)
    parts += sections.accuracy_section(results.records)
    shown = {name: names[name] for name in regimes}
    parts += scaling.section(material.scaling, material.cells, shown, material.drawings)
    parts += costs.section(material)
    parts += ceilings.section(results.ceilings, material.ceilings, names)
    parts += memory.section(material.memory, names)
    parts += disturbances.section(material.disturbances)
    parts += sections.cautions_section(material, results.records)
    parts += sections.endings_section(material.endings)
    parts += sections.machine_section(results)
    parts += sections.method_section(results)
    parts += rules.section(material, results)
    dates = sorted({record.started_at[:10] for record in results.records.values()})
    content = {
        "title": "Lockstep",
        "subtitle": "Distributed training systems compared on exactly the same maths",
        "date": " to ".join([dates[0], dates[-1]][: len(dates)]) if dates else blocks.DASH,
        "blocks": parts,
    }
    return content, material.drawings
