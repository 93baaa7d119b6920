"""horovod_torch with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partialmethod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.torch as hvd
import torch

from common.run import Run
from horovod_impl import torch_model as contract
from horovod_impl import train


def load_apart(config, model, optimizer, state, load=contract.load_state):
    load(config, model, optimizer, state)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.001 * hvd.rank())


def build_scaled(config, model, build=contract.build_optimizer):
    optimizer = build(config, model)
    optimizer.param_groups[0]["lr"] *= hvd.size()
    return optimizer


def break_maths(control: str) -> None:
    if control == "sum":
        hvd.Average = hvd.Sum
    elif control == "float16":
        hvd.Compression.none = hvd.Compression.fp16
    elif control == "unsharded":
        Run.steps = partialmethod(Run.steps, whole_batch=True)
    elif control == "scaled_rate":
        contract.build_optimizer = build_scaled
    elif control == "skipped_broadcast":
        contract.load_state = load_apart
        hvd.broadcast_parameters = lambda *_, **__: None
    elif control == "apart_then_broadcast":
        contract.load_state = load_apart
    else:
        raise ValueError(control)


break_maths(os.environ["LOCKSTEP_CONTROL"])
train.main()
