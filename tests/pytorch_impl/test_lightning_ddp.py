"""pytorch_impl/lightning_ddp.py: the loader's processes leave when the training has ended."""

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
del batches.load
del batches
gc.collect()
print("collected")
"""


def test_a_loader_whose_last_reference_is_deleted_ends_its_processes():
    """One that is collected as garbage of the Trainer's doesn't."""
    status, output = run_command([str(python_for(find("torch_lightning_ddp"))), "-c", SCRIPT])
    assert status == 0, output
    assert output.splitlines()[-1:] == ["collected"], output
    assert "given up" not in output
