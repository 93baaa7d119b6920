"""Launches of the laboratory, of probes and of tracers, as sessions make them, for the tests of every framework."""

import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import astuple

from common.contract import model
from common.contract.collective_meanings import Collective
from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.declarations.library import Library
from common.declarations.strategy import Strategy
from common.launching import executor
from common.launching.launch import python_for
from common.measurement import probing
from common.records.ceiling import Ceiling, Product, gigaflops, seconds_of
from common.records.collective_times import Cell, cells_path, read_lines
from common.records.files import from_json
from common.records.trace import Trace, read_trace, trace_path
from common.sessions import probes
from common.sessions.comparison_scope import Scope
from tests.conftest import run_command
from tests.launching import require_private_networks

CALLS = 3


def launched(program: Library | Strategy, record: Path, *options: str, runner: str = "") -> str:
    """What a launch prints that ends well, as a session makes it, by a runner where one is named."""
    python_for(program)
    words = ["--runner", runner] * bool(runner) + [program.name, *options, "--record", str(record)]
    status, output = run_command([sys.executable, "-m", "common.launching.launch", *words])
    assert status == 0, output
    return output


def measured(
    library: Library, folder: Path, sizes: tuple[str, ...], workers: int = 2
) -> tuple[dict[str, object], list[Cell]]:
    """What a launch told of itself, and measured of every collective there is at these sizes, in `CALLS` calls."""
    record = folder / f"{library.name}.json"
    sweep = ["--sizes", *sizes, "--iterations", str(CALLS), "--warmup-iterations", "1", "--collectives", *Collective]
    launched(library, record, "--workers", str(workers), *sweep)
    about, *lines = read_lines(cells_path(record))
    return about, [from_json(line, Cell) for line in lines if "collective" in line]


def assert_as_declared(cells: list[Cell], library: Library, sizes: Iterable[int], clocks: int = 2) -> None:
    """Fail unless every call of what a library has was clocked at each size, and the rest says why it isn't there.

    The results themselves are checked in the launch, which ends where one is wrong.
    """
    expected = {name: {0} if name == Collective.BARRIER else {*sizes} for name in library.collectives}
    measured = {name: {cell.size_bytes for cell in cells if cell.collective == name} for name in expected}
    assert measured == expected
    for cell in cells:
        if cell.collective in expected:
            assert cell.status == "ok", cell
            assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 2 * clocks * [CALLS]
        else:
            assert cell.status == "unsupported"
            assert library.lacks.get(cell.collective, f"has no {cell.collective}") in cell.reason


def assert_sent_by_formula(cells: list[Cell], at_least: int, most: float = 1.03) -> None:
    """Fail unless every call of so many bytes or more sent what its formula says, and at most `most` times that."""
    require_private_networks()
    large = [cell for cell in cells if cell.size_bytes >= at_least and cell.status == "ok"]
    assert large
    ratios = {(cell.collective, cell.size_bytes): cell.sent_bytes / cell.formula_bytes for cell in large}
    assert all(0.97 < ratio < most for ratio in ratios.values()), ratios


def assert_not_over_the_network(cells: list[Cell]) -> None:
    """Fail unless what was sent over the network is next to nothing."""
    require_private_networks()
    for cell in cells:
        assert cell.status == "unsupported" or cell.sent_bytes < 100 + cell.size_bytes / 1000, cell


def assert_nothing_sent(cells: list[Cell]) -> None:
    """Fail unless what was measured within one process sent nothing, as its formula says."""
    require_private_networks()
    assert {(cell.sent_bytes, cell.formula_bytes) for cell in cells if cell.status == "ok"} == {(0.0, 0.0)}


def trace_of(name: str, folder: Path, *options: str) -> Trace:
    """The messages of a step of a strategy on pathway, as its framework's tracer finds them with two workers."""
    strategy, record = find(name), folder / "run.json"
    options = ("--workers", "2", "--preset", "pathway", *options)
    launched(strategy, record, *options, runner=strategy.family.tracer)
    trace = read_trace(trace_path(record))
    assert (trace.strategy, trace.workers, trace.data_type) == (name, 2, "float32")
    return trace


def probed(strategy: str, preset: str, folder: Path, workers: int = 2, number: int = 0) -> Ceiling:
    """What the framework's probe with this number in the plan left, started as a comparison starts it."""
    probe = probes.planned(Scope(strategies=(strategy,), preset=(preset,)))[number]
    probe = dataclasses.replace(probe, task=dataclasses.replace(probe.task, workers=workers))
    found = executor.run_planned(probe, folder)
    assert found.status == "ok", found.reason
    return found


def assert_products_and_exchange(found: Ceiling, backend: str, ways: set[str]) -> None:
    """Fail unless every product of a step was clocked in each way, and the exchange of as many bytes as gradients."""
    task = PRESETS[found.preset]
    assert {each.way for each in found.products} == ways
    for way in ways:
        products = [Product(*astuple(each)[:5]) for each in found.products if each.way == way]
        assert products == probing.products_of_step(task, 64)
        # More than any core has: 2 units for 16 fused multiplications and additions, 5 billion times a second. What
        # nobody reads, and what is taken for the same product, some compilers don't compute.
        assert 0.01 < gigaflops(found, way) < 2 * 2 * 16 * 5
    assert (found.backend, found.world_size) == (backend, 2)
    assert found.exchanged_bytes == model.parameter_bytes(task)
    assert len(found.exchange) == probing.WINDOWS
    # At least as long as the memory takes for the bytes that are sent, at 100 GB/s.
    assert 2 * found.exchanged_bytes / 1e11 < seconds_of(found.exchange) < 10
