"""JAX's strategies, in the order in which a student would read them. Start here in this folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from common.contract.split_layers import bytes_of_whole_biases, check_layers_divide
from common.contract.work import Order, Recipe, Work
from common.declarations.library import gloo_reduce_scatter_bytes
from common.declarations.slurm import task_of_step
from common.declarations.strategy import (
    CONVENIENCE_OF,
    ONE_PROCESS_OF,
    PROCESS,
    SHARDING_OF,
    ExchangeOptions,
    Family,
    Graph,
    Launch,
    Launcher,
    Options,
    Probe,
    ReplicaOptions,
    Strategy,
    Traffic,
    activations_sent,
    no_formula,
    nothing_sent,
    option,
    rank_by,
    ring_all_reduce,
)

JAX = Family(
    title="JAX",
    environment="jax",
    imports="jax",
    packages=("jax", "jaxlib"),
    remedies={
        "summed": "Take lax.pmean in place of lax.psum.",
        "not exchanged": "Average the gradients over the mesh's axis, by lax.pmean.",
    },
    variables=("JAX_",),
    world_variables=r"JAX_(COORDINATOR_\w+|NUM_PROCESSES|PROCESS_ID|LOCAL_DEVICE_IDS)|LOCKSTEP_JAX_PROCESS",
    # Reddish purple (Okabe & Ito 2008).
    colors=("#8a3a6b", "#cc79a7", "#e3b1cd"),
    # Gloo listens where the workers reach one another: `world.py` passes the interface on. A cache of compiled programs
    # would shorten the time to the first step from the second launch on. Products are computed in float32 on GPUs too.
    settings=lambda deadline_seconds, threads, interface: {
        "GLOO_SOCKET_IFNAME": interface,
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
    },
    probe=Probe(
        script="jax_impl/ceiling.py",
        like="jax_data_parallel",
        operation="one `lax.pmean` of one array",
    ),
    library="jax",
    tracer="jax_impl.tracer",
)


def world_is_given() -> bool:
    """Whether somebody else, or Slurm in a step that srun started, starts the processes and says which this one is."""
    return "JAX_COORDINATOR_ADDRESS" in os.environ or task_of_step() is not None


def process_variables(
    coordinator: str, rank: int, world_size: int, local_rank: int, local_world_size: int
) -> dict[str, str]:
    """The environment variables that tell a process who it is: the first is JAX's own, the others are ours."""
    return {
        "JAX_COORDINATOR_ADDRESS": coordinator,
        "LOCKSTEP_JAX_PROCESS": f"{rank},{world_size},{local_rank},{local_world_size}",
    }


def processes_across_hosts(launch: Launch) -> list[list[list[str]]]:
    """The command lines by host: the script once for every worker. The coordinator is in the first."""
    coordinator = f"{launch.hosts[0].address}:{launch.port}"
    commands: list[list[list[str]]] = []
    rank = 0
    for host in launch.hosts:
        commands.append([])
        for local_rank in range(host.workers):
            variables = process_variables(coordinator, rank, launch.workers, local_rank, host.workers)
            settings = [f"{name}={value}" for name, value in variables.items()]
            commands[-1].append(["env", *settings, str(launch.python), *launch.script])
            rank += 1
    return commands


PROCESSES = Launcher(
    name="jax.distributed",
    command=PROCESS.command,
    across_hosts=processes_across_hosts,
    task_in=rank_by("LOCKSTEP_JAX_PROCESS"),
    # What JAX prints before it aborts: of a rank without a heartbeat, and of a rank 0 that doesn't answer one.
    silence_reports=(
        r"stopped sending heartbeats\):\n(?:\S+\| )?(?P<rank>\d+)",
        r"DEADLINE_EXCEEDED[^/]*RPC: /xla\.coordination\.CoordinationService/Heartbeat",
    ),
    plain_processes=True,
)
"""Several processes, which the script starts itself unless their coordinator or Slurm's step is given."""


# Options


