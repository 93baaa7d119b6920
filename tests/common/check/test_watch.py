"""common/check/watch.py: it keeps a few steps, costs nothing in the others, and never changes a training."""

from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command

PROGRAM = """
import sys, time
from contextlib import nullcontext
from pathlib import Path
import torch
from torch import nn
from common.check.watch import Watch

folder = Path(sys.argv[1])

def train(optimizer_of, watched):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    optimizer = optimizer_of(model.parameters())
    watch = Watch(model, optimizer, folder / watched, steps=(0, 2)) if watched else None
    for step in range(4):
        batch = torch.randn(5, 4)
        optimizer.zero_grad()
        with watch.step(batch) if watch else nullcontext():
            model(batch).square().mean().backward()
            optimizer.step()
    return [*model.parameters(), *(each for state in optimizer.state.values() for each in state.values())]

def keep(batch, kind=torch.optim.SGD):
    model = nn.Linear(1, 1)
    with Watch(model, kind(model.parameters(), lr=0.1), folder / "refused").step(batch):
        pass

def assert_refused(cause, *arguments):
    try:
        keep(*arguments)
    except (TypeError, ValueError) as error:
        assert str(error) == cause
        return
    raise AssertionError(f"It isn't refused: {cause}")

for name in ("Adam", "AdamW", "SGD"):
    bare, watched = (train(getattr(torch.optim, name), each) for each in ("", name))
    assert all(map(torch.equal, bare, watched)), name
assert sorted(each.name for each in (folder / "AdamW").iterdir()) == [
    "step0.rank0.safetensors", "step2.rank0.safetensors"
]
watch = Watch(nn.Linear(1, 1), torch.optim.Adam([nn.Parameter(torch.ones(1))]), folder / "nothing", steps=(10**9,))
begun = time.perf_counter()
for _ in range(1000):
    with watch.step(torch.ones(1)):
        watch.batch(torch.ones(1))
assert time.perf_counter() - begun < 0.1
assert_refused(
    "Watch reads the gradients of Adam, AdamW, SGD, and not those of Adagrad", torch.ones(1), torch.optim.Adagrad
)
assert_refused("a batch of 0 rows has no mean loss: give `count`, its rows or tokens", torch.ones(()))
assert_refused("a batch has tensors, numbers and texts, no set: leave it out", {"rows": [{1, 2}]})
assert not (folder / "nothing").exists() and not (folder / "refused").exists()
"""


def test_a_watched_training_ends_with_the_same_bits_and_leaves_whole_steps_or_a_refusal(tmp_path):
    """Adam's own count of steps is among the bits, which torch's API of checkpoints would change."""
    status, output = run_command([str(python_for(find("torch_single"))), "-c", PROGRAM, str(tmp_path)])
    assert status == 0, output
