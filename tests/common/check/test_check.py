"""common/check: files of a user's own are started, and marked by what they did.

They are in NumPy alone, with Lockstep's own network and gradients, so that starting one takes a tenth of a second: what
is tried is what stands around a loop.
"""

import os
import re
import subprocess
import sys

import pandas as pd
import psutil
import pytest

from common.check.training_file import environments, files_in, like_of
from common.check.world import LATER_UPDATES
from common.contract.evidence import FIRST_STEPS
from common.errors import UserError
from common.paths import ROOT
from tests.common.check.user_files import marked

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
    others = [listener.accept() for _ in assigned.addresses[1:]]
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
    """The right program with a line, or a part of one, in place of another."""
    assert before in RIGHT, before
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
    "not_finite.py": (changed("assigned.learning_rate *", "np.inf *"), "Rank 0's weights aren't finite"),
    "breaks.py": ("raise RuntimeError('no GPU')\n", "RuntimeError: no GPU"),
    "mocks_a_loss.py": (changed("computed.loss)", "0.01)"), "loss in step 0 is"),
}
"""By file name a program that can't pass with one worker, and what its row has to say."""


@pytest.mark.parametrize(
    ("source", "strategy", "launcher"),
    [
        ("import torch", "torch_ddp", "processes"),
        ("import torch\nimport horovod.torch as hvd", "horovod_torch", "horovodrun"),
        ("from tensorflow import keras", "tf_multi_worker_mirrored", "processes"),
        ("import jax.numpy as jnp", "jax_data_parallel", "processes"),
        ("import numpy", "torch_ddp", "processes"),
    ],
)
def test_imports_tell_what_a_file_needs(source, strategy, launcher):
    found, starter = like_of(source, None)
    assert (found.name, starter) == (strategy, launcher)


def test_a_launcher_can_be_named():
    assert like_of("import tensorflow", "python")[0].name == "tf_mirrored"
    assert [like_of("import torch", name)[1] for name in ("mpirun", "torchrun")] == ["mpirun", "torchrun"]
    with pytest.raises(UserError, match=r"--launcher rsh: give one of .*torchrun, .*processes, mpirun"):
        like_of("import torch", "rsh")


def test_a_folder_has_its_files_in_order(tmp_path):
    for name in ("b.py", "a.py", "notes.txt"):
        (tmp_path / name).write_text("import jax\n", encoding="utf-8")
    assert [path.name for path in files_in([tmp_path])] == ["a.py", "b.py"]
    assert environments([str(tmp_path)]) == ["jax"]
    with pytest.raises(UserError, match=r"nothing\.py isn't there"):
        files_in([tmp_path / "nothing.py"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="No file to check"):
        files_in([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("workers", "options", "shares"),
    [
        (1, {}, [1]),
        (2, {}, [0.5, 0.5]),
        (4, {}, [0.25] * 4),
        # One process has all rows of two workers, or each of two processes the whole batch.
        (2, {"launcher": "python"}, [0.5, 0.5]),
        (2, {"rows": "whole"}, [1]),
    ],
)
def test_a_right_program_is_right_whatever_carries_its_gradients(tmp_path, workers, options, shares):
    found = marked(RIGHT, workers, tmp_path, **{"launcher": "processes"} | options)
    assert (found.verdict, found.sentences) == ("right", ()), (tmp_path / "log").read_text()
    assert found.shares == pytest.approx(shares, abs=1e-4)
    assert (found.velocity, found.decay) == pytest.approx((0.5, 0.001), abs=1e-4)
    assert found.samples_per_second > 0
    assert len({step.step for step in found.reading.steps}) >= FIRST_STEPS + LATER_UPDATES


@pytest.mark.parametrize(
    ("before", "after", "said", "shares"),
    [
        (" / len(assigned.addresses)", "", "counted 1.00 instead of 0.50: summed, not averaged.", [1, 1]),
        (
            "assignment.weights()",
            "{name: value + 0.01 for name, value in assignment.weights().items()}",
            "Its weights before the first step weren't the assignment's, which are the same on all workers.",
            [0.5, 0.5],
        ),
        # Replicas differ: the shares are those of one.
        ("def average(gradients):\n", "def average(gradients):\n    return gradients\n", "aren't exchanged", [1, 0]),
    ],
)
def test_a_mistake_is_named(tmp_path, before, after, said, shares):
    found = marked(changed(before, after), 2, tmp_path, launcher="processes")
    assert found.verdict == "wrong"
    assert said in " ".join(found.sentences)
    assert found.shares == pytest.approx(shares, abs=1e-3)


def test_an_exchange_that_sends_no_bytes_has_to_be_allowed(tmp_path):
    found = marked(BY_FILE, 2, tmp_path, launcher="processes")
    assert found.sentences == (
        "It sent 0 bytes in a step, and an all-reduce of the gradients sends 137,808: workers don't exchange gradients "
        "by the network. Let them, or give --no-count-bytes for shared memory.",
    )
    assert marked(BY_FILE, 2, tmp_path, launcher="processes", count_bytes=False).verdict == "right"


def test_the_readmes_program_is_named_right(tmp_path):
    text = (ROOT / "common" / "check" / "README.md").read_text(encoding="utf-8")
    [program, *_] = re.findall(r"```python\n(.*?)```", text, re.S)
    # A slow machine takes long to import a framework.
    found = marked(program, 2, tmp_path, deadline_seconds=120.0)
    [sentence] = found.sentences
    assert " ".join(re.findall(r"^> (.*)$", text, re.M)) == sentence


def test_a_class_has_a_row_for_each_file_however_bad_it_is(tmp_path):
    folder, out = tmp_path / "class", tmp_path / "out" / "class.pdf"
    folder.mkdir()
    for name, (source, _) in BAD.items():
        (folder / name).write_text(source, encoding="utf-8")
    (folder / "right.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "own").mkdir()
    limits = ["--deadline-seconds", "4", "--memory-gigabytes", "1", "--launcher", "processes", "--no-beside"]
    files = ["--results", str(tmp_path / "results"), "--out", str(out), "--picture", str(tmp_path / "class.svg")]
    command = [sys.executable, "-m", "common.check", str(folder), "--workers", "1", *limits, *files]
    environment = os.environ | {"TMPDIR": str(tmp_path / "own")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    [session] = (tmp_path / "results").iterdir()
    marks = pd.read_csv(session / "marks.csv").set_index("file")
    assert {name: said in marks.loc[name, "sentences"] for name, (_, said) in BAD.items()} == dict.fromkeys(BAD, True)
    assert marks.loc["right.py", "mark"] == "right"
    assert "1 of 14 files are right." in done.stdout
    picture = (tmp_path / "class.svg").read_text(encoding="utf-8")
    assert re.search(r"<text.*1&#160;of&#160;14&#160;files&#160;are&#160;right", picture)
    assert "url(http" not in picture.replace(" ", "")
    pages = {path.name for path in out.parent.glob("*.html")}
    assert pages == {"class.html", *(f"class-{name.removesuffix('.py')}.html" for name in [*BAD, "right.py"])}
    assert "summed" not in (out.parent / "class-right.html").read_text(encoding="utf-8")
    everyone = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    assert not [words for words in everyone if str(tmp_path / "own") in " ".join(words)]
    assert not [*(tmp_path / "own").iterdir()]
