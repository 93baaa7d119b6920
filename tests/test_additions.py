"""common/declarations/README.md holds: one folder adds a framework, in which a script and an entry add a strategy."""

import json
import os
import re
import shutil
from pathlib import Path

import nox
import pytest

from common.contract.dataset import load, preset_task
from common.declarations.catalogue import find
from common.environments.inventory import Environment
from common.launching.launch import python_for
from common.paths import ROOT
from common.records.files import read_records
from common.records.training import Record
from reports.document import compose
from reports.tables.material import Material
from reports.tables.results import read_results
from tests.conftest import MPI_AS_ROOT, run_command

ADDITIONS = ROOT / "tests" / "additions"
CONTROLS = ("other_rows", "another_shard", "whole_batch", "late_schedule", "lost_momentum")
TOOLS = ROOT / ".nox" / "tools" / "bin"


def copy_of_the_checkout(folder):
    ignored = shutil.ignore_patterns(".*", "__pycache__", "results", "out", "additions")
    return Path(shutil.copytree(ROOT, folder, ignore=ignored))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of this checkout with a framework of its own that nobody else knows.

    The framework's dependency group is served by the environment that has mpi4py and Open MPI already.
    """
    python_for(find("torch_single"))
    # What fills the cache of data is in the environment of the tests alone.
    load(preset_task("mnist_5k"))
    folder = copy_of_the_checkout(tmp_path_factory.mktemp("added") / "checkout")
    shutil.copytree(ADDITIONS / "numpy_impl", folder / "numpy_impl")
    groups = folder / "pyproject.toml"
    group = '[dependency-groups]\nnumpy = [{ include-group = "base" }, { include-group = "mpi" }, "mpi4py==4.1.2"]\n'
    groups.write_text(groups.read_text().replace("[dependency-groups]\n", group))
    served = folder / ".nox" / "numpy"
    served.mkdir(parents=True)
    for name in ("tools", "torch"):
        (folder / ".nox" / name).symlink_to(ROOT / ".nox" / name)
    for path in (ROOT / ".nox" / "torch").iterdir():
        (served / path.name).symlink_to(path)
    # It says what it is made from, else Nox would make it again, in the other's place.
    made = served / "made.json"
    version = json.loads(made.read_text())["python"]
    made.unlink()
    requirements = nox.project.dependency_groups(nox.project.load_toml(groups), "numpy")
    environment = Environment("numpy", tuple(dict.fromkeys(requirements)))
    made.write_text(json.dumps(environment.ingredients(version) | {"folder": str(served.resolve())}))
    return folder


def run(checkout, *command):
    return run_command([str(TOOLS / command[0]), *command[1:]], cwd=checkout, **MPI_AS_ROOT)


def test_nox_has_their_sessions_in_its_menu(checkout):
    status, output = run(checkout, "nox", "-l")
    assert status == 0, output
    menu = [line[2:] for line in output.splitlines() if " -> " in line]
    for line in (
        "numpy [development] -> Make the environment of NumPy's strategies; options after `--` are uv's.",
        "numpy_single [strategies] -> No distribution: NumPy's baseline.",
        "numpy_data_parallel [strategies] -> One process per worker, gradients averaged by MPI; 2 workers unless "
        "`-- --workers N` says otherwise.",
    ):
        assert line in menu


@pytest.mark.grid
def test_the_contract_tests_hold_them_to_the_oracle_with_their_option_and_catch_their_controls(checkout):
    name = "numpy_data_parallel"
    tests = [
        f"test_contract.py::test_a_strategy_follows_the_oracle_in_every_case[{name}-pathway]",
        f"test_contract.py::test_a_strategy_follows_the_oracle_in_every_case[{name}-last_first-True]",
        f"test_contract.py::test_without_exchange_every_worker_does_what_the_declaration_says[{name}]",
        *(f"test_controls.py::test_what_is_broken_is_caught[{name}-{control}]" for control in CONTROLS),
    ]
    paths = [f"tests/contract/{test}" for test in tests]
    status, output = run(checkout, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths)
    assert status == 0, output
    assert re.findall(r"(\d+) passed", output) == [str(len(tests))], output


@pytest.mark.grid
def test_a_comparison_launches_them_and_its_report_shows_them_beside_their_base(checkout):
    names = ["numpy_single", "numpy_data_parallel"]
    scope = ["--strategies", *names, "--workers", "2", "--preset", "digits", "--repetitions", "1"]
    status, output = run(checkout, "python", "-m", "common.sessions.compare", *scope)
    assert status == 0, output
    [folder] = (checkout / "results").iterdir()
    records = list(read_records(folder, Record).values())
    assert {(record.strategy, record.status) for record in records} == {(name, "ok") for name in names}, output
    content, _ = compose(Material(read_results(folder)))
    text = str(content)
    for words in (*names, "numpy_single (", "2 (N - 1) times the bytes of the gradients"):
        assert words in text
    assert (checkout / "reports" / "out" / "comparison.pdf").read_bytes().startswith(b"%PDF")
    made = ["comparison-tables", "comparison.html", "comparison.pdf"]
    assert sorted(os.listdir(checkout / "reports" / "out")) == made


SOFTPLUS = '''

@dataclass(frozen=True)
class Softplus(Layer):
    """log(1 + exp(x))."""

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        return Passed(np.logaddexp(0, values), lambda gradient, _: (lambda: gradient / (1 + np.exp(-values)), {}))
'''
"""A kind of layer that isn't there."""


def put(path, text, other):
    """Put another text in place of the first of its kind in a file."""
    path.write_text(path.read_text(encoding="utf-8").replace(text, other, 1), encoding="utf-8")


def test_one_class_and_one_line_in_a_framework_add_a_kind_of_layer(tmp_path):
    """In a copy of this checkout in which every MLP begins with a layer of a new kind."""
    python_for(find("torch_ddp"))
    folder = copy_of_the_checkout(tmp_path / "checkout")
    (folder / ".nox").symlink_to(ROOT / ".nox")
    with (folder / "common" / "contract" / "layers.py").open("a", encoding="utf-8") as layers:
        layers.write(SOFTPLUS)
    dense = "return _dense_layers(task, task"
    put(folder / "common" / "contract" / "model.py", dense, dense.replace("_dense", "layers.Softplus(), *_dense"))
    path, case = folder / "pytorch_impl" / "model.py", "        case Activation(kind):\n"
    launch = ["python", "-m", "common.launching.launch"]
    status, output = run(folder, *launch, "torch_single", "--steps", "60")
    assert status == 2, output
    assert f"PyTorch has no Softplus layer here: add it to build_layer in {path}." in output
    put(path, "from common.contract.layers import (\n", "from common.contract.layers import (\n    Softplus,\n")
    put(path, case, f"        case Softplus():\n            return nn.Softplus()\n{case}")
    steps = ["--steps", "20", "--warmup-steps", "5", "--window-steps", "5"]
    status, output = run(folder, *launch, "torch_ddp", "--workers", "2", *steps, "--record", "results/one.json")
    assert status == 0, output
    assert "Each worker's gradient counted 0.5000 times" in output
    assert output.rstrip().endswith(": as declared."), output
