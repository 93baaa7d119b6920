"""The first page: the rows of its ranking table, which PDF, page and terminal have, and answers that are true."""

import math
import re
import shutil
import subprocess

import pandas as pd
import pytest

from common.observations.answers import EQUIVALENT, FASTEST, NOT_RANKED, SLOWER, UNDECIDED
from common.records import calibration
from common.records.certificate import DEVIATES
from common.records.manifest import Differences
from common.records.training import Record
from reports.render import shell
from reports.tables.results import Origin
from reports.tables.standings import MOST_ROWS, of_regime
from reports.words import first_page
from tests.reports.materials import CALIBRATED, material_of
from tests.reports.pieces import answers, blanks_for_all, first
from tests.reports.records import in_rounds, make_record, mistaken, task_of, unfinished, varied


def rows_of(*records: Record) -> pd.DataFrame:
    material = material_of(*records)
    return of_regime(material, material.regimes[0])


def standing(strategy: str = "amber_ring", verdict: str = SLOWER, **more) -> dict:
    facts = {"workers": 2, "n": 6, "samples_per_second": 1234.0, "relative": 1.5, "low": 1.25, "high": 1.75}
    facts |= {"base": "amber_single", "base_samples_per_second": 949.2, "base_n": 6, "speed_up": 1.3}
    facts |= {"part": "exchange", "share": 0.64, "is_limit": True, "certificate": "follows", "reason": ""}
    return facts | {"strategy": strategy, "verdict": verdict} | more


def headline(*rows: dict) -> str:
    return first_page.headline(pd.DataFrame(rows))


LEADER = standing("amber_ring", FASTEST, relative=1.0, low=math.nan, high=math.nan)


def test_a_row_has_the_rate_the_ratio_to_the_fastest_and_the_speed_up_worked_out_by_hand():
    rounds = [(3.0, 6.0), (3.3, 6.93), (3.6, 7.2), (3.0, 6.3), (3.3, 6.6), (3.6, 7.56)]
    fast = [make_record("amber_ring", 2, (each,) * 3) for each, _ in rounds]
    slow = [make_record("amber_library", 2, (each,) * 3) for _, each in rounds]
    first, second = rows_of(make_record("amber_single"), *fast, *slow).itertuples()
    assert (first.strategy, first.verdict, first.relative, first.workers) == ("amber_ring", "fastest", 1.0, 2)
    # 128 rows in a median step of 3.3 ms, beside 64 in 2 ms.
    assert first.samples_per_second == pytest.approx(128 / 0.0033)
    assert first.speed_up == pytest.approx(128 / 0.0033 / 32_000)
    assert (second.strategy, second.verdict, second.base) == ("amber_library", "slower", "amber_single")
    assert second.relative == pytest.approx(math.sqrt(2 * 2.1))
    assert second.low < 2.0 < second.relative < 2.1 < second.high
    assert second.low * second.high == pytest.approx(second.relative**2)
    assert {first.certificate, second.certificate} == {"follows"}


def test_the_largest_tested_number_of_workers_is_ranked():
    records = [*in_rounds("amber_ring", 2.0, 1), *in_rounds("amber_library", 4.0, 1)]
    few = [make_record("amber_ring", 2), make_record("amber_library", 2)]
    assert {*rows_of(*records, *few)["workers"]} == {1}
    untested, alone = rows_of(*few), rows_of(*in_rounds("amber_ring", 3.0))
    assert ({*untested["workers"]}, untested["relative"].min(), {*alone["verdict"]}) == ({2}, 1.0, {UNDECIDED})
    noisy = {"a": (3.0, 4.0, 5.0, 4.0, 3.0, 5.0), "b": (4.0, 5.0, 3.0, 5.0, 4.0, 3.0)}
    alike = rows_of(*(make_record(name, 2, (each,) * 3) for name, times in noisy.items() for each in times))
    assert {*alike["verdict"]} == {UNDECIDED}


def test_who_shares_too_few_rounds_with_one_strategy_is_not_called_the_fastest():
    numbers = {"a": range(1, 7), "b": range(1, 10), "c": range(4, 10)}
    records = [
        each for place, name in enumerate(numbers, 1) for each in in_rounds(name, 2.0 * place, n=len(numbers[name]))
    ]
    material = material_of(*records, rounds=[number for name in numbers for number in numbers[name]])
    rows = of_regime(material, material.regimes[0])
    assert rows[["strategy", "verdict"]].to_numpy().tolist() == [["a", UNDECIDED], ["b", SLOWER], ["c", UNDECIDED]]
    assert first_page.headline(rows).startswith(
        "No strategy is shown to be the fastest with 2 workers: a can't be told from c"
    )


