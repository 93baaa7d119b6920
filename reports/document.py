"""The report of a comparison: which chapters it has, in which order."""

from collections.abc import Callable

from reports import blocks
from reports.blocks import Block, Drawings
from reports.render import shell
from reports.tables.material import Material
from reports.words import (
    bandwidths,
    cautions,
    ceilings,
    certificate,
    data,
    decomposition,
    endings,
    first_page,
    hosts,
    machine,
    method,
    ranking,
    regression,
    side_by_side,
    speed,
    verdicts,
)

Section = Callable[[Material], list[Block]]

CHAPTERS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    ("Curves", (speed.curves,)),
    ("", (side_by_side.section, regression.section)),
    ("Where the time goes", (decomposition.story, verdicts.section, ceilings.story)),
    ("Hosts", (hosts.section, bandwidths.section)),
    ("The same maths", (certificate.section,)),
    ("Tables", (data.section, speed.tables, ranking.section)),
    ("How this was measured", (cautions.section, method.section, machine.section, endings.section)),
)
"""The chapters after the first page; those without a title have sections with headings of their own."""

ON_A_NEW_PAGE = "Tables"
"""The chapter that begins on a page of its own."""


def compose(material: Material) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn. Raises UserError for a damaged task.

    A chapter whose sections say nothing is left out.
    """
    parts = [*first_page.section(material), blocks.contents()]
    for title, sections in CHAPTERS:
        if content := [block for section in sections for block in section(material)]:
            parts += [blocks.new_page()] if title == ON_A_NEW_PAGE else []
            parts += [blocks.heading(title), *content] if title else content
    title = "Distributed training systems compared on exactly the same maths"
    return shell.compose(title, material.results.started_at, parts)
