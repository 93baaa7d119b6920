"""Programs of a user's own, in NumPy alone, so that starting one takes a tenth of a second.

The network and its gradients are Lockstep's own: what these tests try is what stands around a loop.
"""

RIGHT = '''"""A parameter server by hand: rank 0 averages all gradients, and sends them back."""
from multiprocessing.connection import Client, Listener
import numpy as np
from common.check import assignment
from common.contract import model
from common.contract.task import Task

assigned = assignment.options()
ADDRESS = ("127.0.0.1", int(assigned.addresses[0].rpartition(":")[2]))

def connect():
    while True:
        try:
            return Client(ADDRESS)
        except OSError:
            pass

if assigned.rank == 0:
    listener = Listener(ADDRESS, backlog=assigned.workers)
    others = [listener.accept() for _ in range(assigned.workers - 1)]
else:
    server = connect()

def average(gradients):
    if assigned.rank:
        server.send_bytes(gradients)
        return np.frombuffer(server.recv_bytes(), np.float32)
    received = [np.frombuffer(each.recv_bytes(), np.float32) for each in others]
    mean = sum(received, gradients) / len(assigned.addresses)
    for each in others:
        each.send_bytes(mean)
    return mean

task = Task()
weights = assignment.weights()
velocity = {name: np.zeros_like(value) for name, value in weights.items()}
for features, labels in assignment.batches():
    computed = model.loss_and_gradients(task, weights, features, labels)
    mean = average(np.concatenate([computed.gradients[name].ravel() for name in weights]))
    for (name, value), gradient in zip(weights.items(), assignment.split(mean, assigned.shapes), strict=True):
        velocity[name] = assigned.momentum * velocity[name] + gradient + assigned.weight_decay * value
        weights[name] = (value - assigned.learning_rate * velocity[name]).astype(np.float32)
    assignment.step(weights, computed.loss)
'''
"""A right program for any number of workers."""

_STEP = "    assignment.step(weights, computed.loss)\n"


def changed(before: str, after: str) -> str:
    """Return the right program with a line, or a part of one, in place of another. Raises ValueError where it isn't
    there."""
    if before not in RIGHT:
        raise ValueError(f"{before!r} isn't in the program")
    return RIGHT.replace(before, after)


BY_FILE = changed('("127.0.0.1", int(assigned.addresses[0].rpartition(":")[2]))', '"socket"')
"""The same, but gradients are exchanged by a socket in the folder."""

BAD = {
    "parses_not.py": ("def training(:\n", "It doesn't parse in line 1"),
    "does_nothing.py": ("print('loss 0.01')\n", "It ended without a step: call assignment.step after each one."),
    "hangs.py": ("import time\nwhile True: time.sleep(1)\n", "ended by its deadline of 4 s"),
    "forks.py": (
        "import os, time\nwhile True:\n    os.fork()\n    time.sleep(0.05)\n",
        "It had more than 64 processes",
    ),
    "fills_the_disk.py": (
        "import os\nfor number in range(100):\n    file = open(f'{number}', 'wb')\n"
        "    os.posix_fallocate(file.fileno(), 0, 2**26)\nwhile True: pass\n",
        "It wrote more than 1 GiB.",
    ),
    "takes_memory.py": ("data = []\nwhile True: data.append(b'x' * 2**27)\n", "It took more than 1 GiB of memory."),
    "stops_early.py": (changed(_STEP, _STEP + "    break\n"), "Rank 0 reported 1 of 24 steps."),
    "other_shapes.py": (
        changed("assignment.step(weights, ", "assignment.step({**weights, 'layer0.weight': np.zeros((3, 4))}, "),
        "of the shape (3, 4), where (64, 128) belongs",
    ),
    "too_few.py": (
        changed("assignment.step(weights, ", "assignment.step([*weights.values()][:2], "),
        "got 2 arrays of weights, and the network has 6",
    ),
    "many_losses.py": (changed("computed.loss)", "computed.row_losses)"), "got 64 losses, where one belongs"),
    "not_finite.py": (
        changed("assigned.learning_rate * velocity", "np.inf * velocity"),
        "Rank 0's weights aren't finite",
    ),
    "breaks.py": ("raise RuntimeError('no GPU')\n", "RuntimeError: no GPU"),
    "mocks_a_loss.py": (changed("computed.loss)", "0.01)"), "loss in step 0 is"),
}
"""By file name a program that can't pass with one worker, and what its row has to say."""