def test_who_is_not_ranked_stands_last_however_fast():
    rounded = [varied("amber_ring", 2, (each,) * 3, half_precision=True) for each in (1.0, 1.1, 1.2, 1.0, 1.1, 1.2)]
    wrong = [mistaken(each) for each in in_rounds("amber_sharded", 2.0)]
    rows = rows_of(*in_rounds("amber_library", 5.0), *wrong, *in_rounds("amber_ring", 4.0), *rounded)
    assert rows["strategy"].tolist() == ["amber_ring", "amber_library", rounded[0].name, "amber_sharded"]
    assert rows["verdict"].tolist() == [FASTEST, SLOWER, NOT_RANKED, NOT_RANKED]
    assert rows["reason"].tolist() == ["", "", "for computing other maths", "for not following the oracle"]


@pytest.mark.parametrize(
    ("verdicts", "speed_up", "sentence"),
    [
        ([FASTEST, SLOWER, EQUIVALENT], 1.3, "Take amber_ring with 2 workers: equivalent to a2 at 95 % confidence, "),
        ([FASTEST, SLOWER, NOT_RANKED], 1.3, "Take amber_ring with 2 workers: the fastest of 2 at 95 % confidence, "),
        ([FASTEST, SLOWER], 0.8, "Don't distribute. amber_ring with 2 workers: the fastest of 2 at 95 % confidence, "),
        (
            *([UNDECIDED, UNDECIDED], 1.3),
            "No strategy is shown to be the fastest with 2 workers: amber_ring can't be told from a1, ",
        ),
        ([UNDECIDED], 1.3, "No test ranks the strategies with 2 workers: amber_ring had the highest rate, "),
    ],
)
def test_the_sentence_says_what_to_take_and_how_sure_that_is(verdicts, speed_up, sentence):
    _, *others = (standing(f"a{place}", verdict) for place, verdict in enumerate(verdicts))
    gain = f"{speed_up:.2f} times as fast as one worker of amber_single by the medians."
    assert headline(LEADER | {"verdict": verdicts[0], "speed_up": speed_up}, *others) == sentence + gain


def test_of_many_strategies_the_first_stand_in_the_table_with_what_speed_ups_are_over():
    table = first_page.ranking_table(pd.DataFrame([LEADER] * (MOST_ROWS + 1)))
    assert len(table["rows"]) == MOST_ROWS
    # A speed-up has the rate and the n of its base beside it.
    assert table["notes"][0].endswith(" Speed-up: over one worker of amber_single (949 samples/s, n = 6).")
    assert table["notes"][-1].startswith(f"The fastest {MOST_ROWS} of {MOST_ROWS + 1};")


def test_other_configurations_have_a_row_each_with_their_fastest():
    [table] = first_page.others({"digits strong": pd.DataFrame([LEADER, standing("a0")])})
    assert table["rows"] == [["digits strong", "2", "amber_ring", "1,234", "1.30", "follows", "fastest"]]
    [table] = first_page.others({f"r{index}": pd.DataFrame([LEADER]) for index in range(6)})
    assert (len(table["rows"]), len(table["notes"])) == (4, 1)


