"""common/launching/virtual_hosts/__main__.py: a command on the head of a virtual cluster, from the command line."""

import subprocess
import sys

import pytest

from common.errors import REFUSED_STATUS
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


def test_options_without_a_command_are_refused(monkeypatch, refusal):
    monkeypatch.setattr(sys, "argv", ["virtual_hosts", "--count", "2"])
    assert "There is no command to run" in refusal(main)
