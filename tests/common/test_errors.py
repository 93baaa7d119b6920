"""common/errors.py: a user's error is one line and an exit status, a bug keeps its traceback."""

import sys
from io import BytesIO, TextIOWrapper

import pytest

from common import errors
from common.errors import FAILED_STATUS, REFUSED_STATUS, LaunchFailedError, UserError, exit_with_one_line


def test_a_user_error_is_one_line_and_an_exit_status_and_any_other_a_bug(capsys):
    def fail(error):
        raise error

    with pytest.raises(SystemExit) as caught:
        exit_with_one_line(lambda: fail(UserError("--batch 0: give a whole number above 0.")))
    assert caught.value.code == REFUSED_STATUS == 2
    assert capsys.readouterr() == ("", "lockstep: --batch 0: give a whole number above 0.\n")
    with pytest.raises(ZeroDivisionError, match="a bug"):
        exit_with_one_line(lambda: fail(ZeroDivisionError("a bug")))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("error", "speaker"), [(UserError, "rank 1: "), (UserError, ""), (LaunchFailedError, "")])
def test_a_launch_that_trains_can_only_fail_and_says_which_rank_it_was(error, speaker, capsys, monkeypatch):
    def train():
        errors.speaker = speaker
        raise error("the disk is full.")

    monkeypatch.setattr(errors, "has_failed", False)
    with pytest.raises(SystemExit) as caught:
        exit_with_one_line(train)
    assert caught.value.code == FAILED_STATUS == 1
    assert capsys.readouterr().err == f"lockstep: failed: {speaker}the disk is full.\n"
    assert errors.has_failed


def test_what_the_output_cannot_encode_is_replaced(monkeypatch):
    output = TextIOWrapper(BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", output)
    exit_with_one_line(lambda: print("12 µs ✓"))
    assert output.buffer.getvalue() == b"12 ?s ?\n"
