"""common/launching/screen.py: the last thing on the screen is one sentence, and what hid it is in the log."""

import os

import pytest

from common.launching import exit_cause
from common.launching.screen import ErrorOutput

OURS = "lockstep: failed: rank 1: /data/weights can't be written (No space left on device): free some space."
PAGE = "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n"


def launch(log, *texts, status=1):
    """Have processes write these texts, one after the other, and the launch end with this status."""
    errors = ErrorOutput()
    with errors.stream() as stream:
        for text in texts:
            os.write(stream, text.encode())
    if status:
        errors.conclude("numpy_threads", exit_cause.read(status, 60.0, errors.text), log)
    else:
        errors.show_rest()


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        # Whoever loses the rank says so as well.
        (
            ["a warning\n", f"{OURS}\n", "lockstep: failed: rank 0 lost another worker\n", PAGE],
            f"a warning\n{OURS[:-1]} (all error output: {{log}}).\n",
        ),
        ([f"[1,0]<stderr>:{OURS}\n", PAGE], f"{OURS[:-1]} (all error output: {{log}}).\n"),
        # A page whose last line is open.
        ([PAGE, " "], f"{PAGE} \nlockstep: failed: numpy_threads ended with status 1 (all error output: {{log}}).\n"),
        (["lockstep: a batch of 63\n", PAGE], "lockstep: a batch of 63 (all error output: {log}).\n"),
    ],
)
def test_the_last_thing_on_the_screen_is_our_sentence_once_and_the_log_has_everything(texts, shown, tmp_path, capfd):
    log = tmp_path / "results" / "run.log"
    launch(log, *texts)
    assert capfd.readouterr().err == shown.format(log=log)
    assert log.read_text() == "".join(texts)


def test_where_nothing_but_our_sentences_was_printed_there_is_no_log(tmp_path, capfd):
    launch(tmp_path / "run.log", f"{OURS}\n", f"{OURS}\n")
    assert capfd.readouterr().err == f"{OURS}\n"
    assert not [*tmp_path.iterdir()]


def test_where_the_log_cannot_be_kept_the_page_comes_before_the_sentence(tmp_path, capfd):
    (tmp_path / "file").touch()
    launch(tmp_path / "file" / "run.log", f"{OURS}\n", PAGE)
    assert capfd.readouterr().err == f"{OURS}\n{PAGE}{OURS}\n"


def test_a_launch_that_goes_on_after_a_lost_worker_shows_everything(tmp_path, capfd):
    launch(tmp_path / "run.log", f"{OURS}\n", PAGE, status=0)
    assert capfd.readouterr().err == f"{OURS}\n{PAGE}"
