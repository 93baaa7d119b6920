"""What is measured beside strategies, started as sessions start it: collectives of libraries, probes and tracers."""

import dataclasses
import re
import sys
from itertools import groupby

import pytest
from msgspec.structs import astuple

from common.contract import model
from common.contract.collective_meanings import Collective
from common.contract.task import PRESETS
from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find, libraries
from common.launching import executor
from common.launching.launch import python_for
from common.measurement import probing
from common.records.ceiling import AS_TRAINED, Ceiling, Product, gigaflops, seconds_of
from common.records.collective_times import Cell, cells_path, read_lines
from common.records.files import from_json, write_record
from common.records.trace import STEP, STEPS, Message, Trace, read_trace, trace_path
from common.sessions import probes
from common.sessions.comparison_scope import Scope
from pytorch_impl.libraries import BY_HAND
from tests.conftest import DEADLINE_SECONDS, run_command
from tests.grid import in_grid
from tests.launching import require_private_networks

CALLS = 3
KIB, MIB = 2**10, 2**20


def launched(program, record, *options, runner=""):
    """What a launch prints, by a runner where one is named; `record` is the path of what it leaves."""
    python_for(program)
    words = ["--runner", runner] * bool(runner) + [program.name, *options, "--record", str(record)]
    return run_command([sys.executable, "-m", "common.launching.launch", *words])


def cells_of(library, folder, *options):
    """What a launch that ended well told of itself and its facts, and what it measured."""
    record = folder / f"{library.name}.json"
    status, output = launched(library, record, *options)
    assert status == 0, output
    about, *lines = read_lines(cells_path(record))
    return about | about["facts"], [from_json(line, Cell) for line in lines if "collective" in line]


# Collectives

OVER_GLOO = {"backend": "gloo", "device": "cpu", "network interface": "lo"}
OF_HOROVOD = {"HOROVOD_CYCLE_TIME": "not set, which means 1 ms"}
SIZES = (8, 4 * KIB, MIB)
MEASURED = [
    ("gloo", 2, (*SIZES, 8 * MIB), OVER_GLOO),
    ("mpi", 2, (*SIZES, 8 * MIB), {"backend": "mpi, shared memory", "device": "cpu", "library": "Open MPI v.+"}),
    ("horovod_gloo", 2, SIZES, OF_HOROVOD | {"backend": "gloo"}),
    ("horovod_mpi", 2, SIZES, OF_HOROVOD | {"backend": "mpi"}),
    ("tensorflow", 2, SIZES, {}),
    ("tf_reduction_to_one_device", 2, SIZES, {}),
    ("tf_hierarchical_copy", 4, SIZES, {}),
    ("tf_mirrored_collectives", 2, SIZES, {}),
    # Not a power of two, so that the parts of a reduce-scatter go where they belong last.
    ("jax", 3, (48, 768 * KIB), OVER_GLOO | {"threads of XLA's pool": "1"}),
    ("jax_in_one_process", 3, (48, 768 * KIB), {"backend": "XLA", "device": "3 devices of the CPU"}),
    # Of a single element some messages are empty.
    *((library.name, 3, (4, 8, 1_200_012), {"backend": "gloo"}) for library in BY_HAND),
]
"""Library, ranks, sizes in bytes, and what the launch tells of itself."""
IN_GRID = {"horovod_mpi", "tf_hierarchical_copy", "tf_mirrored_collectives"} | {library.name for library in BY_HAND[1:]}


