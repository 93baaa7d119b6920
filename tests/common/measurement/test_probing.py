"""common/measurement/probing.py: which products a step has, how an operation is clocked, what a probe leaves."""

import dataclasses
import itertools
import math

import pytest
from msgspec import structs

from common.contract import model
from common.contract.task import PRESETS, Task
from common.declarations.strategy import Probe
from common.measurement import probing
from common.measurement.machine import Pinning
from common.measurement.world import World
from common.records import ceiling
from common.records.ceiling import AS_TRAINED, ClockedProduct, Product, Window, gigaflops
from tests.common.conftest import NUMPY

ALONE = World(pinning=Pinning([0], oversubscribed=False))

PROBE = Probe(script="numpy_impl/ceiling.py", like="numpy_threads", operation="a sum", tried=({"A": "1"}, {"B": "2"}))


def entry(product, seconds, way=AS_TRAINED):
    """A product that took so long, as a ceiling has it."""
    windows = [Window(repetitions=10, seconds=10 * seconds * factor) for factor in (0.5, 1.0, 3.0)]
    return ClockedProduct(**structs.asdict(product), way=way, windows=windows)


def test_a_step_has_the_products_and_the_operations_of_the_contracts_own_pass():
    products = probing.products_of_step(Task(dimensions=(64, 128, 10)), 32)
    assert products == [
        *(Product(0, kind, 32, 64, 128) for kind in ("forward", "weight gradient")),
        *(Product(1, kind, 32, 128, 10) for kind in ("forward", "weight gradient", "input gradient")),
    ]
    task = PRESETS["pathway"]
    weights = model.parameter_bytes(task) // 4
    first = task.dimensions[0] * task.dimensions[1]
    operations = sum(each.operations for each in probing.products_of_step(task, task.batch))
    assert operations == task.batch * (6 * weights - 2 * first)


def test_convolutions_and_the_products_at_each_position_of_a_text_are_among_them():
    products = probing.products_of_step(PRESETS["mnist_cnn"], 8)
    second = next(each for each in products if each.layer == 1 and each.kind == "input gradient")
    assert second == Product(1, "input gradient", 8, 32, 64, height=14, width=14, size=3, padding=0)
    assert second.operations == 2 * 8 * 12 * 12 * 9 * 32 * 64
    forward = sum(each.operations for each in products if each.kind == "forward")
    assert 3 * forward == 8 * model.operations(PRESETS["mnist_cnn"])
    texts = probing.products_of_step(PRESETS["text_gpt"], 16)
    attention = 2 * 4 * 32**2 * 64
    assert 3 * (sum(each.operations for each in texts if each.kind == "forward") / 16 + attention) == model.operations(
        PRESETS["text_gpt"]
    )
    assert {each.rows for each in texts} == {16 * 32}


@pytest.mark.parametrize(
    ("tries", "window_seconds", "slowest", "calls_of_each"),
    [
        # A call takes 2 ms: two tries each of one, two and four calls, of which the last are long enough to tell from.
        ([*[0.002] * 2, *[0.004] * 2, *[0.008] * 2], 0.01, 1, 5),
        ([9.0, 0.001, *[0.002] * 2, *[0.004] * 2, *[0.008] * 2], 0.01, 1, 10),
        ([0.002] * 2, 0.001, 5, 1),
    ],
    ids=["as it is", "interrupted in the first try", "another rank takes five times as long"],
)
def test_windows_are_as_long_as_was_meant_despite_interruptions_and_for_the_slowest_rank(
    monkeypatch, tries, window_seconds, slowest, calls_of_each
):
    seconds = [*tries, *[window_seconds] * probing.WINDOWS]
    readings = itertools.chain.from_iterable((0.0, each) for each in seconds)
    monkeypatch.setattr(probing.time, "perf_counter", lambda: next(readings))
    world, calls = dataclasses.replace(ALONE, all_gather=lambda own: [own, slowest * own]), []
    windows = probing.clock(lambda: calls.append(1), world, at_once=4)
    expected = Window(repetitions=4 * calls_of_each, seconds=slowest * window_seconds)
    assert windows == [expected] * probing.WINDOWS
    assert len(calls) == 2 * (2 ** (len(tries) // 2) - 1) + calls_of_each * probing.WINDOWS


def test_the_device_has_done_everything_before_the_clock_starts_and_before_it_stops(monkeypatch):
    happened = []
    monkeypatch.setattr(probing.time, "perf_counter", lambda: happened.append("clock") or len(happened))
    world = dataclasses.replace(ALONE, synchronize=lambda: happened.append("device"))
    probing.clock(lambda: happened.append("work"), world)
    assert happened[:5] == ["device", "clock", "work", "device", "clock"]


def test_what_a_probe_measured_is_read_from_its_comparison_with_all_that_says_what_it_was(
    declare, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("B", "7")
    monkeypatch.delenv("A", raising=False)
    small, large = Product(0, "forward", 10, 10, 10), Product(1, "forward", 100, 100, 100)
    products = [entry(small, 1e-6), entry(large, 1e-3), entry(large, 5e-4, way="better")]
    exchange = [Window(repetitions=4, seconds=0.02)]
    strategy = declare(family=dataclasses.replace(NUMPY, probe=PROBE))
    path = tmp_path / ceiling.FOLDER / "one.json"
    task = dataclasses.replace(PRESETS["digits"], scaling="weak", workers=2, record=path)
    world = dataclasses.replace(ALONE, size=2, backend="air")
    probing.finish(strategy, task, world, products, exchange, {"products by": "hand"})
    [found] = ceiling.read_ceilings(tmp_path)
    assert (found.status, found.family, found.framework, found.operation) == ("ok", "NumPy", "numpy", "a sum")
    assert (found.preset, found.rows, found.world_size, found.threads_per_worker) == ("digits", 64, 2, 1)
    assert (found.variables, found.facts, found.backend) == ({"B": "7"}, {"products by": "hand"}, "air")
    assert (found.products, found.exchange) == (products, exchange)
    assert found.exchanged_bytes == model.parameter_bytes(PRESETS["digits"])
    assert found.elapsed_seconds > 0
    # By the median windows of all products of one way.
    assert (gigaflops(found), gigaflops(found, "better")) == pytest.approx((2.002 / 1.001, 4.0))
    assert math.isnan(gigaflops(found, "unheard of"))
    assert capsys.readouterr().out.splitlines() == [
        "products, as trained: 1.001 ms a step, 2 GFLOP/s",
        "products, better: 0.500 ms a step, 4 GFLOP/s",
        "exchange, a sum: 5.000 ms for 0.069 MB",
    ]


def test_the_instruction_sets_are_those_of_the_first_processor_that_matter():
    cpuinfo = "processor : 0\nflags\t\t: fpu avx avx2 avx512f\n\nprocessor : 1\nflags\t\t: fpu amx_tile\n"
    assert probing.instruction_sets(cpuinfo) == ["avx2", "avx512f"]
    assert probing.instruction_sets("processor : 0\n") == []
