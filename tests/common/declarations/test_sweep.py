"""common/declarations/sweep.py: the command line of a launch, with the options of nccl-tests."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.command_line import options_of
from common.contract.collective_meanings import Collective
from common.declarations.arguments import parse
from common.declarations.sweep import Sweep, Type

SIZE = st.builds(
    "{}{}".format, st.integers(1, 512).map(lambda count: 8 * count), st.sampled_from(["", "K", "M", "KiB"])
)


SWEEPS = st.builds(
    Sweep,
    collectives=st.lists(st.sampled_from(Collective), min_size=1, max_size=10, unique=True).map(tuple),
    sizes=st.lists(SIZE, min_size=1, max_size=4).map(tuple),
    min_bytes=SIZE,
    max_bytes=SIZE,
    step_factor=st.integers(2, 16),
    messages=st.none() | st.just(Path("messages.json")),
    iterations=st.integers(1, 1000),
    warmup_iterations=st.integers(0, 1000),
    check=st.booleans(),
    data_type=st.sampled_from(get_args(Type)),
    workers=st.integers(2, 127),
    threads=st.integers(1, 8),
    device=st.sampled_from(["auto", "cpu", "gpu"]),
    seed=st.integers(0, 2**63),
    deadline_seconds=st.floats(1e-3, 86400),
    record=st.none() | st.sampled_from([Path("record.json"), Path("/a folder/-r.json"), Path("-r.json")]),
)


def parsed(line):
    return parse(Sweep, "Collectives.", line.split())


def test_the_short_options_are_those_of_nccl_tests_and_each_has_a_long_name():
    sweep = parsed("-b 8 -e 4M -f 8 -n 5 -w 2")
    assert sweep.size_bytes == [8, 64, 512, 4096, 32768, 262144, 2097152]
    assert (sweep.iterations, sweep.warmup_iterations) == (5, 2)
    assert sweep == Sweep(step_factor=8, iterations=5, warmup_iterations=2)
    long = "--min-bytes 16 --max-bytes 1K --step-factor 4 --iterations 3 --warmup-iterations 0 --data-type int32"
    assert parsed(f"{long} --no-check") == parsed("-b 16 -e 1K -f 4 -n 3 -w 0 -d int32 --no-check")
    assert parsed(f"{long} --no-check").check is False


def test_numbers_at_their_bounds_are_accepted():
    at_most, at_least = parsed("--workers 127 --deadline-seconds 86400"), parsed("--workers 2 -w 0 --seed 0")
    assert (at_most.workers, at_most.deadline_seconds) == (127, 86400)
    assert (at_least.workers, at_least.warmup_iterations, at_least.seed) == (2, 0, 0)


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("--sizes 8 4K 64M 1G", [8, 4096, 2**26, 2**30]),
        ("--sizes 1M 8 4kB 4KiB 1024K -e 16M", [8, 4096, 2**20]),
        ("-b 8 -e 64 -f 2", [8, 16, 32, 64]),
        ("-b 8 -e 63 -f 2", [8, 16, 32]),
        ("-b 64 -e 64", [64]),
    ],
)
def test_sizes_in_bytes_or_powers_of_1024_that_are_named_are_measured_once_each_or_those_up_to_the_largest(line, sizes):
    assert parsed(line).size_bytes == sizes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-b 8M -e 4M", "--min-bytes 8M is above --max-bytes 4M: swap them."),
        ("-f 1", "--step-factor 1: give 2 or more."),
        ("--workers 1", "--workers 1: give 2 or more."),
        ("--workers 128", "--workers 128: give 127 at most."),
        ("-w -1", "--warmup-iterations -1: give 0 or more."),
        ("--seed -1", "--seed -1: give 0 or more."),
        ("--deadline-seconds 0", "--deadline-seconds 0.0: give a number above 0."),
        ("--deadline-seconds 86401", "--deadline-seconds 86401.0: give 86400 at most."),
        ("-n 0", "--iterations 0: give 1 or more."),
        ("--threads 0", "--threads 0: give 1 or more."),
        ("-b 4 -d float64", "4 bytes aren't a whole number of float64: give multiples of 8."),
        ("--sizes 8 9", "9 bytes aren't a whole number of float32: give multiples of 4."),
        ("-b 0", "--min-bytes 0 isn't a size: give bytes, such as 8, 4K or 64M."),
        ("-b 1.5K", "--min-bytes 1.5K isn't a size: give bytes, such as 8, 4K or 64M."),
        ("-e 4T", "--max-bytes 4T isn't a size: give bytes, such as 8, 4K or 64M."),
        ("--sizes x", "--sizes x isn't a size: give bytes, such as 8, 4K or 64M."),
        ("-b 1 -e 1000000000000000G -d int8", "That is 80 sizes: give 64 at most."),
        ("--collectives barrier barrier", "--collectives barrier barrier: name each once."),
        ("--collectives", "--collectives: name one at least of send_receive, "),
    ],
)
def test_what_cannot_be_meant_is_refused_with_cause_and_remedy(refusal, line, said):
    assert refusal(lambda: parsed(line)).startswith(said)


@settings(max_examples=40)
@given(SWEEPS)
def test_the_options_of_a_sweep_are_read_as_the_same_sweep(sweep):
    assert parse(Sweep, "Collectives.", options_of(sweep, Sweep())) == sweep
