"""Make the comparison's PDF and HTML page from a folder of run records: `python -m reports`."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable, write_atomically
from reports import bandwidths, side_by_side, standings, summaries, web_page
from reports.document import compose, typeset
from reports.drawing import draw_all, narrow
from reports.material import gather
from reports.results import newest_comparison, read_results
from reports.tables import frames


def write_report(
    results: Path | None = None,
    out: Path = Path("reports/out/comparison.pdf"),
    headline: Path | None = None,
    sweep: Path | None = None,
    against: Path | None = None,
) -> None:
    """Make a typeset PDF from the run records in a folder, and beside it an HTML page and CSV files of its tables.

    Args:
        results: Folder of the records (*.json), the kept weights and the comparison's plan.csv; none: the newest
            folder in `results/` that has a plan.
        out: The PDF to write.
        headline: Also write the figure of the first page, as SVG, to this file.
        sweep: Also write the figure of what the bandwidth between virtual hosts makes of a step, as SVG, to this file.
        against: Also set the medians of another folder of records beside these, unpaired and without a test.
    """
    page_file, beside = out.with_suffix(".html"), frames.folder_beside(out)
    if page_file == out:
        raise UserError(f"{out} is the name of the HTML page, which is written beside the PDF: let --out end in .pdf.")
    found = read_results(results or newest_comparison(Path("results")))
    other = read_results(against) if against else None
    if other:
        side_by_side.check_other(found, other)
    for path in filter(None, (out, page_file, headline, sweep, beside / "columns.csv")):
        ensure_writable(path)
    # Records last as long as the process: the garbage collector needn't walk through them again and again.
    gc.freeze()
    material = gather(found)
    content, drawings = compose(found, material, other)
    if headline and "headline.svg" not in drawings:
        raise UserError("No launch ended ok with a measurement, so there is no figure to draw: leave --headline out.")
    if sweep and bandwidths.FILE not in drawings:
        raise UserError(
            f"No virtual hosts were measured with {bandwidths.FEWEST} bandwidths, so there is no figure to draw: leave "
            "--sweep out."
        )
    images = draw_all(drawings | narrow(drawings))
    with ThreadPoolExecutor(1) as thread:
        page = thread.submit(web_page.build, content, images)
        pdf = typeset(found.started_at, content, images)
    write_atomically(out, pdf)
    write_atomically(page_file, page.result())
    frames.write(beside, frames.of(found, material))
    if headline:
        write_atomically(headline, images["headline.svg"])
    if sweep:
        write_atomically(sweep, images[bandwidths.FILE])
    if regimes := summaries.regimes(material.launches):
        rows = standings.of_regime(material, regimes[0])
        print(standings.in_text(rows, sys.stdout.encoding or "ascii") + "\n")
    print(f"{out} and {page_file}: {len(found.records)} records, their tables as CSV in {beside}")


def main() -> None:
    """Run the command line. Raises UserError for results that can't be read and files that can't be written."""
    tyro.cli(write_report, description=__doc__)


if __name__ == "__main__":
    exit_with_one_line(main)
