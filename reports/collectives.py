"""Make a PDF and an HTML page from a session of the laboratory: `python -m reports.collectives --results FOLDER`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.records import collective_rows, manifest
from common.records.collective_rows import Case, CaseFit, Row
from common.records.collectives import CollectivesRecord
from common.records.presentation import read_presented
from common.sessions.folder import kept_variables
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.charts import collective_times, style
from reports.charts.style import Style
from reports.render import shell
from reports.render.drawing import Drawings
from reports.tables.collectives import Leader, grouped, leaders, world
from reports.tables.results import digest_of, noted_command
from reports.words import collectives, machine


@dataclass(frozen=True)
class Session:
    """The records of one session by their files' stems, and what is known of its folder."""

    records: Mapping[str, CollectivesRecord]
    command: str
    digest: str
    differences: manifest.Differences
    variables: Mapping[str, str] | None

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
    digest = digest_of(folder / f"{name}.json" for name in records)
    return Session(records, noted_command(folder), digest, manifest.check(folder), kept_variables(folder))


def compose(session: Session) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn."""
    records = session.records
    rows = collective_rows.rows(records)
    fits, compared = collective_rows.fits(rows), collective_rows.comparisons(rows)
    looks = style.styles({each.library: each.colors for each in records.values()})
    worlds = grouped(rows, lambda row: world(row.case))
    curves = [_curves(case, own, _of(case, fits), looks) for case, own in worlds.items() if own[0].size_bytes]
    parts = [*_who_is_in_front(leaders(rows, compared), looks), *curves[:1], blocks.contents()]
    if curves[1:]:
        parts += [blocks.heading("Curves"), *curves[1:]]
    for collective, cases in grouped(worlds, lambda case: case.collective).items():
        parts.append(blocks.heading(collective))
        for case in cases:
            parts += _measured(case, worlds[case])
    parts += collectives.fits_section(fits, rows)
    parts += collectives.timing_section(collective_rows.timings(records, rows))
    parts += collectives.missing_section(collective_rows.missing(records))
    parts += [*_method(), *_machine(session)]
    return shell.compose("Collectives of distributed training, measured one by one", session.started_at, parts)


def _who_is_in_front(found: Sequence[Leader], looks: Mapping[str, Style]) -> list[Block]:
    """The sentence and the table of the first page."""
    if not found:
        return [blocks.text("No launch measured anything.")]
    return [blocks.headline(collectives.headline(found)), collectives.leaders_table(found, looks)]


def _of(case: Case, fits: Iterable[CaseFit]) -> list[CaseFit]:
    return [each for each in fits if world(each.case) == case]


def _curves(case: Case, rows: Sequence[Row], fits: Sequence[CaseFit], looks: Mapping[str, Style]) -> Block:
    """The figure of one collective in one world."""
    draw = partial(collective_times.times, list(rows), fits, dict(looks))
    return blocks.figure("times", draw, _caption(case, rows, fits), _alternative(case, rows, fits))


def _measured(case: Case, rows: Sequence[Row]) -> list[Block]:
    """One collective in one world: its tables."""
    parts = [blocks.heading(blocks.capitalized(case.world), level=2), collectives.sizes_table(rows)]
    # A barrier has no data of its own to send.
    parts += [collectives.bytes_table(rows)] if any(row.size_bytes for row in rows) else []
    return [*parts, collectives.algorithms_table(rows)]


def _caption(case: Case, rows: Sequence[Row], fits: Sequence[CaseFit]) -> str:
    counts = sorted({row.seconds.n for row in rows})
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    said = [f"{case.collective}, {case.world}: medians, every launch a faint mark, n = {n} launches."]
    if any(row.seconds.low is not None for row in rows):
        said.append("Upright: 95 % intervals of the medians.")
    if counts[0] < FEWEST_LAUNCHES:
        said.append(f"Below {FEWEST_LAUNCHES} launches there is no interval.")
    if fits:
        launches = sorted({each.fit.launches for each in fits})
        fitted = f"{launches[0]} to {launches[-1]}" if len(launches) > 1 else str(launches[0])
        said.append(
            f"Dotted: the fitted lines, through the medians of n = {fitted} launches that measured all sizes. Below: "
            "(fitted \N{MINUS SIGN} measured) / measured."
        )
    return " ".join(said)


def _alternative(case: Case, rows: Sequence[Row], fits: Sequence[CaseFit]) -> str:
    names = blocks.some(sorted({row.case.library for row in rows}))
    sizes = [row.size_bytes for row in rows]
    below = " A panel below it shows by how much the fitted lines miss them." if fits else ""
    return (
        f"Time of {case.collective} among {case.world}, over sizes from {min(sizes):,} to {max(sizes):,} "
        f"bytes, both logarithmic: a line for each of {names}.{below} The tables after it have all numbers."
    )


def _method() -> list[Block]:
    """How the numbers came about and how to read them."""
    return [
        blocks.heading("How to read these numbers"),
        blocks.items(
            [
                "A call's time runs from when the last rank begins it until the last rank has its result. The ranks "
                "meet at a barrier before each call; arrival is by how much the last one begins after the first, and "
                "is no part of the time. Calls said to be one right after the other have no barrier between them, and "
                "their time is the mean over the loop. Between hosts each rank's clock is set right by its host's "
                "measured offset.",
                "Every launch is a fresh process for each rank, or one for all ranks where the library has them in "
                "one. A launch counts by the median over its calls, after a warm-up. Launches are made in rounds, "
                "each of which has every library and world once, in shuffled order.",
                "Unless the session was asked not to, the result of every rank in every timed call is compared with "
                "NumPy's, outside the clock: values are whole numbers whose sums are exact. A wrong result ends its "
                "launch.",
                "A number is the median over n launches, with an interval by order statistics that covers the true "
                f"median in at least 95 % of experiments. Below {FEWEST_LAUNCHES} launches no such interval exists. "
                "Who is faster is said by paired t tests within rounds, held down over all libraries that have the "
                "collective at this size (Holm); two intervals, apart or not, decide nothing.",
                "Sizes, algorithm bandwidth (size over time) and bus bandwidth (that times a factor of the collective "
                "and the ranks) are as nccl-tests defines them (doc/PERFORMANCE.md); 1 MB is 10\u2076 bytes. "
                "Nothing is averaged over sizes.",
                "Truly sent is what the interfaces of the launch's own network counted over calls after the timed "
                "ones, headers included, over the number of ranks; over several hosts what went from host to host. "
                "What ranks hand over in shared memory isn't sent. CPU time is that of all ranks' processes together.",
            ]
        ),
    ]


def _machine(session: Session) -> list[Block]:
    """What the launches ran on, with which libraries, versions and settings."""
    records = list(session.records.values())
    ok = machine.ended_ok(records)
    machines = sorted({record.host.name for record in ok if record.host.name})
    told = machine.facts(ok) | {
        **({"machines, pooled": ", ".join(machines)} if len(machines) > 1 else {}),
        "hosts": machine.distinct(", ".join(host.name for host in record.hosts) or "one" for record in ok),
        "calls timed, after": machine.distinct(
            f"{record.sweep.iterations} at each size, after {record.sweep.warmup_iterations}" for record in ok
        ),
        "results checked": blocks.share_of_launches(record.sweep.check for record in ok),
        **machine.to_repeat(session.digest, session.differences, session.variables, session.command, records),
    }
    libraries = []
    for library, own in sorted(grouped(records, lambda record: record.library).items()):
        facts = machine.distinct(f"{name}: {fact}" for record in own for name, fact in record.facts.items())
        carried = machine.distinct(record.backend for record in own)
        libraries.append([library, own[0].title, own[0].family, carried, facts])
    columns = ["library", "is", "family", "carried by", "tells of itself"]
    return [
        blocks.heading("Libraries, machine and versions"),
        blocks.table(columns, libraries, [], left=(0, 1, 2, 3, 4), wide={1: 2, 4: 3}),
        machine.table(told),
    ]


def write_report(results: Path, out: Path = Path("reports/out/collectives.pdf")) -> None:
    """Make a typeset PDF of a session's records, and beside it an HTML page.

    Args:
        results: Folder of the session, with its records (*.json) and command.txt.
        out: The PDF to write.
    """
    page_file, session = shell.page_beside(out), read_session(results)
    for path in (out, page_file):
        ensure_writable(path)
    content, drawings = compose(session)
    shell.write(out, session.started_at, content, drawings)
    print(f"{out} and {page_file}: {len(session.records)} records")


def main() -> None:
    """Run the command line. Raises UserError for records that can't be read and files that can't be written."""
    tyro.cli(write_report, description=__doc__)


if __name__ == "__main__":
    exit_with_one_line(main)
