"""The exchange of a step replayed alone, against times worked out by hand, and what the report says of it."""

import math
from pathlib import Path

import pandas as pd
import pytest

from common.records.collectives import Cell, CollectivesRecord
from common.records.files import write_record
from common.records.trace import STEP
from common.records.training import Record
from reports.blocks import DASH, heading
from reports.render import pdf, shell, web_page
from reports.tables import summaries
from reports.tables.exchanges import Exchange
from reports.tables.exchanges import table as exchanges_table
from reports.tables.material import Material
from reports.tables.results import Results, read_results
from reports.words import exchanges
from tests.changes import changed
from tests.reports.pieces import table_under
from tests.reports.records import make_record, named, over_hosts, varied, write_all
from tests.reports.replays import replay, replayed
from tests.reports.steps import cells_and_steps

HEADING = "The exchange replayed alone"
MINUS = "\N{MINUS SIGN}"
ROUNDS = 6
SHIFTS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)
"""By how many milliseconds the step with exchange is longer in each round."""


def refused(reason: str, status: str = "unsupported", strategy: str = "amber_threads") -> CollectivesRecord:
    return replay(1.0, status=status, reason=reason, cells=[], replayed=replayed("", strategy), library="", title="")


def steps(
    exposed: float, rounds: int = ROUNDS, name: str = "amber_ring", *, alone: bool = True, workers: int = 2
) -> dict[str, Record]:
    """Launches whose steps take 3 ms without exchange, and with it so many more, and `SHIFTS`; by their stems."""
    found = {}
    for number, shift in enumerate(SHIFTS[:rounds], start=1):
        stem = f"{name}-{workers}w"
        found[f"{stem}-{number:02d}"] = make_record(name, workers, (3.0 + exposed + shift,) * 3)
        if alone:
            found[f"{stem}-no-{number:02d}"] = varied(name, workers, (3.0,) * 3, exchange=False)
    return found


def replays(milliseconds: float, rounds: int = ROUNDS, **changes: object) -> dict[str, CollectivesRecord]:
    return {f"replay-{number}": replay(milliseconds, number, **changes) for number in range(1, rounds + 1)}


def traced(milliseconds: float, under_way: tuple[float, ...], rounds: int = ROUNDS) -> dict[str, CollectivesRecord]:
    """Replays of one trace, which told these milliseconds."""
    about = tuple(each / 1000 for each in under_way)
    return {
        f"replay-{number}": replay(
            milliseconds, number, replayed=replayed(f"amber_ring-2w-{number:02d}", under_way=about)
        )
        for number in range(1, rounds + 1)
    }


def table(
    records: dict[str, Record], sent: dict[str, CollectivesRecord], plan: pd.DataFrame | None = None
) -> list[Exchange]:
    return exchanges_table(summaries.launches(records), sent, cells_and_steps(records, plan)[1])


def section(records: dict[str, Record], sent: dict[str, CollectivesRecord]) -> list[dict]:
    return exchanges.section(Material(Results(Path(), records, None, replays=sent)))


def lists(blocks: list[dict]) -> list[list[str]]:
    return [block["items"] for block in blocks if block["kind"] == "items"]


def rows(blocks: list[dict]) -> list[dict[str, str]]:
    """The rows of the only table."""
    [table] = [block for block in blocks if block["kind"] == "table"]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def times(blocks: list[dict]) -> list[str]:
    """What the step shows, its exchange alone, what is left over, n, what is under way, and which that is."""
    [row] = rows(blocks)
    return [*row.values()][5:]


def test_a_step_that_shows_more_than_its_messages_take_alone_meets_contention():
    [row] = table(steps(1.9), replays(1.2))
    assert row.verdict == "contention"
    assert [each.median for each in (row.exposed, row.replay, row.leftover)] == pytest.approx(
        [0.001925, 0.0012, 0.000725]
    )
    assert (row.leftover.low, row.leftover.high) == pytest.approx((0.0007, 0.00075))
    blocks = section(steps(1.9), replays(1.2))
    assert [rows(blocks)[0][name] for name in ("strategy", "workers")] == ["amber_ring", "2"]
    assert times(blocks) == [
        *["1.93\n(1.90 to 1.95)", "1.20\n(1.20 to 1.20)", "0.725\n(0.700 to 0.750)"],
        *["6", DASH, "contention"],
    ]


def test_a_step_that_shows_less_than_its_messages_take_alone_overlaps():
    sent = replays(2.0, messages=3)
    [row] = table(steps(1.2), sent)
    assert (row.verdict, {*row.messages}) == ("overlap", {3})
    assert times(section(steps(1.2), sent))[2:] == [
        f"{MINUS}0.775\n({MINUS}0.800 to {MINUS}0.750)",
        *("6", DASH, "overlap"),
    ]


def test_an_interval_around_zero_can_not_tell():
    assert [row.verdict for row in table(steps(1.2), replays(1.22))] == ["can't tell"]


def test_below_six_rounds_nothing_is_sure_however_large_it_is():
    blocks = section(steps(9.0, 5), traced(1.1, (9.9,), 5))
    assert times(blocks) == ["9.02", "1.10", "7.92", "5", "9.90 (n = 1)", "too few rounds"]
    assert "No interval is given for fewer than 6 rounds or launches." in blocks[-1]["notes"]


def test_a_step_that_was_not_measured_without_exchange_leaves_nothing_to_tell():
    records, sent = steps(1.9, alone=False), replays(1.2)
    [row] = table(records, sent)
    assert (row.verdict, row.exposed, row.leftover) == ("no shared round", None, None)
    assert times(section(records, sent)) == [DASH, "1.20\n(1.20 to 1.20)", DASH, "6", DASH, "no shared round"]


