"""What PyTorch's strategies do on a GPU, as far as a machine without one shows it: in a process with PyTorch."""

from tests.launching import output_of

PROGRAM = """
from types import SimpleNamespace
import numpy as np
import torch
from common.contract import dataset
from common.contract.rows import Batch, Share
from common.contract.task import Task
from common.errors import UserError
from common.records.ceiling import Product
from pytorch_impl import ceiling, inputs, model

def refusal(action, *arguments):
    try:
        action(*arguments)
    except UserError as error:
        return str(error)

def products():
    return [torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision]

# Over Gloo workers share GPUs in turn, and else each takes one of its own.
task, cpu = Task(device="gpu"), torch.device("cpu")
torch.cuda.is_available = lambda: True
torch.cuda.set_device = lambda device: None
for gpus, shared in ((1, [0, 0, 0]), (2, [0, 1, 0])):
    torch.cuda.device_count = lambda: gpus
    assert [model.choose_device(task, rank, 3, shared=True).index for rank in range(3)] == shared
assert refusal(model.choose_device, task, 0, 3).startswith("--device gpu, but torch sees 2 GPUs for 3 workers")

# A GPU rounds no factors to TF32 unless it is asked to.
torch.backends.cudnn.conv.fp32_precision = "tf32"
model.choose_device(Task(device="cpu"), 0, 1)
assert products() == ["ieee", "ieee"]
model.build_model(task, "tf32")
assert products() == ["tf32", "tf32"]
torch.cuda.is_available = lambda: False
assert refusal(model.build_model, task, "tf32").startswith("--precision tf32")

# Rows that are kept on the GPU are those of the worker in every step.
data, share = dataset.load(task), Share(64, 16, 16)
run = SimpleNamespace(
    dataset=data, first_step=25, task=task, rows=lambda *steps: share.rows(len(data.train_labels), 0, *steps)
)
load = inputs._from_gpu(run, cpu)
for step in (25, 26, 299):
    batch = Batch(step, next(share.rows(len(data.train_labels), 0, step)), data)
    assert all(map(torch.equal, load(batch), inputs._from_memory(batch)))

# Products and convolutions are clocked in bfloat16 too.
for product in (Product(0, "weight gradient", 8, 4, 2), Product(0, "input gradient", 8, 4, 2, 6, 6, 3, 1)):
    assert ceiling._as_trained(product, cpu, torch.bfloat16)["as trained"]()[0].dtype is torch.bfloat16
"""


def test_gpus_are_shared_over_gloo_alone_round_nothing_unasked_and_have_each_workers_rows():
    output_of("torch_single", "python", "-c", PROGRAM)
