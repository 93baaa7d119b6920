"""common/check/watch.py: it keeps a few steps, costs nothing in the others, and never changes a training."""

import json

from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command

PROGRAM = """
import json, sys, time
from pathlib import Path
import torch
from torch import nn
from common.check.watch import Watch

folder, said = Path(sys.argv[1]), {}

def train(optimizer_of, watched, steps=(0, 2)):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    optimizer = optimizer_of(model.parameters())
    watch = Watch(model, optimizer, folder / watched, steps) if watched else None
    for step in range(4):
        batch = torch.randn(5, 4)
        optimizer.zero_grad()
        if watch:
            with watch.step(batch):
                model(batch).square().mean().backward()
                optimizer.step()
        else:
            model(batch).square().mean().backward()
            optimizer.step()
    return [*model.parameters(), *(each for state in optimizer.state.values() for each in state.values())]

def refused(call):
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error)

def kept(batch, count=None):
    model = nn.Linear(1, 1)
    watch = Watch(model, torch.optim.SGD(model.parameters(), lr=0.1), folder / "refused")
    with watch.step(batch, count):
        pass

for name in ("Adam", "AdamW", "SGD"):
    bare, watched = (train(getattr(torch.optim, name), each) for each in ("", name))
    said[name] = all(map(torch.equal, bare, watched))
said["files"] = sorted(path.name for path in (folder / "AdamW").iterdir())
watch = Watch(nn.Linear(1, 1), torch.optim.Adam([nn.Parameter(torch.ones(1))]), folder / "nothing", steps=(10**9,))
begun = time.perf_counter()
for _ in range(1000):
    with watch.step(torch.ones(1)):
        watch.batch(torch.ones(1))
said["milliseconds"] = time.perf_counter() - begun
said["nothing"] = (folder / "nothing").exists()
said["optimizer"] = refused(lambda: Watch(nn.Linear(1, 1), torch.optim.Adagrad([torch.ones(1)]), folder))
said["count"] = refused(lambda: kept(torch.ones(())))
said["object"] = refused(lambda: kept({"rows": [{1, 2}]}))
said["left"] = (folder / "refused").exists()
print(json.dumps(said))
"""


def test_a_watched_training_ends_with_the_same_bits_and_leaves_whole_steps_or_a_refusal(tmp_path):
    """Adam's own count of steps is among the bits, which torch's API of checkpoints would change."""
    status, output = run_command([str(python_for(find("torch_single"))), "-c", PROGRAM, str(tmp_path)])
    assert status == 0, output
    said = json.loads(output.splitlines()[-1])
    assert said.pop("milliseconds") < 0.1
    assert said == {
        **dict.fromkeys(("Adam", "AdamW", "SGD"), True),
        "files": ["step0.rank0.safetensors", "step2.rank0.safetensors"],
        "nothing": False,
        "optimizer": "Watch reads the gradients of Adam, AdamW, SGD, and not those of Adagrad",
        "count": "a batch of 0 rows has no mean loss: give `count`, its rows or tokens",
        "object": "a batch has tensors, numbers and texts, no set: leave it out",
        "left": False,
    }
