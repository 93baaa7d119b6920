"""pytorch_impl/local_sgd.py: the outer step is DiLoCo's."""

from tests.launching import output_of

PROGRAM = """
import torch
from pytorch_impl.local_sgd import outer_sgd, step_outer

weights = [torch.tensor([8.0, 0.0])]
outer = outer_sgd(weights, 0.5)
for average in ([7.0, 1.0], [6.0, 3.0]):
    weights[0].copy_(torch.tensor(average))
    step_outer(outer, weights)
    print(weights[0].tolist())
"""


def test_the_outer_step_moves_on_by_nesterovs_momentum_from_what_the_workers_moved_on_average():
    printed = output_of("torch_local_sgd", "python", "-c", PROGRAM).split("\n")
    # From 8 to 7 gradient and velocity are 1: 8 - (1 + 0.5). From 6.5 to 6 they are 0.5 and 1: 6.5 - (0.5 + 0.5).
    assert printed[-3:-1] == ["[6.5, 1.5]", "[5.5, 4.0]"]
