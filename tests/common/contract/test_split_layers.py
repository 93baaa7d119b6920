"""common/contract/split_layers.py: which axis of which layer tensor parallelism splits, and what stays whole."""

import pytest

from common.contract.split_layers import bytes_of_whole_biases, check_layers_divide, split_axis
from common.contract.task import Task
from common.errors import UserError


def test_layers_are_split_by_inputs_and_outputs_in_turn_which_workers_divide_but_for_some_biases():
    assert [split_axis(layer, 3) for layer in range(3)] == [0, 1, 0]
    assert [split_axis(layer, 4) for layer in range(4)] == [1, 0, 1, 0]
    check_layers_divide(Task(), 4)
    with pytest.raises(UserError, match="Layer 0 is split by its 64 inputs, which 3 workers don't divide"):
        check_layers_divide(Task(), 3)
    with pytest.raises(UserError, match="Layer 0 is split by its 30 outputs"):
        check_layers_divide(Task(dimensions=(64, 30, 10)), 4)
    # Of 64-30-20-10 the first and the last layer are split by their inputs.
    assert bytes_of_whole_biases(Task(dimensions=(64, 30, 20, 10))) == 4 * (30 + 10)
    assert bytes_of_whole_biases(Task(dimensions=(64, 30, 20, 10), bias=False)) == 0
