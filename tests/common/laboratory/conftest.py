"""What the tests of the laboratory share: an experiment that is run in the test's own process."""

import contextlib
import sys

import pytest

from common.measurement import machine
from common.sessions import experiment


@pytest.fixture
def run_here(monkeypatch, tmp_path):
    """A function that runs an experiment with these options as a user would, and returns its exit status.

    Its report is `out.pdf`, in the test's folder.
    """

    def run(experiment_to_run, results, *options):
        outputs = ["--results", str(results), "--out", str(tmp_path / "out.pdf")]
        monkeypatch.setattr(sys, "argv", [experiment_to_run.name, *outputs, *options])
        # Signals would go on ending the tests themselves in this way, and nothing here is a measurement.
        monkeypatch.setattr("signal.signal", lambda *_: None)
        monkeypatch.setattr(machine, "alone", contextlib.nullcontext)
        try:
            experiment.run(experiment_to_run)
        except SystemExit as ended:
            return ended.code
        return 0

    return run
