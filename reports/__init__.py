"""From run records to a typeset PDF: records, tables, figures, document. Imports `common` and no framework."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.tables.material import Material


def load(folder: str | Path) -> "Material":
    """The numbers of a results folder as pandas tables: `load(FOLDER).cells`, and more (`material.Material`).

    Raises UserError where the folder can't be reported on.
    """
    # Only whoever wants the tables waits for pandas and what else makes them.
    from reports.tables import frames

    return frames.load(folder)
