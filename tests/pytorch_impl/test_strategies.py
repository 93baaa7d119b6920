"""pytorch_impl/strategies.py: what PyTorch's strategies can't have, how they are started, and what they send."""

import dataclasses
from pathlib import Path

import pytest

from common.contract.task import Task
from common.declarations.catalogue import strategies
from common.declarations.strategy import Launch, LaunchHost, label
from common.errors import UserError
from common.launching import exit_cause
from common.launching.exit_cause import Ended
from pytorch_impl.strategies import (
    ACCELERATE_DDP,
    DATA_PARALLEL,
    DDP,
    FSDP,
    HOOK_DDP,
    LIGHTNING_DDP,
    LOCAL_SGD,
    MODEL_PARALLEL,
    RAY_TRAIN,
    SINGLE,
    SYNC_SGD,
    TENSOR_PARALLEL,
    TORCHRUN,
    ZERO,
    ZERO_ENGINE,
)

STARTED_BY_TORCHRUN = [strategy for strategy in strategies().values() if strategy.launcher is TORCHRUN]
IN_REPLICAS = (DDP, HOOK_DDP, SYNC_SGD, ZERO, LIGHTNING_DDP, ACCELERATE_DDP, RAY_TRAIN)
AROUND_TORCH = (LIGHTNING_DDP, ACCELERATE_DDP, ZERO_ENGINE, RAY_TRAIN)
PLACES = tuple(LaunchHost(f"host{number}", f"10.0.0.{number}", "10.0.0.0/24", "eth0", workers=2) for number in (1, 2))
NCCL, GLOO = {"backend": "nccl"}, {"backend": "gloo"}
ELSEWHERE = {"address": "ray://head:10001"}
KEPT = {"checkpoint": Path("weights"), "checkpoint_steps": 50}
APART = {"record": Path("a/run.json"), "checkpoint": Path("b/weights")}


# What can't be had


@pytest.mark.parametrize(
    ("strategy", "values", "options", "workers", "gpus", "cause"),
    [
        *((each, {}, NCCL, 2, 0, "joins GPUs, but this machine has none") for each in STARTED_BY_TORCHRUN),
        *((each, {}, NCCL, 2, 2, None) for each in STARTED_BY_TORCHRUN),
        *((each, {}, GLOO, 2, 0, None) for each in STARTED_BY_TORCHRUN),
        *((each, {"device": "gpu"}, GLOO, 2, 1, "2 workers have 1: start fewer") for each in AROUND_TORCH),
        *((each, {"device": "gpu"}, GLOO, 2, 2, None) for each in AROUND_TORCH),
        (MODEL_PARALLEL, {}, {}, 3, 0, None),
        (MODEL_PARALLEL, {}, {}, 4, 0, "4 pipeline stages for 3 layers: use --workers 3 or fewer"),
        (MODEL_PARALLEL, {}, {"micro_batches": 64}, 2, 0, None),
        (MODEL_PARALLEL, {}, {"micro_batches": 5}, 2, 0, "A batch of 64 rows doesn't divide into 5 micro-batches"),
        (MODEL_PARALLEL, {"batch": 16, "scaling": "weak"}, {"micro_batches": 32}, 2, 0, None),
        (MODEL_PARALLEL, {"batch": 16, "scaling": "weak"}, {"micro_batches": 3}, 2, 0, "A batch of 32 rows doesn't"),
        (TENSOR_PARALLEL, {}, {}, 4, 0, None),
        (TENSOR_PARALLEL, {"batch": 63}, {}, 3, 0, "Layer 0 is split by its 64 inputs, which 3 workers don't divide"),
        (LOCAL_SGD, KEPT, {"local_steps": 25}, 2, 0, None),
        (LOCAL_SGD, KEPT, {"local_steps": 8}, 2, 0, "give a multiple of --local-steps 8"),
        (SINGLE, {}, {"execution": "graphed"}, 1, 1, None),
        (SINGLE, {}, {"execution": "graphed"}, 1, 0, "--execution graphed makes CUDA graphs"),
        (SINGLE, {"device": "cpu"}, {"execution": "graphed"}, 1, 1, "--execution graphed makes CUDA graphs"),
        (RAY_TRAIN, APART, {}, 2, 0, None),
        (RAY_TRAIN, APART, ELSEWHERE, 2, 0, "name --checkpoint beside --record"),
        (RAY_TRAIN, {"inject": "kill:rank=1,step=5"}, ELSEWHERE, 2, 0, "leave --address out"),
        (RAY_TRAIN, {"inject": "missing:rank=1"}, {}, 2, 0, "Ray tells a process its rank too late for it"),
    ],
)
def test_what_a_strategy_cannot_have_is_refused_with_a_remedy(strategy, values, options, workers, gpus, cause):
    if cause is None:
        strategy.check(Task(**values), strategy.options(**options), workers, gpus)
    else:
        with pytest.raises(UserError, match=cause):
            strategy.check(Task(**values), strategy.options(**options), workers, gpus)


