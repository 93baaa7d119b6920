"""Files of a user's own: exercises and what fills them, real mistakes, and a right file with what to change in it."""

import re
import textwrap
from pathlib import Path

from common.check.marks import Mark, mark
from common.check.training_file import like_of
from common.check.world import Assignment
from common.launching.launch import python_for
from common.paths import ROOT

EXERCISES, GALLERY = (
    {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).glob("*.py"))}
    for folder in ("common/check/exercises", "tests/common/check/gallery")
)
"""The source of each, by its file's name."""

GAP = re.compile(r"^( *)# Your lines here.*\n(?:\1# .*\n)*", re.MULTILINE)

SOLUTIONS = {
    "sync_sgd": """
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad /= size
""",
    "hooks": """
handles.append(dist.all_reduce(parameter.grad, async_op=True))

while handles:
    handles.pop().wait()
for parameter in model.parameters():
    parameter.grad /= size
""",
    "parameter_server": """
for parameter in model.parameters():
    if rank:
        dist.send(parameter.grad, 0)
        continue
    for worker in range(1, size):
        pushed = torch.empty_like(parameter)
        dist.recv(pushed, worker)
        parameter.grad += pushed
    parameter.grad /= size
""",
    "ring_all_reduce": """
chunks = values.tensor_split(size)
for step in range(2 * (size - 1)):
    is_gathering = step >= size - 1
    received = chunks[(rank - step - 1) % size]
    incoming = torch.empty_like(received)
    sending = dist.isend(chunks[(rank - step) % size], (rank + 1) % size)
    dist.recv(incoming, (rank - 1) % size)
    sending.wait()
    received.copy_(incoming if is_gathering else received + incoming)
values /= size
""",
    "zero_first_stage": """
for position, parameter in enumerate(parameters):
    dist.broadcast(parameter.data, position % size)
""",
}
"""Lines that fill the gaps of the exercises, an empty line between those of two gaps."""

REAL = {
    "deepmd_kit_1104": "not exchanged",
    "examples_1424": "not zeroed",
    "jax_3970": "not exchanged",
    "minimind_854": "not exchanged",
    "nanogpt_168": "accumulated",
    "spd_546": "In layer2.weight, layer2.bias alone: Each worker's gradient counted",
    "tensorflow_35333": "averaged twice",
    "torchtune_2172": "averaged twice",
    "transformers_34191": "parts of different size are averaged as if they were alike",
    "viscy_408": "Worker 1 has the rows of worker 0.",
}
"""The kind of mistake in each file of the gallery, or what the sentence on it has to say."""

UNFILLED = {
    "hooks": "not exchanged",
    "parameter_server": "rank 0's alone",
    "ring_all_reduce": "not exchanged",
    "sync_sgd": "not exchanged",
    "zero_first_stage": "not sent",
}
"""The kind of mistake in each exercise before its gaps are filled."""

NOT_IN_A_FILE = {"exchanged", "micro-batches summed", "mean of means"}
"""Kinds that aren't told of a file: an assignment always asks for an exchange, and of micro-batches it knows nothing.

Summed micro-batches are "accumulated" there, and a mean of means is told by its rows.
"""

_DIVIDE = "        parameter.grad /= size\n"
_EACH = "    for parameter in model.parameters():\n        "
_ZERO = "    optimizer.zero_grad()\n"
_STEP = "    optimizer.step()\n"
_BACKWARD = "    loss.backward()\n"
_DECAY = ", weight_decay=sgd.weight_decay"

EDITS = {
    "frozen": ("SGD(model.parameters()", "SGD([*model.parameters()][1:]"),
    "summed": (_DIVIDE, ""),
    "rate times workers": ("sgd.learning_rate", "sgd.learning_rate * size"),
    "dampened": (_DECAY, f"{_DECAY}, dampening=0.5"),
    "sum over rows": (_BACKWARD, "    (loss * len(labels)).backward()\n"),
    "one step old": (
        _STEP,
        f"{_EACH}fresh = parameter.grad.clone()\n"
        "        parameter.grad.copy_(getattr(parameter, 'late', fresh))\n"
        f"        parameter.late = fresh\n{_STEP}",
    ),
    "nesterov": (_DECAY, f"{_DECAY}, nesterov=True"),
    "momentum lost": (_STEP, f"    optimizer.state.clear()\n{_STEP}"),
    "other momentum": ("momentum=sgd.momentum", "momentum=0.9"),
    "decay missing": (_DECAY, ""),
    "decoupled decay": (
        _STEP,
        "    optimizer.param_groups[0]['weight_decay'] = 0.0\n"
        f"{_EACH}parameter.data *= 1 - sgd.learning_rate * sgd.weight_decay\n{_STEP}",
    ),
    "other decay": (_DECAY, f"{_DECAY} * 10"),
    "other rate": ("sgd.learning_rate", "sgd.learning_rate * 1.3"),
    "factor": (_BACKWARD, "    (loss * 0.3).backward()\n"),
    "clipped": (_STEP, f"    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n{_STEP}"),
    "worker left out": (_BACKWARD, f"{_BACKWARD}{_EACH}parameter.grad *= dist.get_rank() < size - 1\n"),
    "uneven": (_BACKWARD, f"{_BACKWARD}{_EACH}parameter.grad *= 2 * (size - dist.get_rank()) / (size + 1)\n"),
    "maximum": (f"(parameter.grad)\n{_DIVIDE}", "(parameter.grad, dist.ReduceOp.MAX)\n"),
    "activation": ("ReLU", "Tanh"),
    "rounded": (_BACKWARD, f"{_BACKWARD}{_EACH}parameter.grad.copy_(parameter.grad.bfloat16())\n"),
    "rows": (_ZERO, f"{_ZERO}    features[0], labels[0] = features[1], labels[1]\n"),
}
"""What to change in a right file to make a kind of mistake that neither the gallery nor an exercise makes."""


def filled(exercise: str) -> str:
    """The exercise with its gaps filled in."""
    source = EXERCISES[exercise]
    for lines in SOLUTIONS[exercise].split("\n\n"):
        gap = GAP.search(source)
        source = source.replace(gap[0], textwrap.indent(lines.strip() + "\n", gap[1]), 1)
    return source


def program(kind: str) -> str:
    """A file that makes this kind of mistake."""
    source, (before, after) = filled("sync_sgd"), EDITS[kind]
    assert before in source, before
    return source.replace(before, after)


def marked(source: str, workers: int, folder: Path, **options: object) -> Mark:
    """The mark of a launch. Raises NotInstalledError without the framework's environment, which skips the test."""
    like, _ = like_of(source, None)
    python_for(like)
    path = folder / "training.py"
    path.write_text(source, encoding="utf-8")
    return mark(path, workers, Assignment(**options), folder / "log")
