"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time."""

import pytest

from common.declarations.catalogue import strategies
from common.paths import ROOT
from common.records.certificate import DEVIATES
from tests.contract.cases import WORLDS, broken, case_of, stopped
from tests.contract.worlds import controls_path, own_controls


def test_every_module_of_controls_belongs_to_a_folder_whose_strategies_have_some():
    modules = {path for path in (ROOT / "tests" / "controls").glob("*.py") if path.stem not in ("generic", "several")}
    assert modules == {controls_path(strategy) for name, strategy in strategies().items() if own_controls(name)}


@pytest.mark.parametrize(("strategy", "control"), [(name, control) for name in WORLDS for control in broken(name)])
def test_what_is_broken_is_caught(strategy, control, trained, comparison_of):
    launched = trained(strategy, control)
    comparison = comparison_of(launched, case_of(strategy, control, launched.folder).task)
    assert comparison.verdict == DEVIATES
    assert comparison.note


@pytest.mark.parametrize(("strategy", "case"), [(name, case) for name in WORLDS for case in stopped(name)])
def test_replicas_that_start_apart_or_diverge_stop_the_run_after_that_step(strategy, case, trained):
    launched = trained(strategy, case)
    said = (launched.folder / f"{case}.failed").read_text()
    step = {"replicas_apart": 0, "replicas_diverge": 50}[case]
    assert said.startswith(f"After step {step} the parameter layer0.weight of rank 1 differs from rank 0's: ")
    assert launched.record is None
