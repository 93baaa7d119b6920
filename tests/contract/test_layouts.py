"""What can't be laid out, or isn't on this machine, is refused before anything starts, in one line."""

import dataclasses

import pytest

from common import compare, machine
from common.config import PRESETS
from common.plan import Cell

ON_NO_GPU = pytest.mark.skipif(bool(machine.gpu_names()), reason="This machine has GPUs.")

REFUSED = [
    ("torch_model_parallel", {"workers": 4}, "4 pipeline stages for 3 layers: use --workers 3 or fewer"),
    ("torch_model_parallel", {"workers": 2, "micro_batches": 5}, "64 rows doesn't divide into 5 micro-batches"),
    ("torch_tensor_parallel", {"workers": 3}, "split by its 64 inputs, which 3 workers don't divide"),
    ("torch_tensor_parallel", {"workers": 2, "dimensions": (64, 128, 63, 10)}, "split by its 63 outputs"),
    ("torch_model_parallel", {"workers": 2, "exchange": False}, "can't compute without each other; leave it out"),
    ("torch_tensor_parallel", {"workers": 2, "exchange": False}, "can't compute without each other; leave it out"),
    ("torch_ddp", {"workers": 2, "backend": "mpi"}, "torch_ddp doesn't use MPI; choose gloo or nccl"),
    ("torch_sync_sgd", {"workers": 3, "backend": "mpi"}, "doesn't divide by 3 workers: use --batch 63 or 66"),
    ("horovod_torch", {"workers": 2, "backend": "nccl"}, "Horovod takes NCCL by itself"),
    ("horovod_torch", {"workers": 2, "adasum": True}, "has Adasum over MPI alone; add --backend mpi"),
    ("horovod_torch", {"workers": 3, "batch": 66, "adasum": True, "backend": "mpi"}, "use 1, 2, 4 or 8"),
    ("torch_ddp", {"workers": 2, "cycle_milliseconds": 1.0}, "has no effect on torch_ddp"),
    pytest.param(
        *("horovod_torch", {"workers": 2, "hierarchical_all_reduce": True}, "but this machine has none; leave it out"),
        marks=ON_NO_GPU,
    ),
    pytest.param(
        *("torch_ddp", {"workers": 2, "backend": "nccl"}, "which joins GPUs, but this machine has none"),
        marks=ON_NO_GPU,
    ),
    pytest.param(
        *("torch_fsdp", {"workers": 2, "device": "gpu"}, "this machine has 0 GPUs for 2 workers"), marks=ON_NO_GPU
    ),
]


@pytest.mark.parametrize(("strategy", "options", "words"), REFUSED)
def test_the_launcher_refuses_it_in_one_line_and_starts_nothing(strategy, options, words, launch):
    launched = launch(strategy, dataclasses.replace(PRESETS["digits"], **options))
    [line] = [line for line in launched.output.splitlines() if not line.startswith("lockstep: note: ")]
    assert line.startswith("lockstep: ")
    assert words in line
    assert launched.status == 2
    assert launched.record is None


@pytest.mark.parametrize(("strategy", "options", "words"), REFUSED)
def test_a_comparison_counts_it_as_unsupported_and_says_why(strategy, options, words, tmp_path):
    config = dataclasses.replace(PRESETS["digits"], **options)
    record = compare.run_cell(Cell(strategy, config.workers, "throughput", 1, config), tmp_path)
    assert (record.status, record.world_size) == ("unsupported", config.workers)
    assert words in record.reason
    assert "lockstep: " not in record.reason