@pytest.mark.parametrize(
    ("name", "ranks", "sizes", "about"), in_grid(MEASURED, [case for case in MEASURED if case[0] not in IN_GRID])
)
def test_every_rank_gets_what_belongs_there_and_as_many_bytes_are_sent_as_the_formula_says(
    name, ranks, sizes, about, tmp_path
):
    """The results themselves are checked in the launch, which ends where one is wrong."""
    library = libraries()[name]
    sweep = ["--sizes", *map(str, sizes), "--iterations", str(CALLS), "--warmup-iterations", "1"]
    told, cells = cells_of(library, tmp_path, "--workers", str(ranks), *sweep, "--collectives", *Collective)
    assert all(re.fullmatch(words, str(told[fact]), re.DOTALL) for fact, words in about.items()), told
    expected = {each: {0} if each == Collective.BARRIER else {*sizes} for each in library.collectives}
    assert {each: {cell.size_bytes for cell in cells if cell.collective == each} for each in expected} == expected
    clocks = 1 if library.one_process else ranks
    for cell in cells:
        if cell.collective in expected:
            assert cell.status == "ok", cell
            assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 2 * clocks * [CALLS]
        else:
            assert cell.status == "unsupported"
            assert library.lacks.get(cell.collective, f"has no {cell.collective}") in cell.reason
    require_private_networks()
    measured = [cell for cell in cells if cell.status == "ok"]
    if library.one_process:
        assert {(cell.sent_bytes, cell.formula_bytes) for cell in measured} == {(0.0, 0.0)}
    elif told["backend"].startswith("mpi"):
        # Ranks of a host send next to nothing over the network.
        assert {cell.formula_bytes for cell in cells} == {None}
        assert all(cell.sent_bytes < 100 + cell.size_bytes / 1000 for cell in measured)
    else:
        # Where several ranks send to one, a busy kernel drops segments, which are sent again: up to 10 % more was seen.
        most = 1.15 if name == "gloo" else 1.03
        large = [cell for cell in measured if cell.size_bytes >= 768 * KIB]
        ratios = {(cell.collective, cell.size_bytes): cell.sent_bytes / cell.formula_bytes for cell in large}
        assert ratios
        assert all(0.97 < ratio < most for ratio in ratios.values()), ratios


def test_a_script_that_several_libraries_share_is_told_which_of_them_it_is():
    told = [(each.script, each.options, *each.variables.items()) for each in libraries().values()]
    assert len(set(told)) == len(told)
    assert all({*each.variables.values()} <= {each.name} for each in libraries().values())


@pytest.mark.parametrize("name", ["gloo", "mpi"])
def test_the_messages_of_a_step_are_sent_in_both_directions(name, tmp_path):
    # Of sizes that no other one has: a message that went elsewhere would be wrong, and end the launch.
    messages = [
        Message(collective="send_receive", size_bytes=4096),
        Message(collective="send_receive", size_bytes=1024, backwards=True),
        Message(collective="all_reduce", size_bytes=2048),
    ]
    trace = Trace(strategy="mine", workers=2, source="x", library=name, data_type="float32", messages=messages)
    write_record(tmp_path / "trace", trace)
    few = ["--workers", "2", "--iterations", "2", "--warmup-iterations", "0", "--messages", str(tmp_path / "trace")]
    _, [cell] = cells_of(libraries()[name], tmp_path, *few)
    assert (cell.status, cell.collective, cell.size_bytes) == ("ok", STEP, 7168)
    assert cell.messages == messages
    assert [len(rank) for rank in (*cell.entered_seconds, *cell.left_seconds)] == 4 * [2]


def test_an_odd_number_of_devices_is_refused_where_the_last_would_be_left_out(tmp_path):
    _, output = launched(libraries()["tf_hierarchical_copy"], tmp_path / "run.json", "--workers", "3")
    assert "lockstep: --workers 3: HierarchicalCopyAllReduce adds two halves" in output


# Probes


def probed(strategy: str, preset: str, folder, workers=2, number=0) -> Ceiling:
    """What the framework's probe with this number in the plan left, started as a comparison starts it."""
    probe = probes.planned(Scope(strategies=(strategy,), preset=(preset,)))[number]
    probe = dataclasses.replace(
        probe, task=dataclasses.replace(probe.task, workers=workers, deadline_seconds=DEADLINE_SECONDS)
    )
    found = executor.run_planned(probe, folder)
    assert found.status == "ok", found.reason
    return found


OF_TORCH = {"products by": "mkl|open|accelerate", "torch's own kernels for": ".+"}
OF_XLA = dict.fromkeys(("forward by", "weight gradient by", "input gradient by"), "YNNPACK|Eigen|Eigen and YNNPACK") | {
    "threads of XLA's pool": ".+"
}
PROBED = [
    ("torch_ddp", "digits", "gloo", {AS_TRAINED, "weights stored as (inputs, outputs)"}, OF_TORCH),
    ("horovod_torch", "digits", "gloo", set(), {"built with": ".*Gloo.*"}),
    ("tf_multi_worker_mirrored", "pathway", "RING", {AS_TRAINED}, {}),
    ("jax_data_parallel", "pathway", "gloo", {AS_TRAINED}, OF_XLA),
]
"""Strategy, preset, what carries, in which ways products are computed, and what is told of the framework."""


