"""common/launching/virtual_hosts/__main__.py: a command on the head of a virtual cluster, from the command line."""

import subprocess
import sys

import pytest

from common.errors import REFUSED_STATUS, UserError
from common.launching.virtual_hosts.__main__ import main
from common.paths import ROOT


def test_a_command_runs_on_the_head_and_its_status_is_passed_on():
    command = ["sh", "-c", 'hostname; echo "$0"; exit 7', "--"]
    module = [sys.executable, "-m", "common.launching.virtual_hosts", "--count", "1", "--bandwidth", "100mbit"]
    result = subprocess.run(
        [*module, "--", *command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if result.returncode == REFUSED_STATUS:
        pytest.skip(f"No test hosts: {result.stderr.strip().removeprefix('lockstep: No virtual hosts: ')}")
    assert (result.returncode, result.stdout.split(), result.stderr) == (7, ["head", "--"], "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--count", "2"], "There is no command to run"),
        (["--bandwidth", "1gbps", "--", "true"], "would be bytes per second"),
        (["--delay", "1", "--", "true"], "isn't a time"),
        (["--count", "0", "--", "true"], "0 virtual hosts"),
        (["--cores-per-host", "0", "--", "true"], "0 cores per host"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, sentence, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["virtual_hosts", *words])
    with pytest.raises(UserError, match=sentence):
        main()
