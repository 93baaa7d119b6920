"""Forward-only throughput, started as a user does: its table, the sentence below it, what it refuses, its own check."""

import json
import os
import re

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from tests.conftest import run_command

WORKERS = len(os.sched_getaffinity(0)) + 1
VERDICTS = [
    ({1: 0.5, 4: 0.9}, "didn't pay off at any measured batch size."),
    ({1: 0.5, 4: 1.0}, "didn't pay off at any measured batch size."),
    ({1: 0.5, 4: 1.1, 16: 0.9, 64: 1.2, 256: 1.3}, "pays off from a batch of 64."),
    ({1: 1.1, 4: 1.1}, "pays off from a batch of 1."),
    ({1: 0.5, 4: 1.1, 16: 1.2, 64: 0.9}, "pays off at a batch of 4, 16, but not at the largest measured."),
]
REFUSALS = [
    (["--threads", "0"], "--threads 0: give a whole number above 0, 10000000 at most."),
    (["--batches", "64", "0"], "--batches 64 0: give one size or more"),
    (["--repetitions", "5"], "--repetitions 5: give at least 6"),
    (["--device", "gpu"], "--device gpu, but torch sees 0 GPUs for 2 workers"),
]

PROGRAM = """
import json, sys, threading
from concurrent.futures import ThreadPoolExecutor
import torch
from common.errors import UserError
from pytorch_impl.inference import data_parallel, main, measure, verdict

class Counting(torch.nn.Linear):
    def forward(self, part):
        assert threading.current_thread() is not threading.main_thread() and torch.is_inference_mode_enabled()
        sizes.append(len(part))
        return super().forward(part)

verdicts, refusals = json.loads(sys.argv[1])
features, sizes, counting = torch.arange(20.0).reshape(5, 4), [], Counting(4, 3)
with ThreadPoolExecutor(4) as pool:
    parallel = data_parallel(counting, torch.device("cpu"), 4, pool)
    expected = torch.nn.functional.linear(features, counting.weight, counting.bias)
    torch.testing.assert_close(parallel(features), expected)
    torch.testing.assert_close(parallel(features[:1]), expected[:1])

def sentence(action, *arguments):
    try:
        action(*arguments)
    except (RuntimeError, UserError) as error:
        return str(error)

def start(options):
    sys.argv[1:] = ["--preset", "digits", *options]
    main()

model = torch.nn.Linear(4, 3)
broken = (lambda logits: logits.flip(0), lambda logits: logits * 1.001, lambda logits: logits[:4])
found = {
    "sizes": sorted(sizes),
    "verdicts": [verdict(2, {int(batch): low for batch, low in each.items()}) for each in verdicts],
    "broken": [sentence(measure, model, lambda rows: change(model(rows)), features, 6) for change in broken],
    "refusals": [sentence(start, options) for options in refusals],
}
print(json.dumps(found))
"""


def torch_python():
    return str(python_for(find("torch_single")))


def rows_of(output):
    """The table's rows as numbers: batch, n, three medians, each with the two ends of its interval."""
    rows = [line.replace(",", "").strip("│ ") for line in output.splitlines() if line.startswith("│")]
    return [[float(number) for number in re.findall(r"[\d.]+", row)] for row in rows]


@pytest.fixture(scope="module")
def output():
    # The data have 1437 rows, fewer than the largest batch.
    options = ["--preset", "digits", "--repetitions", "6", "--batches", "2000", "1", "64", "1"]
    options += ["--workers", str(WORKERS), "--device", "cpu"]
    status, output = run_command([torch_python(), "-m", "pytorch_impl.inference", *options])
    assert status == 0, output
    return output


def test_every_batch_size_has_one_row_of_positive_numbers_in_their_intervals(output):
    note = f"lockstep: note: {WORKERS} replicas of --threads 1 don't have a core for each thread."
    assert output.startswith(note)
    rows = rows_of(output)
    assert [row[:2] for row in rows] == [[1, 6], [64, 6], [2000, 6]], output
    for row in rows:
        assert len(row) == 11
        for median, low, high in (row[2:5], row[5:8], row[8:11]):
            assert 0 < low <= median <= high


@pytest.fixture(scope="module")
def found(output):
    """What a process with torch found; its first two verdicts are on the table's ratios."""
    lower_ends = {int(row[0]): row[9] for row in rows_of(output)}
    # A ratio just above 1 is printed as 1.000.
    rounded_up = {batch: low + 0.0005 for batch, low in lower_ends.items()}
    cases = [[lower_ends, rounded_up, *(ends for ends, _ in VERDICTS)], [options for options, _ in REFUSALS]]
    status, output = run_command([torch_python(), "-c", PROGRAM, json.dumps(cases)], CUDA_VISIBLE_DEVICES="")
    assert status == 0, output
    return json.loads(output.splitlines()[-1])


def test_data_parallel_pays_from_the_batch_on_that_no_larger_one_contradicts(found, output):
    assert found["verdicts"][2:] == [f"Data parallel over 2 replicas {sentence}" for _, sentence in VERDICTS]
    last = output.splitlines()[-1]
    assert last.replace(f"over {WORKERS} replicas", "over 2 replicas") in found["verdicts"][:2]


def test_replicas_compute_in_threads_of_their_own_and_their_logits_come_back_in_order(found):
    """Five rows over four replicas are parts of two, two and one; one row uses one replica."""
    assert found["sizes"] == [1, 1, 2, 2]


def test_logits_that_differ_from_one_replicas_are_never_measured(found):
    assert len(found["broken"]) == 3
    assert all(each.startswith("Data parallel's logits of 5 rows aren't one replica's") for each in found["broken"])


def test_what_cant_be_meant_is_refused(found):
    for sentence, (_, cause) in zip(found["refusals"], REFUSALS, strict=True):
        assert sentence.startswith(cause)
