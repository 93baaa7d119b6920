"""Files of a user's own: exercises, what fills them, and real mistakes; and how to start one."""

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


def filled(exercise: str) -> str:
    """The exercise with its gaps filled in."""
    source = EXERCISES[exercise]
    for lines in SOLUTIONS[exercise].split("\n\n"):
        gap = GAP.search(source)
        source = source.replace(gap[0], textwrap.indent(lines.strip() + "\n", gap[1]), 1)
    return source


def marked(source: str, workers: int, folder: Path, **options: object) -> Mark:
    """The mark of a launch. Raises NotInstalledError without the framework's environment, which skips the test."""
    like, _ = like_of(source, None)
    python_for(like)
    path = folder / "training.py"
    path.write_text(source, encoding="utf-8")
    return mark(path, workers, Assignment(**options), folder / "log")
