"""What Keras's fit can't do is refused in one line; with all else that its SGD computes alike it follows the oracle."""

import pytest

from tests.contract.worlds import contract_task
from tests.launching import assert_follows


def test_several_compiled_replicas_are_refused_in_one_line(launch, tmp_path):
    launched = launch("tf_keras_mirrored", contract_task("digits", 2, tmp_path), jit_compile=True)
    assert launched.status == 2
    [line] = [line for line in launched.output.splitlines() if line.startswith("lockstep: ") and "note:" not in line]
    assert "one XLA program" in line
    assert line.endswith("or use tf_mirrored.")
    assert launched.record is None


@pytest.mark.grid
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.9, "final_learning_rate": 0.1},
        {"weight_decay": 0.01},
        {"weight_decay": 0.01, "final_learning_rate": 0.05, "decay_steps": 50},
    ],
    ids=["momentum", "weight_decay", "weight_decay-schedule"],
)
def test_what_keras_does_alike_follows_the_oracle(options, workers, launch, comparison_of, tmp_path):
    launched = launch("tf_keras_mirrored", contract_task("digits", workers, tmp_path, activation="tanh", **options))
    assert_follows(launched, comparison_of(launched))
