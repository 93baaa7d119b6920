"""The report of a comparison: which chapters it has, in which order."""

from collections.abc import Callable

from reports import blocks
from reports.blocks import Block, Drawings
from reports.render import shell
from reports.tables.material import Material
from reports.words import against, certainty, data, decomposition, first_page, machine, scaling, sweeps
from reports.words.glossary import TERMS

Section = Callable[[Material], list[Block]]

CHAPTERS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    ("Scaling", (scaling.section,)),
    ("Why not N times", (decomposition.section,)),
    ("How sure, and the same maths", (certainty.section,)),
    # These aren't in every comparison: several networks or hosts, another folder, another commit, with own headings.
    ("", (sweeps.networks,)),
    ("Hosts", (machine.hosts, sweeps.bandwidths)),
    ("", (against.another_folder, against.another_commit)),
)
"""The chapters after the first page, each on a page of its own; one whose sections have nothing to say is left out."""


def compose(material: Material, appendix: bool = False) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn. Raises UserError for a damaged task.

    With `appendix` the PDF has every table and figure of the page as well.
    """
    parts = first_page.section(material)
    for title, sections in CHAPTERS:
        if chapter := [block for section in sections for block in section(material)]:
            parts += [blocks.new_page(), *([blocks.heading(title)] if title else []), *chapter]
    parts += [block | {"page_only": True} for block in (blocks.new_page(), *data.section(material))]
    title = "Distributed training systems compared on exactly the same maths"
    started_at = [record.started_at for record in material.results.records.values()]
    content, drawings = shell.compose(title, started_at, parts)
    return content | {"appendix": appendix, "terms": TERMS}, drawings
