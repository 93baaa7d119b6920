"""pytorch_impl/watched.py: what ranks' batches counted in a loop of one's own is told from what Watch kept of it."""

import csv
import json
import re
import shutil
import sys

import pytest

from common.launching.processes import free_ports
from common.paths import ROOT
from tests.conftest import run_command
from tests.launching import output_of

COUNTED = "Each worker's gradient counted"
BY_TOKENS, THREE_PARTS = (0.8, 0.2), (4 / 15, 1 / 15) * 3
"""Shares of two ranks, and of three micro-batches of each, where every second batch has a quarter of the tokens."""

# What is said of each training of watched_trainings.py, nothing of a right one, and the shares in its first step.
READ = {
    "right": ("", BY_TOKENS),
    "mean of means": ("Gradients counted 0.50, 0.50 instead of 0.80, 0.20: means over different", (0.5, 0.5)),
    "same rows": ("Worker 1 has the rows of worker 0.", (None, None)),
    "clipped": ("", None),
    "clipped once": ("", BY_TOKENS),
    "sgd": ("", BY_TOKENS),
    "plain sgd": ("", BY_TOKENS),
    "maximized": ("", BY_TOKENS),
    "accumulated": ("", THREE_PARTS),
    "accumulated means of means": ("Gradients counted 0.17, 0.17, 0.17, 0.17, 0.17, 0.17 instead of", (1 / 6,) * 6),
    "accumulated and not divided": (f"{COUNTED} 0.50 instead of 0.17, as many times as a step has micro-", (0.5,) * 6),
    "zero": ("", BY_TOKENS),
    "fsdp": ("", BY_TOKENS),
    "hugging face": ("", None),
    "not zeroed": ("Gradients of earlier steps counted again", BY_TOKENS),
    "not exchanged": ("Each replica counted its own worker's gradient alone", (1, 0)),
    "frozen": ("In positions.weight alone: It didn't move.", None),
    "autocast": ("", None),
    "autocast in the loop alone": ("Residuals of up to ", None),
}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """The folder of the evidence of all trainings, and of what was read of it."""
    folder = tmp_path_factory.mktemp("watched")
    options = ["--nproc-per-node", "2", "--master-port", str(free_ports(1)[0])]
    script = ["tests/pytorch_impl/watched_trainings.py", str(folder)]
    output_of("torch_ddp", "torchrun", *options, *script, deadline_seconds=60, PYTHONPATH=str(ROOT))
    assert {path.stem for path in folder.glob("*.json")} == {*READ}
    return folder


@pytest.mark.parametrize("training", READ)
def test_a_mistake_is_told_by_the_shares_and_nothing_is_said_of_what_is_right(evidence, training):
    sentence, shares = READ[training]
    read = json.loads((evidence / f"{training}.json").read_text())
    assert len(read["mistakes"]) == bool(sentence), read["mistakes"]
    assert all(each.startswith(sentence) for each in read["mistakes"]), read["mistakes"]
    assert [step["step"] for step in read["steps"]] == [0, 1, 2, 3]
    first = read["steps"][0]["shares"]
    assert shares is None or first == [None if each is None else pytest.approx(each, abs=1e-5) for each in shares]
    assert sentence or training == "autocast" or max(step["residual"] for step in read["steps"]) < 2e-5


def test_clipping_is_one_factor_of_all_shares_and_no_mistake(evidence):
    for training, shares in (("clipped", BY_TOKENS), ("hugging face", (1 / 8,) * 8)):
        for step in json.loads((evidence / f"{training}.json").read_text())["steps"]:
            factor = sum(step["shares"])
            assert factor < 0.2
            assert step["shares"] == pytest.approx([factor * share for share in shares], rel=1e-5)


def refereed(evidence, module, folder):
    """The exit status, the output, and the row of the table of marks, by what a user types."""
    options = ["--evidence", str(evidence), "--model", f"{module}:build", "--loss", f"{module}:loss"]
    kept = ["--results", str(folder / "results"), "--out", str(folder / "report.pdf")]
    command = [sys.executable, "-m", "common.check", *options, *kept]
    status, output = run_command(command, PYTHONPATH=f"{folder}:{ROOT / 'tests' / 'pytorch_impl'}")
    [row] = [dict(row) for path in folder.glob("results/*/marks.csv") for row in csv.DictReader(path.open())]
    return status, output, row


