"""pytorch_impl/strategies.py: what PyTorch's strategies can't have, how they are started, and what they send."""

import dataclasses
from pathlib import Path

import pytest

from common.contract.task import Task
from common.declarations.catalogue import strategies
from common.declarations.strategy import Launch, LaunchHost, label, other_maths
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
    PYTORCH,
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


def test_only_synchronous_sgd_by_hand_reaches_mpi():
    assert SYNC_SGD.options(backend="mpi").backend == "mpi"
    for strategy in STARTED_BY_TORCHRUN:
        if strategy is not SYNC_SGD:
            with pytest.raises(UserError, match="--backend mpi: choose one of auto, gloo, nccl"):
                strategy.options(backend="mpi")


@pytest.mark.parametrize("strategy", STARTED_BY_TORCHRUN, ids=lambda strategy: strategy.name)
def test_nccl_joins_gpus_so_there_have_to_be_some(strategy):
    with pytest.raises(UserError, match="--backend nccl, which joins GPUs, but this machine has none"):
        strategy.check(Task(), strategy.options(backend="nccl"), 2, 0)
    strategy.check(Task(), strategy.options(backend="nccl"), 2, 2)
    strategy.check(Task(), strategy.options(backend="gloo"), 2, 0)


# Layouts


def test_pipeline_stages_and_split_sides_are_divided_by_the_workers():
    options = MODEL_PARALLEL.options()
    MODEL_PARALLEL.check(Task(), options, 3, 0)
    with pytest.raises(UserError, match="4 pipeline stages for 3 layers: use --workers 3 or fewer"):
        MODEL_PARALLEL.check(Task(), options, 4, 0)
    DDP.check(Task(), DDP.options(), 4, 0)
    options = TENSOR_PARALLEL.options()
    TENSOR_PARALLEL.check(Task(), options, 4, 0)
    with pytest.raises(UserError, match="Layer 0 is split by its 64 inputs, which 3 workers don't divide"):
        TENSOR_PARALLEL.check(Task(batch=63), options, 3, 0)


@pytest.mark.parametrize(
    ("task", "micro_batches", "rows"),
    [(Task(batch=64), 5, 64), (Task(batch=64), 65, 64), (Task(batch=16, scaling="weak"), 3, 32)],
)
def test_micro_batches_divide_the_global_batch(task, micro_batches, rows):
    with pytest.raises(UserError, match=f"A batch of {rows} rows doesn't divide into {micro_batches} micro-batches"):
        MODEL_PARALLEL.check(task, MODEL_PARALLEL.options(micro_batches=micro_batches), 2, 0)
    MODEL_PARALLEL.check(task, MODEL_PARALLEL.options(micro_batches=rows), 2, 0)


def test_a_checkpoint_between_two_averages_would_hold_one_workers_weights():
    task = Task(checkpoint=Path("weights"), checkpoint_steps=50)
    LOCAL_SGD.check(task, LOCAL_SGD.options(local_steps=25), 2, 0)
    with pytest.raises(UserError, match="give a multiple of --local-steps 8"):
        LOCAL_SGD.check(task, LOCAL_SGD.options(local_steps=8), 2, 0)


def test_cuda_graphs_take_a_gpu():
    for device, gpus in (("auto", 0), ("cpu", 1)):
        with pytest.raises(UserError, match="--execution graphed makes CUDA graphs"):
            SINGLE.check(Task(device=device), SINGLE.options(execution="graphed"), 1, gpus)
    SINGLE.check(Task(), SINGLE.options(execution="graphed"), 1, 1)


@pytest.mark.parametrize("strategy", AROUND_TORCH, ids=lambda strategy: strategy.name)
def test_workers_of_libraries_around_torch_share_no_gpu(strategy):
    with pytest.raises(UserError, match="2 workers have 1: start fewer"):
        strategy.check(Task(device="gpu"), strategy.options(backend="gloo"), 2, 1)
    strategy.check(Task(device="gpu"), strategy.options(backend="gloo"), 2, 2)


def test_weights_that_are_averaged_in_every_eighth_step_are_an_eighth_of_the_bytes():
    every, eighth = (LOCAL_SGD.traffic(1000, 4, LOCAL_SGD.options(local_steps=steps), 1) for steps in (1, 8))
    assert (every.bytes_per_step, eighth.bytes_per_step) == (6000, 750)
    assert eighth.formula.endswith("once in 8 steps")


