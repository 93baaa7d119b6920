"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time."""

import pytest

from common.declarations.catalogue import strategies
from common.paths import ROOT
from common.records.certificate import DEVIATES, FOLLOWS
from common.records.files import read_record
from common.records.training import Record
from tests.conftest import Launched
from tests.contract.cases import OVER_MPI, WORLDS, broken, case_of, stopped
from tests.contract.worlds import train_all


def test_every_module_of_controls_belongs_to_a_strategy():
    modules = {path.stem for path in (ROOT / "tests" / "controls").glob("*.py")} - {"generic", "several"}
    assert {name for name in modules if not name.startswith("broken_")} <= set(strategies())


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


@pytest.mark.grid
def test_a_sum_over_mpi_is_caught_too(comparison_of, tmp_path):
    names = {"first": True, OVER_MPI: False, "last": True}
    cases = [case_of("torch_sync_sgd", name, tmp_path, backend="mpi") for name in names]
    status, output = train_all(strategies()["torch_sync_sgd"], cases)
    assert status == 0, output
    for case, follows in zip(cases, names.values(), strict=True):
        record = read_record(case.task.record, Record)
        assert record.backend == "mpi, shared memory"
        verdict = comparison_of(Launched(0, output, record, tmp_path), case.task).verdict
        assert verdict == (FOLLOWS if follows else DEVIATES)