@pytest.mark.parametrize("seed", [2, 4])
def test_of_several_verdicts_of_a_strategy_the_gravest_is_shown(seed):
    wrong = mistaken(make_record("amber_ring", 2, task=task_of(2, seed=seed)))
    assert {*rows_of(wrong, *in_rounds("amber_ring", 3.0))["certificate"]} == {DEVIATES}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_terminal_shows_each_row_and_no_letters_that_it_cannot(encoding):
    rows = pd.DataFrame([LEADER | {"share": 1.7}, standing("a\x1b[31m\nb\u2603")])
    sentence, _, head, first, second = first_page.in_text(rows, encoding).splitlines()
    assert sentence == headline(LEADER, standing())
    assert re.split(r"\s{2,}", head) == first_page.COLUMNS
    # A part may be longer than the median step.
    numbers = ["amber_ring", "1,234", "1.00", "-", "1.30", "exchange over 100 %", "follows", "fastest"]
    assert re.split(r"\s{2,}", first) == numbers
    assert second.startswith(f"a?[31m?b{'?' if encoding != 'utf-8' else chr(0x2603)} ")


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="The text of a PDF is read by pdftotext, of poppler-utils.")
def test_the_pdf_has_every_cell_of_the_table_whatever_a_name_looks_like(tmp_path):
    single, strange = [make_record("amber_single", 1, (2.0,) * 3)], in_rounds("<b>$x$", 5.0)
    parts = first_page.section(material_of(*single, *in_rounds("amber_ring", 3.0), *strange))
    content, drawings = shell.compose("", [], parts)
    (tmp_path / "a.pdf").write_bytes(shell.typeset(content, blanks_for_all(drawings)))
    read = ["pdftotext", "-layout", "-l", "1", str(tmp_path / "a.pdf"), "-"]
    page = " ".join(subprocess.run(read, capture_output=True, text=True, check=True, timeout=30).stdout.split())
    rows = first(content["blocks"], "table")["rows"]
    assert [row[0] for row in rows] == ["amber_ring", "<b>$x$"]
    assert all(" ".join(row) in page for row in rows)


def figure(*records: Record) -> dict:
    return first(first_page.section(material_of(*records)), "figure")


def ending(tmp_path, *records: Record, **facts: object) -> dict[str, list[str]]:
    return answers(first_page.section(material_of(*records, folder=tmp_path, **facts)))


def test_the_sentence_and_the_table_come_first_and_the_figure_says_what_is_oversubscribed():
    records = [make_record("amber_ring", 2), make_record("amber_ring", 4)]
    blocks = first_page.section(material_of(*records))
    assert [block["kind"] for block in blocks] == ["heading", "headline", "text", "table", "figure", "answers"]
    assert "more threads" not in blocks[4]["caption"]
    assert "\N{DAGGER} more threads than cores." in figure(records[1])["caption"]


def test_the_figure_has_the_strategies_of_the_table_and_their_bases_with_one_worker():
    records = [make_record("amber_ring", workers) for workers in (1, 2)]
    shown = figure(make_record("amber_single"), make_record("cobalt_single"), *records)
    [cells, launches, _] = shown["draw"].args
    assert [*zip(cells["strategy"], cells["workers"], strict=True)] == [("amber_ring", 2), ("amber_single", 1)]
    assert len(launches) == 2
    assert "Pale: one worker of a base." in shown["caption"]


def test_the_last_lines_are_three_on_certainty_and_two_commands(tmp_path):
    records = [*in_rounds("amber_ring", 3.0), *in_rounds("amber_library", 4.0)]
    told = ending(tmp_path, *records)
    assert ([*told], len(told["How sure"])) == (["How sure", "What next"], 3)
    trains = "nox -s amber_ring: trains with it; -- --help lists its options."
    calibrates = "nox -s calibrate tells whether these tests keep their promises on this machine."
    assert told["What next"] == [calibrates, trains]
    calibration.write(tmp_path / calibration.FILE, CALIBRATED)
    assert ending(tmp_path, *records)["What next"] == [trains]
    few = ending(tmp_path, *records[:5], *records[6:11])
    assert few["What next"][0].startswith("nox -s compare -- --repetitions 6: ")


def test_what_is_missing_which_files_differ_and_how_many_cautions_there_are_stand_on_the_first_page_as_well(tmp_path):
    names = ("amber_library", "amber_sharded", "amber_ring")
    refused = [unfinished("unsupported", "It has no ring: install one.", name) for name in names]
    launch = make_record("amber_ring", 2, git_commit="0123+changes")
    changed = Differences(exists=True, changed=("amber_ring-0.json",))
    facts = {"origin": Origin(differences=changed), "left_out": {"teal_amber": 11.2}}
    sure = ending(tmp_path, launch, *refused, **facts)["How sure"]
    assert sure[0] == "amber_ring-0.json differs from what its launch left."
    assert sure[-3].startswith("4 launches were recorded, without a plan: 1 ok, 3 unsupported, 0 failed, 0 not run.")
    assert sure[-3].endswith("Cautions, in \u201cHow sure\u201d: 2.")
    assert sure[-2] == "Not compared: amber_library and amber_sharded. It has no ring: install one."
    assert sure[-1] == "The time didn't suffice for teal_amber (--minutes 12 would do)."
