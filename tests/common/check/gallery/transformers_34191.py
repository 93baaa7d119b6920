"""huggingface/transformers, pull request 34191: means over micro-batches of different size were averaged as if alike.

Sequences have different numbers of tokens. A token of a short micro-batch counted more than one of a long one.
"""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
for features, labels in assignment.batches():
    features, labels = torch.from_numpy(features), torch.from_numpy(labels)
    short = cross_entropy(model(features[:4]), labels[:4])
    long = cross_entropy(model(features[4:]), labels[4:])
    optimizer.zero_grad()
    ((short + long) / 2).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    assignment.step(model, (4 * short + (len(labels) - 4) * long) / len(labels))
dist.destroy_process_group()