@dataclass(frozen=True, kw_only=True)
class DataParallelOptions(ReplicaOptions):
    """Options of data parallelism by hand."""

    one_buffer: bool = option(False, tried=(True,))
    """Average all gradients in one array, by one all-reduce, where `lax.pmean` makes one for each array."""


# Bytes by formula


def gather_and_scatter_traffic(parameter_bytes: int, workers: int, options: Options, hosts: int = 1) -> Traffic:
    """The traffic where each worker keeps 1 / N of every parameter and gradient: 2 (N - 1) times the model's bytes.

    The parameters are all-gathered once in a step, and the gradients are reduce-scattered. Each of the two sends
    (N - 1) times the model's bytes (Rajbhandari et al., "ZeRO", 2020, section 7.2.1). Gloo's reduce-scatter sends more
    than that among more than two.
    """
    if hosts > 1:
        return no_formula()
    formula = "2 (N - 1) times the bytes of the gradients: parameters gathered once, gradients reduced and scattered"
    return Traffic(
        2.0 * (workers - 1) * parameter_bytes,
        formula,
        'Rajbhandari et al., "ZeRO", 2020, section 7.2.1',
        sent_over_formula=(1 + gloo_reduce_scatter_bytes(1, workers) / (workers - 1)) / 2 if workers > 1 else 1.0,
    )


# The strategies

SINGLE = Strategy(
    name="jax_single",
    script="jax_impl/single.py",
    summary="no distribution: JAX's baseline",
    family=JAX,
    framework="jax",
    work=Work.UNDISTRIBUTED,
    traffic=nothing_sent,
    quick_where_made=True,
)
_distributed = partial(Strategy, family=JAX, framework="jax", base="jax_single")

DATA_PARALLEL = _distributed(
    name="jax_data_parallel",
    script="jax_impl/data_parallel.py",
    summary="`shard_map` over processes, gradients averaged by `lax.pmean`",
    launcher=PROCESSES,
    options=DataParallelOptions,
    alone=Recipe.OWN_SHARD,
    traffic=ring_all_reduce,
    graph=Graph(Order.ONE_BY_ONE),
    quick_where_made=True,
    variants=({"one_buffer": True},),
)
AUTOMATIC = _distributed(
    name="jax_automatic",
    script="jax_impl/automatic.py",
    summary="`jit` over `NamedSharding`: XLA inserts the exchange",
    launcher=PROCESSES,
    options=ReplicaOptions,
    alone=Recipe.OWN_SHARD,
    traffic=ring_all_reduce,
    graph=Graph(Order.ONE_BY_ONE),
    compared_with={CONVENIENCE_OF: "jax_data_parallel"},
    batch_norms=("synchronised",),
)
DEVICES = _distributed(
    name="jax_devices",
    script="jax_impl/devices.py",
    summary="`shard_map` over the devices of one process",
    options=ReplicaOptions,
    work=Work.REPLICAS_IN_ONE_PROCESS,
    alone=Recipe.OWN_SHARD,
    traffic=nothing_sent,
    compared_with={ONE_PROCESS_OF: "jax_data_parallel"},
)
FSDP = _distributed(
    name="jax_fsdp",
    script="jax_impl/fsdp.py",
    summary="parameters and momentum sharded: `all_gather`, `psum_scatter`",
    launcher=PROCESSES,
    options=ExchangeOptions,
    traffic=gather_and_scatter_traffic,
    graph=Graph(Order.SHARDS_ONCE),
    copies=(1, 1, 1),
    compared_with={SHARDING_OF: "jax_data_parallel"},
)
TENSOR_PARALLEL = _distributed(
    name="jax_tensor_parallel",
    script="jax_impl/tensor_parallel.py",
    summary="every layer split, by outputs and by inputs in turn",
    launcher=PROCESSES,
    options=Options,
    work=Work.PARTS_OF_ONE_MODEL,
    traffic=activations_sent,
    repeated_bytes=bytes_of_whole_biases,
    check=lambda task, options, workers, gpus: check_layers_divide(task, workers),
)