def test_evidence_has_a_row_in_the_table_of_marks_and_a_page(evidence, tmp_path):
    status, output, row = refereed(evidence / "mean of means", "watched_trainings", tmp_path)
    assert (status, row["workers"], row["mark"], row["shares"]) == (1, "2", "wrong", "0.5000 0.5000"), output
    assert row["sentences"].startswith("Gradients counted 0.50, 0.50 instead of 0.80, 0.20: means over different")
    assert "means over different numbers of rows or tokens" in (tmp_path / "report.html").read_text()


def test_the_loop_of_the_readme_is_right(tmp_path):
    section = (ROOT / "common" / "check" / "README.md").read_text().partition("## Your model, your data")[2]
    [loop] = re.findall(r"```python\n(.+?)```", section, re.DOTALL)
    (tmp_path / "my_module.py").write_text(loop)
    shutil.copy(ROOT / "common" / "check" / "watch.py", tmp_path)
    world = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    output_of("torch_ddp", "python", "my_module.py", cwd=tmp_path, **world)
    status, output, row = refereed(tmp_path / "evidence", "my_module", tmp_path)
    assert (status, row["mark"]) == (0, "right"), output


BAD_INPUT = """
import json, shutil, sys
from pathlib import Path
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from common.check.watch import Watch
from common.errors import UserError
from pytorch_impl.watched import check, _imported

folder = Path(sys.argv[1])

def kept(name, rate=0.1, rows=3):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    watch = Watch(model, optimizer, folder / name, steps=(0, 1))
    for _ in range(2):
        batch = {"rows": [torch.ones(rows, 2)], "scale": 2.0, "of": ("text", None)}
        with watch.step(batch):
            optimizer.zero_grad()
            mean(model, batch).backward()
            optimizer.step()
    return folder / name / "step1.rank0.safetensors"

def mean(model, batch):
    assert (type(batch), type(batch["rows"]), batch["of"]) == (dict, list, ("text", None))
    return (batch["scale"] * model(batch["rows"][0])).mean()

def assert_refused(cause, action, *arguments):
    try:
        action(*arguments)
    except UserError as error:
        said = str(error).replace(f"{folder}/", "")
        assert said.startswith(cause) and said.endswith(".") and "\\n" not in said, said
        return
    raise AssertionError(f"It isn't refused: {cause}")

def assert_unreadable(cause, name, build=lambda: nn.Linear(2, 1), loss=mean):
    assert_refused(cause, check, folder / name, build, loss)

kept("right")
assert check(folder / "right", lambda: nn.Linear(2, 1), mean)[1].mistakes == ()
assert_unreadable("nothing has no evidence: train with Watch first.", "nothing")
kept("damaged").write_bytes(b"text")
assert_unreadable("damaged/step1.rank0.safetensors can't be read as evidence (", "damaged")
shutil.copy(kept("two runs"), kept("another run"))
assert_unreadable("another run has evidence of several runs: empty it", "another run")
path = kept("one rank")
with safe_open(path, "pt") as file:
    tensors, facts = {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["watch"])
save_file(tensors, path, {"watch": json.dumps(facts | {"ranks": 2})})
assert_unreadable("one rank lacks rank 1 of step 0: put the files of all ranks there.", "one rank")
kept("other model")
cause = "--model builds none that the weights fit (RuntimeError: Error(s) in loading state_dict"
assert_unreadable(cause, "other model", lambda: nn.Linear(3, 1))
kept("each row")
cause = "--loss has no gradient on the batch of rank 0 in step 0 (RuntimeError: grad can be implicitly"
assert_unreadable(cause, "each row", loss=lambda model, batch: model(batch["rows"][0]))
kept("no rate", rate=0.0)
cause = "no rate/step0.rank0.safetensors can't be read (its learning rate is 0): watch other steps."
assert_unreadable(cause, "no rate")
kept("infinite", rate=1e38)
assert_unreadable("infinite/step1.rank0.safetensors can't be read (weight isn't finite)", "infinite")
cause = "no_module:build can't be imported (ModuleNotFoundError: No module named 'no_module'): name it as"
assert_refused(cause, _imported, "no_module:build")
"""


def test_bad_input_is_refused_in_one_line_with_cause_and_remedy(tmp_path):
    output_of("torch_ddp", "python", "-c", BAD_INPUT, str(tmp_path))
