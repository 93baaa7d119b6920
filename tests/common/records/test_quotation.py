"""common/records/quotation.py: what a script says makes it distributed, with its lines, of made-up scripts and of
ours."""

import pytest

from common.contract.work import Work
from common.declarations.catalogue import strategies
from common.paths import ROOT
from common.records import quotation
from common.records.quotation import MARK, distributing_lines

SCRIPT = f"""\
def train(run):
    model = build()
    # 3. Wrap it. {MARK}: gradients are
    # averaged in every backward.
    model = Wrapper(
        model,
        pieces=2,
    )
    trainer = Trainer(
        # {MARK}.
        strategy=Strategy(),
        logger=False,
    )
    for part in (
        model.parameters()
    ):  # {MARK} isn't said here.
        pass
    # {MARK}.
    for part in model.pieces(
        2
    ):
        # Its own comment.
        meet(part)
    text = "{MARK}"


# {MARK}, without anything below it.
"""


@pytest.fixture
def quoted(tmp_path, monkeypatch):
    """A function that quotes a script of this text."""
    monkeypatch.setattr(quotation, "ROOT", tmp_path)

    def of(text):
        (tmp_path / "script.py").write_text(text)
        distributing_lines.cache_clear()
        return [(each.line, each.code) for each in distributing_lines("script.py")]

    yield of
    distributing_lines.cache_clear()


def test_a_comment_is_quoted_with_the_whole_statement_the_argument_or_the_header_below_it(quoted):
    wrapped = f"# 3. Wrap it. {MARK}: gradients are\n# averaged in every backward.\n"
    wrapped += "model = Wrapper(\n    model,\n    pieces=2,\n)"
    assert quoted(SCRIPT) == [
        (3, wrapped),
        (10, f"# {MARK}.\nstrategy=Strategy(),"),
        (18, f"# {MARK}.\nfor part in model.pieces(\n    2\n):"),
    ]


@pytest.mark.parametrize("text", ["meet()\n", f"# {MARK}.\nmeet(\n", f"# {MARK}.\n\nmeet()\n", ""])
def test_nothing_is_quoted_where_nothing_is_said_or_nothing_can_be_read(quoted, text):
    assert quoted(text) == []
    assert distributing_lines("numpy_impl/nowhere.py") == ()


def test_every_strategy_that_distributes_quotes_the_lines_of_its_own_script_that_do():
    for strategy in strategies().values():
        lines = [line.strip() for line in (ROOT / strategy.script).read_text().splitlines()]
        quotations = distributing_lines(strategy.script)
        assert bool(quotations) == (strategy.work is not Work.UNDISTRIBUTED), strategy.name
        for each in quotations:
            quoted = [line.strip() for line in each.code.splitlines()]
            assert MARK in quoted[0]
            assert any(not line.startswith("#") for line in quoted)
            assert lines[each.line - 1 :][: len(quoted)] == quoted
