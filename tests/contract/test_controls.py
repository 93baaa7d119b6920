"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time.

So are options that change the maths on purpose: every strategy trains with them, and not along the oracle.
"""

import pytest

from common.declarations.catalogue import find, strategies
from common.launching.launch import python_for
from common.paths import ROOT
from common.records import certificate
from common.records.certificate import DEVIATES
from tests.conftest import run_command
from tests.contract.worlds import (
    BROKEN,
    OTHER_MATHS,
    STOPPED,
    cases_of,
    contract_task,
    controls_path,
    in_own_worlds,
    of_kind,
    own_controls,
)

BOUNDS = {
    "gradient_hook": 0.1,
    "precision": 0.02,
    "local_steps": 0.4,
    "outer_momentum": 2.0,
    "compression": 0.01,
    "adasum": 2.0,
}
"""For the largest relative deviation of a loss from the oracle's: 2 to 8 times the largest seen."""


def test_every_module_of_controls_belongs_to_a_folder_whose_strategies_have_some():
    modules = {path for path in (ROOT / "tests" / "controls").glob("*.py") if path.stem not in ("generic", "several")}
    assert modules == {controls_path(strategy) for name, strategy in strategies().items() if own_controls(name)}


@pytest.mark.parametrize(("strategy", "control"), of_kind(BROKEN))
def test_what_is_broken_is_caught(strategy, control, trained, comparison_of):
    launched = trained(strategy, control)
    comparison = comparison_of(launched, cases_of(strategy, launched.folder)[control].task)
    assert comparison.verdict == DEVIATES
    assert comparison.note


@pytest.mark.parametrize(("strategy", "case"), of_kind(STOPPED))
def test_replicas_that_start_apart_or_diverge_stop_the_run_after_that_step(strategy, case, trained):
    launched = trained(strategy, case)
    said = (launched.folder / f"{case}.failed").read_text()
    step = {"replicas_apart": 0, "replicas_diverge": 50}[case]
    assert said.startswith(f"After step {step} the parameter layer0.weight of rank 1 differs from rank 0's: ")
    assert launched.record is None


def assert_trains_by_other_maths(launched, comparison, option, bound=None):
    assert launched.status == 0, launched.output
    assert (comparison.verdict, comparison.note) == (certificate.OTHER_MATHS, "")
    assert comparison.rounding > 1
    assert comparison.loss < (bound or BOUNDS[option])
    assert launched.record.other_maths == [option]


@pytest.mark.parametrize(("strategy", "case"), of_kind(OTHER_MATHS))
def test_an_option_that_changes_the_maths_trains_and_does_not_follow_the_oracle(strategy, case, trained, comparison_of):
    launched = trained(strategy, case)
    asked = cases_of(strategy, launched.folder)[case]
    assert_trains_by_other_maths(launched, comparison_of(launched, asked.task), *asked.options)


@pytest.mark.parametrize(("strategy", "preset", "workers", "options"), in_own_worlds(other_maths=True))
def test_an_option_that_changes_the_maths_of_a_world_trains_and_does_not_follow_the_oracle(
    strategy, preset, workers, options, launch, comparison_of, tmp_path
):
    launched = launch(strategy, contract_task(preset, workers, tmp_path), **options)
    assert_trains_by_other_maths(launched, comparison_of(launched), next(iter(options)))


def test_the_bf16_hook_trains_where_this_build_of_torch_takes_it_and_is_refused_elsewhere(
    launch, comparison_of, tmp_path
):
    probe = "import torch.distributed; print(torch.distributed.is_nccl_available())"
    _, has_nccl = run_command([str(python_for(find("torch_ddp"))), "-c", probe])
    launched = launch("torch_ddp", contract_task("digits", 2, tmp_path), gradient_hook="bf16")
    if has_nccl.strip() == "True":
        assert_trains_by_other_maths(launched, comparison_of(launched), "gradient_hook", 0.05)
        return
    assert launched.status != 0
    assert launched.record is None
    # One from each worker that torchrun didn't end before it came to that.
    lines = [line for line in launched.output.splitlines() if line.startswith("lockstep: ") and "note" not in line]
    assert {line.partition(": D")[0] for line in lines} == {"lockstep: --gradient-hook bf16"}
    assert "[rank" not in launched.output
