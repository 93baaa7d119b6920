"""pytorch_impl/lightning_ddp.py: the loader's processes leave when the training has ended."""

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command

SCRIPT = """
import gc, multiprocessing.process
import torch
from common.contract import dataset
from common.contract.task import Task
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from pytorch_impl.lightning_ddp import Batches
from pytorch_impl.strategies import LIGHTNING_DDP

# torch's DataLoader terminates its processes once it has waited for them in vain.
multiprocessing.process.BaseProcess.terminate = lambda process: print("given up")
world = World(pinning=machine.Pinning([], oversubscribed=False))
run = Run(LIGHTNING_DDP, Task(steps=2, warmup_steps=1), LIGHTNING_DDP.options(loader_workers=1), world)
batches = Batches(run, torch.device("cpu"))
batches.itself = batches  # as the Trainer does, in a larger circle
{release}
del batches
gc.collect()
print("collected")
"""


@pytest.mark.parametrize(
    ("release", "printed"),
    [("del batches.load", ["collected"]), pytest.param("", ["given up", "collected"], marks=pytest.mark.grid)],
    ids=["deleted", "collected"],
)
def test_a_loader_whose_last_reference_is_deleted_ends_its_processes_and_one_that_is_collected_does_not(
    release, printed
):
    program = SCRIPT.format(release=release)
    status, output = run_command([str(python_for(find("torch_lightning_ddp"))), "-c", program])
    assert status == 0, output
    assert output.splitlines()[-len(printed) :] == printed, output
