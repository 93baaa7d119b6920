"""The table in tf_impl/README.md of what works under TensorFlow's strategies says what TensorFlow and Keras do."""

import re
import subprocess

import pytest

from common.declarations.catalogue import find, strategies
from common.declarations.strategy import CONVENIENCE_OF
from common.launching.launch import python_for
from common.paths import ROOT
from tests.tf_impl.keras_fit import SECONDS, STRATEGIES
from tf_impl.strategies import TENSORFLOW

README = (ROOT / "tf_impl" / "README.md").read_text(encoding="utf-8")
HEADER = "| strategy | own loop | Keras 3 `fit` |\n"
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", README.partition(HEADER)[2].partition("\n\n")[0], re.MULTILINE)
"""Of the table: strategy, own loop, fit."""


def test_the_table_has_every_strategy_with_a_loop_of_its_own():
    """That their loops work is what the contract tests are for; they try the row of Horovod, too."""
    with_own_loop = {
        name
        for name, strategy in strategies().items()
        if strategy.family is TENSORFLOW and CONVENIENCE_OF not in strategy.compared_with
    }
    working = {name for name, own_loop, _ in ROWS if own_loop == "works"}
    assert working - {"horovod_tensorflow"} == with_own_loop == set(STRATEGIES)


@pytest.mark.grid
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_table_says_what_comes_of_fit(strategy):
    command = [str(python_for(find(strategy))), "-m", "tests.tf_impl.keras_fit", strategy]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=SECONDS + 60)
    outcomes = {name: outcome.strip("`") for name, _, outcome in ROWS}
    assert (result.returncode, result.stdout.strip()) == (0, outcomes[strategy]), result.stderr
