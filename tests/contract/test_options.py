"""Options that change the maths on purpose: every strategy trains with them, and the oracle sees the difference."""

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.records.certificate import OTHER_MATHS
from tests.conftest import run_command
from tests.contract.cases import WORLDS, case_of, in_own_worlds, with_option
from tests.contract.worlds import contract_task

BOUNDS = {
    "gradient_hook": 0.1,
    "precision": 0.02,
    "local_steps": 0.4,
    "outer_momentum": 2.0,
    "compression": 0.01,
    "adasum": 2.0,
}
"""For the largest relative deviation of a loss from the oracle's: 2 to 8 times the largest seen."""


def assert_trains_by_other_maths(launched, comparison, bound):
    assert launched.status == 0, launched.output
    assert (comparison.verdict, comparison.note) == (OTHER_MATHS, "")
    assert comparison.rounding > 1
    assert comparison.loss < bound


@pytest.mark.parametrize(("strategy", "case"), [(name, case) for name in WORLDS for case in with_option(name, True)])
def test_an_option_that_changes_the_maths_trains_and_does_not_follow_the_oracle(strategy, case, trained, comparison_of):
    launched, [option, _] = trained(strategy, case), with_option(strategy, True)[case]
    comparison = comparison_of(launched, case_of(strategy, case, launched.folder).task)
    assert_trains_by_other_maths(launched, comparison, BOUNDS[option])
    assert launched.record.other_maths == [option]


@pytest.mark.parametrize(("strategy", "preset", "workers", "options", "changed"), in_own_worlds(other_maths=True))
def test_an_option_that_changes_the_maths_of_a_world_trains_and_does_not_follow_the_oracle(
    strategy, preset, workers, options, changed, launch, comparison_of, tmp_path
):
    launched = launch(strategy, contract_task(preset, workers, tmp_path, **changed), **options)
    option, *_ = options
    assert_trains_by_other_maths(launched, comparison_of(launched), BOUNDS[option])
    assert launched.record.other_maths == [option]


def test_the_bf16_hook_trains_where_this_build_of_torch_takes_it_and_is_refused_elsewhere(
    launch, comparison_of, tmp_path
):
    probe = "import torch.distributed; print(torch.distributed.is_nccl_available())"
    _, has_nccl = run_command([str(python_for(find("torch_ddp"))), "-c", probe])
    launched = launch("torch_ddp", contract_task("digits", 2, tmp_path), gradient_hook="bf16")
    if has_nccl.strip() == "True":
        assert_trains_by_other_maths(launched, comparison_of(launched), 0.05)
        return
    assert launched.status != 0
    assert launched.record is None
    # One from each worker that torchrun didn't end before it came to that.
    lines = [line for line in launched.output.splitlines() if line.startswith("lockstep: ") and "note" not in line]
    assert {line.partition(": D")[0] for line in lines} == {"lockstep: --gradient-hook bf16"}
    assert "[rank" not in launched.output
