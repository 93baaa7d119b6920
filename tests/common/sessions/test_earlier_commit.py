"""A commit whose records are of the version before is launched beside this checkout, as `--against-commit` does it."""

import dataclasses
import subprocess

import pytest

from common.contract.task import PRESETS
from common.declarations import catalogue
from common.launching.planned import PlannedLaunch
from common.paths import ROOT
from common.sessions import regression
from common.sessions.other_checkout import find, other_checkout

COMMIT = "23154e5"
"""Its records are of an earlier schema version."""


def test_an_earlier_commit_is_launched_by_its_own_launcher_and_its_record_is_read(tmp_path):
    if subprocess.run(["git", "-C", str(ROOT), "cat-file", "-e", COMMIT], capture_output=True).returncode:
        pytest.skip(f"No commit {COMMIT}: this checkout has no history as long")
    strategy = next(each for each in catalogue.strategies().values() if each.most_workers == 1)
    task = dataclasses.replace(PRESETS["digits"], steps=40, warmup_steps=10, window_steps=10, workers=1)
    launch = PlannedLaunch(strategy, 1, "throughput", 1, task, strategy.options())
    against = find(COMMIT, tolerance=0.05)
    with other_checkout(against, tmp_path) as checkout:
        here, there = regression.run_both(launch, tmp_path, checkout)
    assert (here.status, there.status) == ("ok", "ok"), (here.reason, there.reason)
    assert there.git_commit.startswith(COMMIT)
    assert [row.n for row in regression.changes({"1": here}, {"1": there}, against)] == [1]
