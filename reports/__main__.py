"""Make the comparison PDF from a folder of run records: `python -m reports`."""

from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, write_atomically
from reports.document import compose, typeset
from reports.results import newest_comparison, read_results


def write_report(
    results: Path | None = None,
    out: Path = Path("reports/out/comparison.pdf"),
    headline: Path | None = None,
) -> None:
    """Make a typeset PDF from the run records in a folder.

    Args:
        results: Folder of the records (*.json), the kept weights and the comparison's plan.csv; none: the newest
            folder in `results/` that has a plan.
        out: The PDF to write.
        headline: Also write the figure of the first page, as SVG, to this file.
    """
    found = read_results(results or newest_comparison(Path("results")))
    for path in filter(None, (out, headline)):
        ensure_writable(path)
    content, drawings = compose(found)
    if headline and "headline.svg" not in drawings:
        raise UserError("No launch ended ok with a measurement, so there is no figure to draw: leave --headline out.")
    write_atomically(out, typeset(found, content, drawings))
    if headline:
        write_atomically(headline, drawings["headline.svg"]())
    print(f"{out}: {len(found.records)} records")


def main() -> None:
    """Run the command line. Raises UserError for results that can't be read and a PDF that can't be written."""
    tyro.cli(write_report, description=__doc__)


if __name__ == "__main__":
    exit_with_one_line(main)
