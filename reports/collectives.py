"""Make a PDF and an HTML page from a session of the laboratory: `python -m reports.collectives --results FOLDER`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from common.records import collective_rows
from common.records.collectives import CollectivesRecord
from common.records.presentation import read_presented
from reports import blocks
from reports.blocks import Drawings
from reports.charts import style
from reports.render import shell
from reports.tables.collectives import grouped, leaders, world
from reports.tables.results import Origin, origin_of
from reports.words import algorithms, collectives


@dataclass(frozen=True)
class Session:
    """The records of one session by their files' stems, and what is known of its folder."""

    records: Mapping[str, CollectivesRecord]
    origin: Origin

    @property
    def started_at(self) -> list[str]:
        """When each launch started."""
        return [record.started_at for record in self.records.values()]


def read_session(folder: Path) -> Session:
    """The records of a session. Raises UserError where the folder has none, or a damaged one."""
    records = read_presented(folder, CollectivesRecord)
    if not records:
        raise UserError(f"{folder} holds no records of collectives: measure some first, or name another --results.")
    if any(record.replayed for record in records.values()):
        raise UserError(f"{folder} holds replays of steps: give its parent to `nox -s report -- --results`.")
    return Session(records, origin_of(folder, (folder / f"{name}.json" for name in records)))


def compose(session: Session) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn."""
    records = session.records
    rows = collective_rows.rows(records)
    fits, compared = collective_rows.fits(rows), collective_rows.comparisons(rows)
    looks = style.styles({each.library: each.colors for each in records.values()})
    worlds = grouped(rows, lambda row: world(row.case))
    lines = grouped(fits, lambda each: world(each.case))
    curves = [
        collectives.curves(case, own, lines.get(case, []), looks) for case, own in worlds.items() if own[0].size_bytes
    ]
    parts = [*collectives.who_is_in_front(leaders(rows, compared), looks), *curves[:1], blocks.contents()]
    if curves[1:]:
        parts += [blocks.heading("Curves"), *curves[1:]]
    parts += algorithms.section(records.values())
    for collective, cases in grouped(worlds, lambda case: case.collective).items():
        parts.append(blocks.heading(collective))
        for case in cases:
            own = worlds[case]
            parts += [blocks.heading(blocks.capitalized(case.world), level=2), collectives.sizes_table(own)]
            parts += [collectives.algorithms_table(own)]
    parts += collectives.fits_section(fits, rows)
    parts += collectives.timing_section(collective_rows.timings(records, rows))
    parts += collectives.missing_section(collective_rows.missing(records))
    parts += [*collectives.method(), *collectives.machine_section([*records.values()], session.origin)]
    return shell.compose("Collectives of distributed training, measured one by one", session.started_at, parts)


def write_report(results: Path, out: Path = Path("reports/out/collectives.pdf")) -> None:
    """Make a typeset PDF of a session's records, and beside it an HTML page.

    Args:
        results: Folder of the session, with its records (*.json) and command.txt.
        out: The PDF to write.
    """
    session = read_session(results)
    shell.ensure_ready(out)
    shell.write(out, session.started_at, *compose(session))
    print(f"{out} and {shell.page_beside(out)}: {len(session.records)} records")


if __name__ == "__main__":
    exit_with_one_line(partial(tyro.cli, write_report, description=__doc__))
