"""common/check: files of a user's own are started, and marked by what they did."""

import os
import re
import subprocess
import sys

import pandas as pd
import psutil
import pytest

from common.check.marks import mark
from common.check.training_file import environments, files_in, like_of
from common.check.world import Assignment
from common.errors import UserError
from common.paths import ROOT
from tests.common.check.programs import BAD, BY_FILE, RIGHT, changed


def marked(tmp_path, source, workers, **options):
    """The mark of a program."""
    path = tmp_path / "training.py"
    path.write_text(source, encoding="utf-8")
    return mark(path, workers, Assignment(**{"deadline_seconds": 20.0} | options), tmp_path / "log")


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


def test_a_right_program_is_right_whatever_carries_its_gradients(tmp_path):
    for workers in (1, 2, 4):
        found = marked(tmp_path, RIGHT, workers, launcher="processes")
        assert (found.verdict, found.sentences) == ("right", ()), (tmp_path / "log").read_text()
        assert found.shares == pytest.approx([1 / workers] * workers, abs=1e-4)
        assert (found.velocity, found.decay) == pytest.approx((0.5, 0.001), abs=1e-4)
        assert found.samples_per_second > 0


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
    found = marked(tmp_path, changed(before, after), 2, launcher="processes")
    assert found.verdict == "wrong"
    assert said in " ".join(found.sentences)
    assert found.shares == pytest.approx(shares, abs=1e-3)


def test_an_exchange_that_sends_no_bytes_has_to_be_allowed(tmp_path):
    found = marked(tmp_path, BY_FILE, 2, launcher="processes")
    assert found.sentences == (
        "It sent 0 bytes in a step, and an all-reduce of the gradients sends 137,808: workers don't exchange gradients "
        "by the network. Let them, or give --no-count-bytes for shared memory.",
    )
    assert marked(tmp_path, BY_FILE, 2, launcher="processes", count_bytes=False).verdict == "right"


def test_the_readmes_program_is_named_right(tmp_path):
    text = (ROOT / "common" / "check" / "README.md").read_text(encoding="utf-8")
    [program, *_] = re.findall(r"```python\n(.*?)```", text, re.S)
    # A slow machine takes long to import a framework.
    found = marked(tmp_path, program, 2, deadline_seconds=120.0)
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
