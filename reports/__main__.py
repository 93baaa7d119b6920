"""Make the comparison's PDF and HTML page from a folder of run records: `python -m reports`."""

import gc
import sys
from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from reports.document import compose
from reports.render import shell
from reports.tables.material import Material
from reports.tables.results import newest_comparison, read_results
from reports.tables.standings import of_regime
from reports.words import first_page


def write_report(
    results: Path | None = None,
    out: Path = Path("reports/out/comparison.pdf"),
    figure: str = "",
    against: Path | None = None,
    appendix: bool = False,
) -> None:
    """Make a typeset PDF from the run records in a folder, and beside it an HTML page and CSV files of its tables.

    Args:
        results: Folder of the records (*.json), the kept weights and the comparison's plan.csv; none: the newest
            folder in `results/` that has a plan.
        out: The PDF to write; a name that ends in .svg gets one figure alone.
        figure: Name of that figure, such as sweep, of the bandwidth between virtual hosts; none: the first page's.
        appendix: Have every table and figure of the HTML page in the PDF as well, after its last page.
        against: Also set the medians of another folder of records beside these, unpaired and without a test.
    """
    beside = out.with_name(f"{out.stem}-tables")
    here = read_results(results or newest_comparison(Path("results")))
    there = read_results(against) if against else None
    if there and there.folder.resolve() == here.folder.resolve():
        raise UserError(f"{against} can't stand beside itself: name another folder with --against.")
    shell.ensure_ready(out, beside / "columns.csv")
    gc.freeze()
    gc.enable()
    material = Material(here, there)
    content, drawings = compose(material, appendix)
    if out.suffix == ".svg":
        shell.write_figure(out, drawings, figure)
        return
    shell.write(out, content, drawings)
    material.write(beside)
    if material.regimes:
        rows = of_regime(material, material.regimes[0])
        print(first_page.in_text(rows, sys.stdout.encoding or "ascii") + "\n")
    print(f"{out} and {shell.page_beside(out)}: {len(here.records)} records, their tables as CSV in {beside}")


def main() -> None:
    """Run the command line. Raises UserError for results that can't be read and files that can't be written."""
    # Records last as long as the process: the garbage collector needn't walk through them again and again.
    gc.disable()
    tyro.cli(write_report, description=__doc__)


if __name__ == "__main__":
    exit_with_one_line(main)
