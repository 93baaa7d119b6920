"""pytorch_impl/sync_sgd.py, broken on purpose as STUDENTS.md has it."""

import pytest

from common.contract.task import Task
from common.records.certificate import DEVIATES
from common.records.evidence import in_words


def test_a_loop_that_never_divides_is_told_what_it_did_and_how_to_mend_it(launch, comparison_of):
    launched = launch("torch_sync_sgd", Task(workers=2, steps=60, warmup_steps=20, window_steps=10), broken="sum")
    said = in_words(launched.record)
    assert said in launched.output.splitlines()
    assert said.endswith(
        "not as declared. Each worker's gradient counted 1.00 instead of 0.50: summed, not averaged. Divide by "
        "dist.get_world_size(), or all-reduce with ReduceOp.AVG over NCCL."
    )
    comparison = comparison_of(launched)
    assert comparison.verdict == DEVIATES
    assert [comparison.least_share, comparison.largest_share] == pytest.approx([1.0, 1.0], abs=1e-4)