def test_a_replay_is_set_against_the_step_of_its_own_round():
    records = steps(0.0, 3)
    for number in (1, 2, 3):
        stem = f"amber_ring-2w-{number:02d}"
        records[stem] = make_record("amber_ring", 2, (3.0 + number,) * 3)
    sent = {f"{number}": replay(number - 0.25, number) for number in (3, 1, 2)}
    assert [row.leftover.median for row in table(records, sent)] == pytest.approx([0.00025])
    # By the plan the third round is the first, and another one has no replay.
    plan = pd.DataFrame({"launch": [*records], "repetition": [7, 7, 2, 2, 1, 1]})
    [row] = table(records, sent, plan)
    assert (row.exposed.n, row.leftover.n) == (3, 2)
    # 3 ms less 0.75, and 2 ms less 1.75.
    assert row.leftover.median == pytest.approx(0.00125)


def test_all_replays_of_one_trace_count_its_steps_once():
    [row] = table(steps(1.9), traced(1.2, (0.5, 2.6, 2.7)))
    assert (row.under_way_seconds, row.under_way_steps) == (pytest.approx(0.0026), 3)
    [row] = table(steps(1.9), replays(1.2))
    assert math.isnan(row.under_way_seconds)


def test_under_way_is_explained_where_a_trace_tells_it_alone():
    assert "Under way" not in str(lists(section(steps(1.9), replays(1.2)))[0])
    assert "Under way" in str(lists(section(steps(1.9), traced(1.2, (2.6,))))[0])


def test_replays_that_were_refused_are_listed_once_with_their_reasons():
    other = replay(1.0, 2, cells=[Cell(collective=STEP, size_bytes=8, status="unsupported", reason="No such size.")])
    sent = {"1": refused("It copies."), "2": other, "3": refused("It copies."), "4": refused("It ended.", "failed")}
    assert lists(section(steps(1.9), sent)) == [
        [
            "amber_ring with 2 workers (1 launch): No such size.",
            "amber_threads with 2 workers (2 launches): It copies.",
            "amber_threads with 2 workers (1 launch): It ended.",
        ]
    ]


def test_a_replay_whose_step_was_not_measured_is_listed():
    [reasons] = lists(section(steps(1.9), {"1": replay(1.0, replayed=replayed("amber_ring-2w-77"))}))
    assert reasons == [
        "amber_ring with 2 workers (1 launch): its launch amber_ring-2w-77 of the whole step wasn't measured."
    ]


def test_times_of_ranks_on_several_hosts_are_not_taken_in_one_clock():
    hosts = over_hosts().hosts
    assert "several hosts" in lists(section(steps(1.9), {"1": replay(1.0, hosts=hosts)}))[0][0]


def test_without_replays_nothing_is_said():
    assert section(steps(1.9), {}) == []


def test_without_any_launch_the_reasons_are_said():
    assert lists(section({}, {"1": refused("It copies.")})) == [["amber_threads with 2 workers (1 launch): It copies."]]


def test_what_the_replay_sent_stands_beside_what_the_step_sent():
    sent = replays(1.2)
    cells = {stem: [changed(record.cells[0], sent_bytes=1.2e6)] for stem, record in sent.items()}
    sent = {stem: changed(record, cells=cells[stem]) for stem, record in sent.items()}
    whole = {stem: changed(record, wire_bytes_per_step=1.25e6) for stem, record in steps(1.9).items()}
    [row] = table(whole, sent)
    assert (row.sent_bytes, row.step_sent_bytes) == (1.2e6, 1.25e6)
    [line] = rows(section(whole, sent))
    assert [line[f"MB sent,\n{what}"] for what in ("replay", "step")] == ["1.20", "1.25"]


def test_more_threads_than_cores_are_marked():
    sent = {f"{n}": replay(1.2, n, replayed=replayed(f"amber_ring-4w-{n:02d}"), world_size=4) for n in range(1, 7)}
    blocks = section(steps(1.9, workers=4), sent)
    assert [*rows(blocks)[0].values()][:5] == ["amber_ring", "4†", "1", DASH, DASH]
    assert blocks[-1]["notes"][1].startswith("The library amber sent what was told by a tracer.")
    assert any(note.startswith("†") for note in blocks[-1]["notes"])


def test_messages_that_differ_between_launches_have_their_span():
    sent = replays(1.2, 5) | {"last": replay(1.2, 6, messages=2)}
    assert rows(section(steps(1.9), sent))[0]["messages\nof a step"] == "1 to 2"


def test_pdf_and_page_have_the_section(tmp_path):
    folder = write_all(tmp_path, steps(1.9) | named(make_record("amber_single")))
    (folder / "replays").mkdir()
    for stem, record in (traced(1.2, (2.6,)) | {"refused": refused("It has *no* #messages.")}).items():
        write_record(folder / "replays" / f"{stem}.json", record)
    results = read_results(folder)
    parts = [heading("Tables"), *exchanges.section(Material(results))]
    content, _ = shell.compose("", results.started_at, parts)
    assert table_under(content["blocks"], HEADING)["rows"][0][:3] == ["amber_ring", "2", "1"]
    assert pdf.typeset(results.started_at, content, {}).startswith(b"%PDF-")
    page = web_page.build(content, {}).decode()
    assert HEADING in page
    assert "It has *no* #messages." in page