# Labels


def test_options_that_round_or_approximate_are_other_maths():
    for hook in ("fp16", "bf16", "powersgd"):
        assert other_maths(DDP.options(gradient_hook=hook)) == ["gradient_hook"]
    assert label(DDP.options(gradient_hook="fp16")) == "fp16 gradient hook, other maths"
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


REPORT = """Failures:
[0]:
  time      : 2026-11-24_12:18:27
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 4055)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4055
------------------------------------------------------
Root Cause (first observed failure):
[1]:
  time      : 2026-11-24_12:18:27
  host      : localhost
  rank      : 11 (local_rank: 3)
  exitcode  : -9 (pid: 4056)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4056
"""


@pytest.mark.parametrize("report", [REPORT, REPORT.replace("\n", "\nhost2| ")], ids=["here", "on a host"])
def test_of_the_ranks_that_torchrun_reports_the_one_that_failed_first_is_named_with_its_signal(report):
    ended = exit_cause.read(1, 60.0, report, DDP.launcher)
    assert ended == Ended("failed", "rank 11 ended with signal 9, so all processes were ended.")


def test_the_signals_by_which_torchrun_ends_the_others_are_no_reason():
    report = REPORT.replace("-9 (pid: 4056)  (SIGKILL)", "1 (pid: 4056)")
    ended = exit_cause.read(1, 60.0, report, DDP.launcher)
    assert ended == Ended("failed", "It ended with status 1.")


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


PLACES = tuple(LaunchHost(f"host{number}", f"10.0.0.{number}", "10.0.0.0/24", "eth0", workers=2) for number in (1, 2))


def test_gloo_listens_where_the_other_workers_are_and_one_process_nowhere():
    assert PYTORCH.settings(600, 1, "eth0") == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert DATA_PARALLEL.launcher.across_hosts is None
    assert {"torch", "pytorch-lightning", "mpi4py", "openmpi"} <= {*PYTORCH.packages}


def test_libraries_around_pytorch_have_environments_of_their_own_that_are_made_on_request():
    for strategy, package in ((ACCELERATE_DDP, "accelerate"), (ZERO_ENGINE, "deepspeed"), (RAY_TRAIN, "ray")):
        family = strategy.family
        assert (family.environment, family.imports, family.title) == (package, package, PYTORCH.title)
        assert {"torch", package} <= {*family.packages}
        assert family.made_on_request
    assert not PYTORCH.made_on_request


# Traffic


@pytest.mark.parametrize(
    ("strategy", "options", "sent"),
    [
        (SINGLE, {}, 0),
        (DATA_PARALLEL, {}, 0),
        (DDP, {}, 6000),
        (HOOK_DDP, {}, 6000),
        (LIGHTNING_DDP, {}, 6000),
        (DDP, {"gradient_hook": "fp16"}, 3000),
        (DDP, {"gradient_hook": "bf16"}, 3000),
        (DDP, {"gradient_hook": "powersgd"}, None),
        (SYNC_SGD, {}, 6000),
        (SYNC_SGD, {"backend": "mpi"}, 0),
        (ZERO, {}, 9000),
        (FSDP, {}, 9000),
        (ACCELERATE_DDP, {}, 6000),
        (RAY_TRAIN, {}, 6000),
        (ZERO_ENGINE, {"stage": 0}, 6000),
        (ZERO_ENGINE, {"stage": 1}, 6000),
        (ZERO_ENGINE, {"stage": 2}, 6000),
        (ZERO_ENGINE, {"stage": 3}, None),
        (MODEL_PARALLEL, {}, None),
        (TENSOR_PARALLEL, {}, None),
    ],
)
def test_four_workers_with_a_thousand_bytes_of_gradients_send_what_the_formula_says(strategy, options, sent):
    assert strategy.traffic(1000, 4, strategy.options(**options)).bytes_per_step == sent


@pytest.mark.parametrize("strategy", STARTED_BY_TORCHRUN, ids=lambda strategy: strategy.name)
def test_one_worker_sends_nothing(strategy):
    assert strategy.traffic(1000, 1, strategy.options()).bytes_per_step in (0, None)
