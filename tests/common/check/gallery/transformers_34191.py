"""huggingface/transformers, pull request 34191: means over micro-batches of different size were averaged as if alike.

Sequences have different numbers of tokens. A token of a short micro-batch counted more than one of a long one.
"""

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

from common.check import assignment

dist.init_process_group("gloo")
torch.set_num_threads(1)
model = Sequential(Linear(64, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
assignment.load(model)
sgd = assignment.options()
optimizer = torch.optim.SGD(model.parameters(), sgd.learning_rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
for features, labels in assignment.batches():
    features, labels = torch.from_numpy(features), torch.from_numpy(labels)
    parts = [slice(0, 4), slice(4, None)]
    losses = [cross_entropy(model(features[part]), labels[part]) for part in parts]
    optimizer.zero_grad()
    (sum(losses) / len(losses)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    means = zip(losses, parts, strict=True)
    loss = sum(mean * len(labels[part]) for mean, part in means) / len(labels)
    optimizer.step()
    assignment.step(model, loss)
dist.destroy_process_group()
