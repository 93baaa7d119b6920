"""The table in tf_impl/README.md of what works under TensorFlow's strategies says what TensorFlow and Keras do."""

import subprocess

import pytest

from common.declarations.catalogue import find, strategies
from common.declarations.strategy import CONVENIENCE_OF
from common.launching.launch import python_for
from common.paths import ROOT
from tests.grid import in_grid
from tests.tf_impl.keras_fit import SECONDS, STRATEGIES
from tf_impl.strategies import TENSORFLOW

HEADER = "| strategy | own loop | Keras 3 `fit` |"


@pytest.fixture(scope="module")
def table():
    """The cells of each row, (own loop, fit), by strategy."""
    lines = iter((ROOT / "tf_impl" / "README.md").read_text(encoding="utf-8").splitlines())
    assert HEADER in lines, "tf_impl/README.md has no table of support"
    next(lines)
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            break
        name, *cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        rows[name] = tuple(cells)
    return rows


def test_the_table_has_every_strategy_with_a_loop_of_its_own(table):
    """That their loops work is what the contract tests are for; they try the row of Horovod, too."""
    with_own_loop = {
        name
        for name, strategy in strategies().items()
        if strategy.family is TENSORFLOW and CONVENIENCE_OF not in strategy.compared_with
    }
    working = {name for name, (own_loop, _) in table.items() if own_loop == "works"}
    assert working - {"horovod_tensorflow"} == with_own_loop == set(STRATEGIES)


@pytest.mark.parametrize("strategy", in_grid(STRATEGIES, ["tf_mirrored"]))
def test_the_table_says_what_comes_of_fit(strategy, table):
    command = [str(python_for(find(strategy))), "tests/tf_impl/keras_fit.py", strategy]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=SECONDS + 60)
    assert (result.returncode, result.stdout.strip()) == (0, table[strategy][1]), result.stderr
