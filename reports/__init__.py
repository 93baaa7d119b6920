"""From run records to a typeset PDF: records, tables, figures, document. Imports `common` and no framework."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.tables.material import Material


def load(folder: str | Path) -> "Material":
    """The numbers of a results folder as pandas tables: `load(FOLDER).cells`, and more (`material.Material`).

    Runs the oracle for the deviations, which takes seconds. Raises UserError where the folder can't be reported on.
    """
    # Only whoever wants the tables waits for pandas and what else makes them.
    from common.records import manifest
    from reports.tables.material import Material
    from reports.tables.results import read_results

    results = read_results(Path(folder))
    for sentence in manifest.in_words(results.origin.differences):
        warnings.warn(sentence, stacklevel=2)
    return Material(results)