# Labels


def test_options_that_round_or_approximate_are_other_maths():
    for hook in ("fp16", "bf16", "powersgd"):
        assert label(DDP.options(gradient_hook=hook)) == f"{hook} gradient hook, other maths"
    for strategy in (SINGLE, DATA_PARALLEL, FSDP, ZERO_ENGINE, *IN_REPLICAS):
        assert label(strategy.options(precision="bf16")) == "bf16 precision, other maths"


# Launches


def launch_of(strategy, **options):
    script = [strategy.script, "--batch", "32"]
    return Launch(Path("/environment/bin/python"), script, 4, 29500, strategy.options(**options))


def test_torchrun_starts_a_process_for_each_worker_on_a_port_of_the_launchs_own():
    assert DDP.launcher.command(launch_of(DDP)) == [
        *("/environment/bin/torchrun", "--nproc-per-node", "4", "--master-port", "29500"),
        *("pytorch_impl/ddp.py", "--batch", "32"),
    ]


REPORT = """[0]:
  time      : 2026-11-24_12:18:27
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 4055)  (SIGTERM)
  error_file: <N/A>
Root Cause (first observed failure):
[1]:
  time      : 2026-11-24_12:18:27
  host      : localhost
  rank      : 11 (local_rank: 3)
  exitcode  : -9 (pid: 4056)  (SIGKILL)
"""

OTHER_ABORTED = REPORT.replace("-9 (pid: 4056)  (SIGKILL)", "-6 (pid: 4056)  (SIGABRT)").replace(
    "-15 (pid: 4055)  (SIGTERM)", "-9 (pid: 4055)  (SIGKILL)"
)
"""torchrun takes for the first a rank that aborted, for want of another, in the second in which that was killed."""


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (REPORT, "rank 11 ended with signal 9, so all processes were ended."),
        (REPORT.replace("\n", "\nhost2| "), "rank 11 ended with signal 9, so all processes were ended."),
        (OTHER_ABORTED, "rank 0 ended with signal 9, so all processes were ended."),
        (REPORT.replace("-9 (pid: 4056)  (SIGKILL)", "1 (pid: 4056)"), "It ended with status 1."),
    ],
    ids=["here", "on a host", "another aborted", "signals by which torchrun ends the others"],
)
def test_of_the_ranks_that_torchrun_reports_the_one_that_a_signal_ended_first_is_named(report, reason):
    assert exit_cause.read(1, 60.0, report, DDP.launcher) == Ended("failed", reason)


def test_what_torchrun_and_srun_cannot_start_over_mpi_is_refused():
    with pytest.raises(UserError, match="leave it out on a single one"):
        SYNC_SGD.launcher.command(launch_of(SYNC_SGD, backend="mpi", mpi_starter="srun"))
    with pytest.raises(UserError, match="--mpi-starter srun with --backend gloo: add --backend mpi"):
        SYNC_SGD.options(backend="gloo", mpi_starter="srun")
    with pytest.raises(UserError, match="leave one of them out"):
        SYNC_SGD.options(backend="mpi", max_restarts=1)


def test_a_torchrun_that_starts_workers_again_gives_each_start_a_store_of_its_own():
    launch = launch_of(DDP, max_restarts=2)
    command = " ".join(DDP.launcher.command(launch))
    assert command.startswith("env TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 /environment/bin/torchrun ")
    assert "--max-restarts 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29500" in command
    over_hosts = DDP.launcher.across_hosts(dataclasses.replace(launch, hosts=PLACES))
    assert [" ".join(command).partition("--local-addr ")[2].split()[0] for [command] in over_hosts] == [
        "10.0.0.1",
        "10.0.0.2",
    ]


# Traffic


@pytest.mark.parametrize(
    ("strategy", "options", "sent"),
    [
        *((strategy, {}, 0) for strategy in (SINGLE, DATA_PARALLEL)),
        *((strategy, {}, 6000) for strategy in (DDP, HOOK_DDP, SYNC_SGD, LOCAL_SGD, *AROUND_TORCH)),
        *((strategy, {}, 9000) for strategy in (ZERO, FSDP)),
        *((DDP, {"gradient_hook": hook}, sent) for hook, sent in (("fp16", 3000), ("bf16", 3000), ("powersgd", None))),
        (SYNC_SGD, {"backend": "mpi"}, 0),
        (LOCAL_SGD, {"local_steps": 8}, 750),
        *((ZERO_ENGINE, {"stage": stage}, sent) for stage, sent in ((0, 6000), (2, 6000), (3, None))),
        (MODEL_PARALLEL, {}, None),
        (TENSOR_PARALLEL, {}, None),
    ],
)
def test_four_workers_with_a_thousand_bytes_of_gradients_send_what_the_formula_says_and_one_none(
    strategy, options, sent
):
    assert strategy.traffic(1000, 4, strategy.options(**options)).bytes_per_step == sent
    assert strategy.traffic(1000, 1, strategy.options(**options)).bytes_per_step in (0, None)
