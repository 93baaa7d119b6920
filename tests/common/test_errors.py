"""common/errors.py: a user's error is one line and an exit status, a bug keeps its traceback."""

import pytest

from common.errors import REFUSED_STATUS, UserError, exit_with_one_line


def test_a_user_error_is_one_line_on_standard_error_and_an_exit_status(capsys):
    def refuse():
        raise UserError("--batch 0: give a whole number above 0.")

    with pytest.raises(SystemExit) as caught:
        exit_with_one_line(refuse)
    assert caught.value.code == REFUSED_STATUS == 2
    output = capsys.readouterr()
    assert output.err == "lockstep: --batch 0: give a whole number above 0.\n"
    assert output.out == ""


def test_any_other_exception_is_a_bug_and_passes_through(capsys):
    def fail():
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        exit_with_one_line(fail)
    assert capsys.readouterr().err == ""


def test_a_program_that_succeeds_returns_and_prints_nothing(capsys):
    calls = []
    exit_with_one_line(lambda: calls.append("main"))
    assert calls == ["main"]
    assert capsys.readouterr() == ("", "")
