"""No strategy of this suite is called wrong when its loop reports to the referee as a user's own does."""

import dataclasses
import os
import re

import pytest

from common.check import marks
from common.check.marks import mark
from common.check.world import Assignment
from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.arguments import to_arguments
from common.errors import UserError
from common.files import cache_folder
from common.paths import ROOT

PROGRAM = """
import runpy, sys
sys.path.insert(0, {root!r})
import numpy as np
from common.check import assignment
from common.measurement.run import Run

def observe(run, losses, rows=0, steps=1, own=Run.observe):
    own(run, losses, rows, steps)
    value = losses() if callable(losses) else losses
    means = [value if value is None else float(np.mean([float(each) for each in np.ravel(value)]))]
    if {is_whole}:
        # A pipeline's first stage sees no loss.
        means = [each for each in run.world.all_gather(means[0]) if each is not None]
    assignment.step(run._state(), means[0])

Run.observe = observe
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Starts a strategy's script, whose rows and weights are the assignment's by the same seed."""

STRATEGIES = {name: each for name, each in catalogue.strategies().items() if each.work is not Work.COORDINATED}
"""Of a coordinator's workers only the coordinator has rows, so no process of theirs could report a loss."""


@pytest.mark.grid
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_of_this_suite_is_right(name, tmp_path, monkeypatch):
    strategy = STRATEGIES[name]
    workers, is_whole = strategy.most_workers or 2, strategy.work.is_divided
    assignment = Assignment(seed=7, rows="whole" if is_whole else "share", deadline_seconds=120.0)
    try:
        strategy.refuse(assignment.task(), strategy.options(), workers, 0)
    except UserError:
        # What computes another decay, by its library, says so.
        assignment = dataclasses.replace(assignment, momentum=0.0, weight_decay=0.0)
    task = dataclasses.replace(assignment.task(), workers=workers, record=tmp_path / "record.json")
    argv = [str(ROOT / strategy.script), *to_arguments(task, strategy.options())]
    path = tmp_path / "training.py"
    path.write_text(PROGRAM.format(root=str(ROOT), is_whole=is_whole, argv=argv), encoding="utf-8")
    monkeypatch.setattr(marks, "like_of", lambda source, launcher: (strategy, strategy.launcher.name))
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.dirname(cache_folder()))
    found = mark(path, workers, assignment, tmp_path / "log")
    log = re.sub(r"\n+", "\n", (tmp_path / "log").read_text(encoding="utf-8", errors="replace"))
    assert (found.verdict, found.sentences) == ("right", ()), log[-3000:]
