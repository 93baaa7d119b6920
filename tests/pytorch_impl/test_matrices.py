"""pytorch_impl/matrix_*.py, started as a session starts them: every way over every transport, and by mistake."""

import ast
import re

import pytest

from common.declarations.catalogue import ways
from common.laboratory.matrix_products import Scope, launches
from common.launching.executor import run_planned
from common.launching.launch import python_for
from common.paths import ROOT
from common.records.matrix_products import MatrixRecord, call_seconds, part_shares
from tests import commands

PARTS = {
    "naive": ["to lists", "product", "from lists"],
    "alone": ["product"],
    "rows": ["scatter A", "broadcast B", "product", "gather C"],
    "reduction": ["cut A", "scatter A", "scatter B", "product", "reduce C"],
}
SCOPE = Scope(sizes=(8, 48), naive_sizes=(4, 8), repetitions=1, iterations=3)
SCRIPTS = sorted({way.script for way in ways().values()})


@pytest.fixture(params=ways())
def found(request, tmp_path) -> MatrixRecord:
    """What a launch of each way left; a wrong product would have ended it."""
    [planned] = [each for each in launches(SCOPE, 1) if each.way.name == request.param]
    python_for(planned.way)
    record = run_planned(planned, tmp_path)
    assert record.status == "ok", (record.reason, (tmp_path / record.log).read_text(encoding="utf-8"))
    return record


def test_every_rank_clocks_every_part_of_every_call_and_the_record_says_what_carried_the_matrices(found):
    assert [cell.size for cell in found.cells] == ([4, 8] if found.kind == "naive" else [8, 48])
    for cell in found.cells:
        assert cell.parts == PARTS[found.kind]
        assert [len(calls) for calls in cell.moments_seconds] == [3] * found.world_size
        for calls in cell.moments_seconds:
            assert all(sorted(moments) == moments and len(moments) == len(cell.parts) + 1 for moments in calls)
        assert all(0 < seconds < 10 for seconds in call_seconds(cell))
        assert sum(part_shares(cell).values()) == pytest.approx(1)
    carried = {"rows_gloo": "gloo", "reduction_gloo": "gloo", "naive": "none", "alone": "none"}
    assert found.backend == carried.get(found.way, "mpi, shared memory")
    assert found.world_size == (2 if found.kind in ("rows", "reduction") else 1)
    assert {*found.versions} >= {"python", "numpy", "torch"}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_how_to_start_it(script):
    source = (ROOT / script).read_text(encoding="utf-8")
    [command] = re.findall(r"To start it: `(.+?)`", ast.get_docstring(ast.parse(source)))
    assert script in command
    commands.check(command.partition(" --sizes")[0])
