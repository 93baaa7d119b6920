"""Neither `common` nor `reports` says the name of a strategy, a framework, an environment or a folder of strategies."""

import ast

import pytest

from common.declarations.catalogue import families, strategies
from common.paths import ROOT

SOURCE = "PyTorch's"
"""Documentation that the contract's formulas come from."""


OF_USERS = ("common/check/assignment.py", "common/check/watch.py", "common/check/exercises/")
"""What a user's own training imports, copies or fills in: it speaks of that training's framework."""


def names_said_in(source, names):
    """The declared names that a module says, each with its line: in strings (docstrings too) and in identifiers."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        texts = [getattr(node, name, None) for name in ("id", "attr", "name", "arg", "module")]
        texts += [node.value] if isinstance(node, ast.Constant) else []
        # An array has the name of an environment in it.
        said = (
            " ".join(text for text in texts if isinstance(text, str)).replace(SOURCE, "").lower().replace("array", "")
        )
        found |= {(getattr(node, "lineno", 0), name) for name in names if name in said}
    return found


@pytest.mark.parametrize("folder", ["common", "reports"])
def test_a_folder_that_serves_every_framework_names_none(folder):
    folders = {strategy.script.partition("/")[0] for strategy in strategies().values()}
    names = {*strategies(), *families(), *folders, *(strategy.framework for strategy in strategies().values())}
    said = {
        str(path.relative_to(ROOT)): names_said_in(path.read_text(), names)
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(OF_USERS)
    }
    assert {path: found for path, found in said.items() if found} == {}


@pytest.mark.parametrize(
    "source", ["def torch_loss(): pass", "import horovod_impl", "x = 'started by torchrun'", '"""tensorflow"""']
)
def test_a_name_is_found_however_it_is_said(source):
    assert names_said_in(source, {"torch", "tensorflow", "horovod_impl"})
