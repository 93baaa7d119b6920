"""What PyTorch's strategies do on a GPU, as far as a machine without one shows it: in a process with PyTorch."""

import json

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command

SCRIPT = """
import json
from types import SimpleNamespace
import numpy as np
import torch
from common.contract import dataset
from common.contract.rows import Batch, Share
from common.contract.task import Task
from common.errors import UserError
from common.records.ceiling import Product
from pytorch_impl import ceiling, inputs, model

found = {}
task = Task(device="gpu")
torch.cuda.is_available = lambda: True
torch.cuda.set_device = lambda device: None
for gpus in (1, 2):
    torch.cuda.device_count = lambda: gpus
    found[f"shared {gpus}"] = [model.choose_device(task, rank, 3, shared=True).index for rank in range(3)]
try:
    model.choose_device(task, 0, 3)
except UserError as error:
    found["refusal"] = str(error)

torch.backends.cudnn.conv.fp32_precision = "tf32"
model.choose_device(Task(device="cpu"), 0, 1)
found["by default"] = [torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision]
model.build_model(task, "tf32")
found["tf32"] = [torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision]
torch.cuda.is_available = lambda: False
try:
    model.build_model(task, "tf32")
except UserError as error:
    found["no gpu"] = str(error)

data, share = dataset.load(task), Share(64, 16, 16)
run = SimpleNamespace(
    dataset=data, first_step=25, task=task, rows=lambda *steps: share.rows(len(data.train_labels), 0, *steps)
)
load = inputs._from_gpu(run, torch.device("cpu"))
batches = [Batch(step, next(share.rows(len(data.train_labels), 0, step)), data) for step in (25, 26, 299)]
found["rows"] = [
    [torch.equal(mine, theirs) for mine, theirs in zip(load(batch), inputs._from_memory(batch))] for batch in batches
]

products = [Product(0, "weight gradient", 8, 4, 2), Product(0, "input gradient", 8, 4, 2, 6, 6, 3, 1)]
found["bf16"] = [
    str(ceiling._as_trained(product, torch.device("cpu"), torch.bfloat16)["as trained"]()[0].dtype)
    for product in products
]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    """What a process found in which torch is told that there are GPUs."""
    status, output = run_command([str(python_for(find("torch_single"))), "-c", SCRIPT])
    assert status == 0, output
    return json.loads(output.splitlines()[-1])


def test_workers_share_gpus_in_turn_over_gloo_alone(found):
    assert found["shared 1"] == [0, 0, 0]
    assert found["shared 2"] == [0, 1, 0]
    assert found["refusal"].startswith("--device gpu, but torch sees 2 GPUs for 3 workers")


def test_a_gpu_rounds_no_factors_to_tf32_unless_it_is_asked_to(found):
    assert found["by default"] == ["ieee", "ieee"]
    assert found["tf32"] == ["tf32", "tf32"]
    assert found["no gpu"].startswith("--precision tf32")


def test_rows_that_are_kept_on_the_gpu_are_those_of_the_worker_in_every_step(found):
    assert found["rows"] == [[True, True]] * 3


def test_products_and_convolutions_are_clocked_in_bfloat16_too(found):
    assert found["bf16"] == ["torch.bfloat16"] * 2
