"""Forward-only throughput, started as a user does: its table, the sentence below it, what it refuses, its own check."""

import json
import re

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command

PARALLEL = """
import torch
from concurrent.futures import ThreadPoolExecutor
from pytorch_impl.inference import data_parallel, measure, verdict
cpu, model = torch.device("cpu"), torch.nn.Linear(4, 3)
features = torch.arange(20.0).reshape(5, 4)
"""


def torch_python():
    return str(python_for(find("torch_single")))


def infer(*options, **environment):
    command = [torch_python(), "-m", "pytorch_impl.inference", "--preset", "digits", "--repetitions", "6"]
    return run_command([*command, *options], **environment)


def evaluate(program):
    return run_command([torch_python(), "-c", PARALLEL + program])


def rows_of(output):
    """The table's rows as numbers: batch, n, three medians, each with the two ends of its interval."""
    rows = [line.replace(",", "").strip("│ ") for line in output.splitlines() if line.startswith("│")]
    return [[float(number) for number in re.findall(r"[\d.]+", row)] for row in rows]


@pytest.fixture(scope="module")
def output():
    # The data have 1437 rows, fewer than the largest batch.
    status, output = infer("--batches", "2000", "1", "64", "1")
    assert status == 0, output
    return output


def test_every_batch_size_has_one_row_of_positive_numbers_in_their_intervals(output):
    rows = rows_of(output)
    assert [row[:2] for row in rows] == [[1, 6], [64, 6], [2000, 6]], output
    for row in rows:
        assert len(row) == 11
        for median, low, high in (row[2:5], row[5:8], row[8:11]):
            assert 0 < low <= median <= high


def test_the_sentence_at_the_end_follows_from_the_tables_ratios(output):
    lower_ends = {int(row[0]): row[9] for row in rows_of(output)}
    # A ratio just above 1 is printed as 1.000.
    rounded_up = {batch: low + 0.0005 for batch, low in lower_ends.items()}
    _, verdicts = evaluate(f"for lower_ends in {lower_ends}, {rounded_up}: print(verdict(2, lower_ends))")
    assert output.splitlines()[-1] in verdicts.splitlines()


VERDICTS = [
    ({1: 0.5, 4: 0.9}, "didn't pay off at any measured batch size."),
    ({1: 0.5, 4: 1.0}, "didn't pay off at any measured batch size."),
    ({1: 0.5, 4: 1.1, 16: 0.9, 64: 1.2, 256: 1.3}, "pays off from a batch of 64."),
    ({1: 1.1, 4: 1.1}, "pays off from a batch of 1."),
    ({1: 0.5, 4: 1.1, 16: 1.2, 64: 0.9}, "pays off at a batch of 4, 16, but not at the largest measured."),
]


def test_data_parallel_pays_from_the_batch_on_that_no_larger_one_contradicts():
    status, output = evaluate(f"for lower_ends, _ in {VERDICTS}: print(verdict(2, lower_ends))")
    expected = [f"Data parallel over 2 replicas {sentence}" for _, sentence in VERDICTS]
    assert (status, output.splitlines()) == (0, expected)


def test_replicas_compute_in_threads_of_their_own_and_their_logits_come_back_in_order():
    """Five rows over four replicas are parts of two, two and one; one row uses one replica."""
    status, output = evaluate("""
import threading
class Counting(torch.nn.Linear):
    def forward(self, part):
        assert threading.current_thread() is not threading.main_thread() and torch.is_inference_mode_enabled()
        sizes.append(len(part))
        return super().forward(part)
sizes, counting = [], Counting(4, 3)
with ThreadPoolExecutor(4) as pool:
    parallel = data_parallel(counting, cpu, 4, pool)
    expected = torch.nn.functional.linear(features, counting.weight, counting.bias)
    torch.testing.assert_close(parallel(features), expected)
    torch.testing.assert_close(parallel(features[:1]), expected[:1])
print(sorted(sizes))
""")
    assert (status, output) == (0, "[1, 1, 2, 2]\n")


def test_logits_that_differ_from_one_replicas_are_never_measured():
    status, output = evaluate("""
for broken in (lambda logits: logits.flip(0), lambda logits: logits * 1.001, lambda logits: logits[:4]):
    try:
        measure(model, lambda features: broken(model(features)), features, 6)
    except RuntimeError as error:
        print(error)
""")
    lines = [line for line in output.splitlines() if line.startswith("Data parallel's logits of 5 rows aren't one rep")]
    assert (status, len(lines)) == (0, 3), output


REFUSALS = [
    (["--threads", "0"], "--threads 0: give a whole number above 0, 10000000 at most."),
    (["--batches", "64", "0"], "--batches 64 0: give one size or more"),
    (["--repetitions", "5"], "--repetitions 5: give at least 6"),
    (["--device", "gpu"], "--device gpu, but torch sees 0 GPUs for 2 workers"),
]


def test_what_cant_be_meant_is_refused():
    program = """
import json, sys
from common.errors import UserError
from pytorch_impl.inference import main
for options in json.loads(sys.argv[1]):
    sys.argv[1:] = ["--preset", "digits", *options]
    try:
        main()
    except UserError as error:
        print(error)
"""
    command = [torch_python(), "-c", program, json.dumps([options for options, _ in REFUSALS])]
    status, output = run_command(command, CUDA_VISIBLE_DEVICES="")
    assert status == 0, output
    for line, (_, cause) in zip(output.splitlines(), REFUSALS, strict=True):
        assert line.startswith(cause)


def test_replicas_without_a_core_for_each_thread_are_noted():
    _, output = infer("--workers", "2", "--threads", "512", "--batches", "1", "--device", "cpu")
    assert output.startswith("lockstep: note: 2 replicas of --threads 512 don't have a core for each thread.")