@pytest.mark.parametrize(("strategy", "preset", "backend", "ways", "facts"), in_grid(PROBED, PROBED[:2]))
def test_every_product_and_the_exchange_of_as_many_bytes_as_gradients_are_clocked_and_it_says_what_computes(
    strategy, preset, backend, ways, facts, tmp_path
):
    found, task = probed(strategy, preset, tmp_path), PRESETS[preset]
    # Which torch has beside what layers do.
    found_ways = {each.way for each in found.products} - {"oneDNN instead"}
    assert found_ways == ways
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
    assert all(re.fullmatch(words, found.facts[fact]) for fact, words in facts.items()), found.facts
    assert found.facts.get("products by") != "mkl" or "MKL" in found.facts["MKL at work"]


@pytest.mark.grid
def test_a_variable_that_is_tried_reaches_tensorflow_and_is_told(tmp_path):
    without = probed("tf_multi_worker_mirrored", "pathway", tmp_path, workers=1, number=1)
    assert without.variables == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert without.facts == {"products by": "Eigen", "oneDNN": "off"}
    assert without.exchange == []


# Tracers

LAYERS = [4 * 1024 * 256, 4 * 256 * 256, 4 * 256 * 256, 4 * 256 * 32]
"""Bytes of the gradients of pathway's layers, in float32 and without biases."""
TRACED = [
    ("torch_ddp", "gloo", ["all_reduce"], [sum(LAYERS)]),
    # Every owner broadcasts what it updated.
    ("torch_zero", "gloo", ["all_reduce", "broadcast"], None),
    ("horovod_torch", "horovod_gloo", ["all_reduce"], None),
    ("tf_multi_worker_mirrored", "tensorflow", ["all_reduce"], [sum(LAYERS)]),
    ("tf_mirrored", "tf_reduction_to_one_device", ["all_reduce"], LAYERS),
    ("jax_fsdp", "jax", ["all_gather", "reduce_scatter"], LAYERS),
    ("jax_devices", "jax_in_one_process", ["all_reduce"], LAYERS),
    ("jax_automatic", "jax", ["all_reduce"], LAYERS),
]
"""Strategy, library, and the collectives of a step one after the other, each in messages of these sizes, if they are
known."""


@pytest.mark.parametrize(("name", "library", "collectives", "sizes"), in_grid(TRACED, TRACED[:1]))
def test_a_tracer_leaves_the_real_messages_which_carry_all_gradients(name, library, collectives, sizes, tmp_path):
    strategy, record = find(name), tmp_path / "run.json"
    task = dataclasses.replace(PRESETS["pathway"], workers=2, steps=25, warmup_steps=5, window_steps=10)
    arguments = to_arguments(task, strategy.options(**strategy.family.traced_with))
    status, output = launched(strategy, record, *arguments, runner=strategy.family.tracer)
    assert status == 0, output
    trace = read_trace(trace_path(record))
    assert (trace.strategy, trace.workers, trace.data_type, trace.library) == (name, 2, "float32", library)
    found = [(each, [*some]) for each, some in groupby(trace.messages, key=lambda message: message.collective)]
    assert [each for each, _ in found] == collectives
    for _, messages in found:
        carried = sorted((message.size_bytes for message in messages), reverse=True)
        assert sum(carried) == sum(LAYERS)
        assert sizes is None or carried == sizes
    # Graphs of TensorFlow's and programs of XLA's have no times.
    assert len(trace.under_way_seconds) == (STEPS if strategy.family.title in ("PyTorch", "Horovod") else 0)
    assert all(0 < seconds < 60 for seconds in trace.under_way_seconds)


def test_a_strategy_of_one_process_is_refused_in_one_line_by_pytorchs_tracer(tmp_path):
    record = tmp_path / "run.json"
    status, output = launched(find("torch_data_parallel"), record, runner="pytorch_impl.tracer")
    assert (status, trace_path(record).exists()) == (2, False)
    [line] = [each for each in output.splitlines() if each.startswith("lockstep: torch_data_parallel")]
    assert line.endswith("within one process: torch.distributed carries nothing that could be replayed.")
    assert "Traceback" not in output
