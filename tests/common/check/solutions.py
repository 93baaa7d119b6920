"""Lines that fill the gaps of the exercises, by file and in the order of the gaps."""

import re

from common.paths import ROOT

EXERCISES = {path.stem: path for path in sorted((ROOT / "common" / "check" / "exercises").glob("*.py"))}
GAP = re.compile(r"^( *)# Your lines here.*\n(?:\1# .*\n)*", re.MULTILINE)

SOLUTIONS = {
    "sync_sgd": [
        """
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad /= size
"""
    ],
    "hooks": [
        """
handles.append(dist.all_reduce(parameter.grad, async_op=True))
""",
        """
while handles:
    handles.pop().wait()
for parameter in model.parameters():
    parameter.grad /= size
""",
    ],
    "parameter_server": [
        """
for parameter in model.parameters():
    if rank:
        dist.send(parameter.grad, 0)
        continue
    for worker in range(1, size):
        pushed = torch.empty_like(parameter)
        dist.recv(pushed, worker)
        parameter.grad += pushed
    parameter.grad /= size
"""
    ],
    "ring_all_reduce": [
        """
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
"""
    ],
    "zero_first_stage": [
        """
for position, parameter in enumerate(parameters):
    dist.broadcast(parameter.data, position % size)
"""
    ],
}


def filled(exercise: str) -> str:
    """The exercise with its gaps filled in."""
    lines = iter(SOLUTIONS[exercise])

    def fill(gap: re.Match) -> str:
        return "".join(f"{gap[1]}{line}\n" for line in next(lines).strip().splitlines())

    source = GAP.sub(fill, EXERCISES[exercise].read_text(encoding="utf-8"))
    assert next(lines, None) is None, "A solution has more parts than its exercise has gaps."
    return source
