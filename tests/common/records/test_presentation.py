"""common/records/presentation.py: titles, colours, source lines and formulas, once for all launches of a session."""

import dataclasses
import json

import pytest

from common.declarations import catalogue
from common.declarations.library import Algorithm, Library
from common.declarations.strategy import PROCESS, Traffic
from common.records.files import read_record, write_record
from common.records.header import PRESENTATION, Host
from common.records.presentation import FILE, Presentation, of_catalogue, read_presented, write_presentation
from common.records.quotation import Quotation
from common.records.trace import Message
from tests.changes import changed
from tests.common.laboratory import collective_records
from tests.common.records import matrix_records
from tests.reports.records import make_record

COLORS = ["#111111", "#555555", "#999999"]
CODE = "# The line that makes it distributed.\nmeet()"


def traffic(parameter_bytes, workers, options, hosts=1):
    if hosts > 1:
        return Traffic(None, "from host to host")
    return Traffic(None, f"{options.codec} of three", "A paper, 1999")


def tree(formula, from_bytes=0):
    return Algorithm("tree", None, formula, f"{formula} in a book", from_bytes)


@pytest.fixture
def declared(declare, catalogue_of, tmp_path, monkeypatch):
    """The only strategy of a checkout, which has a library and a way to multiply as well."""
    (tmp_path / "loop.py").write_text("wait()\n# The line that makes it distributed.\nmeet()\n")
    strategy = declare(script=f"{tmp_path}/loop.py", traffic=traffic, variants=({"codec": "fp16"},))
    catalogue_of(strategy)
    about = {"script": "none.py", "family": strategy.family, "launcher": PROCESS}
    algorithms = {"all_reduce": (tree("small"), tree("large", 1024)), "broadcast": (tree("cast"),)}
    library = Library(name="threads", title="Threads of NumPy", collectives=algorithms, **about)
    monkeypatch.setattr(catalogue, "libraries", lambda: {"threads": library})
    monkeypatch.setattr(catalogue, "ways", lambda: {matrix_records.SHARED.name: matrix_records.SHARED})
    return strategy


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "session" / "replays").mkdir(parents=True)
    return tmp_path / "session"


@pytest.fixture
def record(declared):
    without = {"colors": [], "formula": "", "formula_source": ""}
    return make_record("numpy_threads", 2, family="NumPy", script=declared.script, **without)


@pytest.fixture
def presented(folder):
    """A function that writes a record into the folder, and returns it as reports read it."""

    def read(record):
        write_record(folder / "one.json", record)
        return read_presented(folder, type(record))["one"]

    return read


def test_a_session_keeps_what_reports_show_of_every_program_and_its_launches_nothing_of_that(folder, record, declared):
    write_record(folder / "one.json", record)
    assert not {*PRESENTATION} & {*json.loads((folder / "one.json").read_text())}
    write_presentation(folder)
    kept = read_record(folder / FILE, Presentation)
    assert kept == of_catalogue()
    assert kept.colors == {"NumPy": COLORS}
    assert kept.titles == {"threads": "Threads of NumPy", "numpy_rows": "NumPy by rows"}
    assert kept.distributed_by == {declared.script: [Quotation(line=2, code=CODE)]}
    assert {*kept.formulas} == {"numpy_threads", "numpy_threads, fp16 codec, other maths"}


def test_a_launch_is_shown_by_its_session_or_else_by_this_checkout(folder, record, presented, declared, catalogue_of):
    shown = presented(record)
    assert (shown.colors, shown.distributed_by) == (COLORS, [Quotation(line=2, code=CODE)])
    assert (shown.formula, shown.formula_source) == ("none of three", "A paper, 1999")
    write_presentation(folder)
    for strategies in ([], [dataclasses.replace(declared, traffic=lambda *_: Traffic(None, "changed"))]):
        catalogue_of(*strategies)
        assert presented(record) == shown
    catalogue_of()
    write_presentation(folder)
    assert presented(record) == record
    catalogue_of(declared)
    assert presented(record) == shown


def test_the_formula_is_that_of_the_launchs_options_and_hosts(record, presented, declared):
    prefetched = changed(record, options={"prefetch": 3, "codec": "fp16"}, label="3 prefetch, fp16 codec, other maths")
    assert presented(prefetched).formula == "fp16 of three"
    hosts = [Host(name=name, workers=1) for name in ("one", "two")]
    assert presented(changed(record, hosts=hosts)).formula == "from host to host"
    assert presented(changed(record, options={"unheard": 3}, label="3 unheard")).formula == ""


def test_an_older_record_is_shown_by_what_it_holds_and_damage_of_the_sessions_file_is_refused(
    folder, record, presented, refusal
):
    (folder / FILE).write_text("{")
    assert str(folder / FILE) in refusal(lambda: presented(record))
    for field, value in {"colors": ["#abcdef"], "formula": "older"}.items():
        older = changed(record, **{field: value})
        assert presented(older) == older


def test_each_size_of_a_collective_has_the_formula_of_its_algorithm(declared, presented):
    messages = [Message(collective=name, size_bytes=2048) for name in ("all_reduce", "broadcast", "all_reduce")]
    unsupported = collective_records.cell(8, collective="gather", status="unsupported", algorithm="", formula="")
    step = collective_records.cell(6144, collective="step", messages=messages)
    cells = [collective_records.cell(8), collective_records.cell(1024), step, unsupported]
    shown = presented(collective_records.record(*cells, library="threads", colors=[])).cells
    assert [each.formula for each in shown] == ["small", "large", "large; cast", ""]
    assert shown[2].source == "large in a book; cast in a book"


def test_a_way_to_multiply_has_its_name_in_prose(declared, presented, monkeypatch):
    record = changed(matrix_records.record("alone", {8: 1.0}), way="numpy_rows", colors=[])
    assert (presented(record).title, presented(record).colors) == ("NumPy by rows", COLORS)
    monkeypatch.setattr(catalogue, "ways", dict)
    assert presented(record).title == "numpy_rows"
