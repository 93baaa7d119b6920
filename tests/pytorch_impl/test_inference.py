"""Forward-only throughput, started as a user does: its table, the sentence below it, what it refuses, its own check."""

import os
import re

import pytest

from tests.launching import output_of

WORKERS = len(os.sched_getaffinity(0)) + 1

PROGRAM = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import torch
from common.errors import UserError
from pytorch_impl.inference import data_parallel, main, measure, verdict

def sentence(action, *arguments):
    try:
        return action(*arguments)
    except (RuntimeError, UserError) as error:
        return str(error)

# Five rows over four replicas are parts of two, two and one; one row uses one replica. All in threads, in their order.
class Counting(torch.nn.Linear):
    def forward(self, part):
        assert threading.current_thread() is not threading.main_thread() and torch.is_inference_mode_enabled()
        sizes.append(len(part))
        return super().forward(part)

features, sizes, counting = torch.arange(20.0).reshape(5, 4), [], Counting(4, 3)
with ThreadPoolExecutor(4) as pool:
    parallel = data_parallel(counting, torch.device("cpu"), 4, pool)
    expected = torch.nn.functional.linear(features, counting.weight, counting.bias)
    torch.testing.assert_close(parallel(features), expected)
    torch.testing.assert_close(parallel(features[:1]), expected[:1])
assert sorted(sizes) == [1, 1, 2, 2]

# Logits that differ from one replica's are never measured.
model = torch.nn.Linear(4, 3)
for change in (lambda logits: logits.flip(0), lambda logits: logits * 1.001, lambda logits: logits[:4]):
    said = sentence(measure, model, lambda rows: change(model(rows)), features, 6)
    assert said.startswith("Data parallel's logits of 5 rows aren't one replica's"), said

# It pays from the batch on that no larger one contradicts.
for lower_ends, said in [
    ({1: 0.5, 4: 1.0}, "didn't pay off at any measured batch size."),
    ({1: 0.5, 4: 1.1, 16: 0.9, 64: 1.2, 256: 1.3}, "pays off from a batch of 64."),
    ({1: 1.1, 4: 1.1}, "pays off from a batch of 1."),
    ({1: 0.5, 4: 1.1, 16: 1.2, 64: 0.9}, "pays off at a batch of 4, 16, but not at the largest measured."),
]:
    assert verdict(2, lower_ends) == f"Data parallel over 2 replicas {said}"

for options, cause in [
    (["--threads", "0"], "--threads 0: give a whole number above 0, 10000000 at most."),
    (["--batches", "64", "0"], "--batches 64 0: give one size or more"),
    (["--repetitions", "5"], "--repetitions 5: give at least 6"),
    (["--device", "gpu"], "--device gpu, but torch sees 0 GPUs for 2 workers"),
]:
    sys.argv[1:] = ["--preset", "digits", *options]
    assert sentence(main).startswith(cause), cause
"""


def test_replicas_compute_what_one_does_and_what_cant_be_meant_is_refused():
    output_of("torch_single", "python", "-c", PROGRAM, CUDA_VISIBLE_DEVICES="")


def test_every_batch_size_has_a_row_of_positive_numbers_in_their_intervals_and_the_last_line_is_on_these():
    # The data have 1437 rows, fewer than the largest batch.
    options = ["--preset", "digits", "--repetitions", "6", "--batches", "2000", "1", "64", "1"]
    options += ["--workers", str(WORKERS), "--device", "cpu"]
    output = output_of("torch_single", "python", "-m", "pytorch_impl.inference", *options)
    note = f"lockstep: note: {WORKERS} replicas of --threads 1 don't have a core for each thread."
    assert output.startswith(note)
    lines = [line.replace(",", "").strip("│ ") for line in output.splitlines() if line.startswith("│")]
    rows = [[float(number) for number in re.findall(r"[\d.]+", line)] for line in lines]
    assert [row[:2] for row in rows] == [[1, 6], [64, 6], [2000, 6]], output
    for row in rows:
        one_replica, data_parallel, ratio = row[2:5], row[5:8], row[8:11]
        for median, low, high in (one_replica, data_parallel, ratio):
            assert 0 < low <= median <= high
        assert ratio[0] == pytest.approx(data_parallel[0] / one_replica[0], rel=0.5)
    paying = [batch for batch, *_, low, _ in rows if low > 1]
    subject = f"Data parallel over {WORKERS} replicas "
    assert output.splitlines()[-1].startswith(subject + ("pays off" if paying else "didn't pay off"))
