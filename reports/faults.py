"""Make a PDF and an HTML page from a session of faults: `python -m reports.faults --results FOLDER`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from common.records import recovery_rows
from common.records.presentation import read_presented
from common.records.recovery_rows import Row, Saving
from common.records.training import Record
from reports import blocks
from reports.blocks import Drawings
from reports.charts import recovery
from reports.render import shell
from reports.tables.results import origin_of
from reports.words import faults, machine


def compose(
    started_at: Sequence[str], rows: Sequence[Row], saving: Sequence[Saving], told: Mapping[str, str]
) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figure is drawn; `told` is what the launches ran on."""
    figure = blocks.figure(
        "recovery",
        partial(recovery.steps_over_time, list(rows)),
        "Steps over time, in the launch with the median duration: rank 0 a line, other ranks dashed. The cross is the "
        "fault. A process that begins again, or goes back, does so with a ring, at the step that was kept.",
        "Steps of each process over seconds, a panel for each strategy and fault. The table has all numbers.",
    )
    parts = [faults.headline(rows), *faults.tables(rows), figure, *faults.saving(saving), *faults.messages(rows)]
    parts += [*faults.method(rows), blocks.heading("Machine, versions and settings"), machine.table(told)]
    return shell.compose("What happens when a worker dies", started_at, parts)


def write_report(results: Path, out: Path = Path("reports/out/faults.pdf")) -> None:
    """Make a typeset PDF of a session's records, and beside it an HTML page.

    Args:
        results: Folder of the session, with its records (*.json) and their accounts.
        out: The PDF to write.
    """
    records = read_presented(results, Record)
    suffered = recovery_rows.suffered(results, records)
    rows = recovery_rows.rows(suffered)
    if not rows:
        raise UserError(f"{results} has no launch that suffered a fault: name another --results.")
    shell.ensure_ready(out)
    launches, origin = [*records.values()], origin_of(results, (results / f"{name}.json" for name in records))
    told = machine.facts(machine.ended_ok(launches)) | machine.to_repeat(origin, launches)
    started_at = [record.started_at for record in launches]
    shell.write(out, started_at, *compose(started_at, rows, recovery_rows.saving(suffered), told))
    print(f"{out} and {shell.page_beside(out)}: {len(records)} records")


if __name__ == "__main__":
    exit_with_one_line(partial(tyro.cli, write_report, description=__doc__))
