"""common/records/quotation.py: what a script says makes it distributed, with its lines, of made-up scripts and of
ours."""

import pytest

from common.contract.work import Work
from common.declarations.catalogue import strategies
from common.records import quotation
from common.records.quotation import MARK, distributing_lines

SCRIPT = f"""\
def train(run):
    # 3. Wrap it. {MARK}: gradients are
    # averaged in every backward.
    model = Wrapper(
        model,
    )
    trainer = Trainer(
        # {MARK}.
        strategy=Strategy(),
        logger=False,
    )
    text = "{MARK}"  # {MARK} isn't said here.


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


def test_a_comment_is_quoted_with_the_whole_statement_or_the_argument_below_it(quoted):
    wrapped = f"# 3. Wrap it. {MARK}: gradients are\n# averaged in every backward.\nmodel = Wrapper(\n    model,\n)"
    assert quoted(SCRIPT) == [(2, wrapped), (8, f"# {MARK}.\nstrategy=Strategy(),")]


@pytest.mark.parametrize("text", ["meet()\n", f"# {MARK}.\nmeet(\n", f"# {MARK}.\n\nmeet()\n"])
def test_nothing_is_quoted_where_nothing_is_said_or_nothing_can_be_read(quoted, text):
    assert quoted(text) == []
    assert distributing_lines("numpy_impl/nowhere.py") == ()


def test_each_strategy_that_distributes_quotes_a_line_and_no_other():
    for strategy in strategies().values():
        distributes = strategy.work is not Work.UNDISTRIBUTED
        assert bool(distributing_lines(strategy.script)) is distributes, strategy.name
