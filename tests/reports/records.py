"""Records for the report's tests: strategies and times made up, losses from a real run of the contract in float32."""

import dataclasses
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from common.contract import model, oracle
from common.contract.reading import Reading, Step, Trained
from common.contract.recipe import Coefficient, TensorRecipe
from common.contract.rows import Share, global_batch
from common.contract.task import PRESETS, Task
from common.contract.work import Recipe, Work
from common.declarations.strategy import (
    CONVENIENCE_OF,
    ONE_PROCESS_OF,
    SHARDING_OF,
    Family,
    Options,
    ReplicaOptions,
    Strategy,
    Traffic,
    activations_sent,
    nothing_sent,
    option,
    ring_all_reduce,
)
from common.measurement.record import declared
from common.records.files import from_json, write_record
from common.records.header import Host, Link, Machine, Virtual
from common.records.site import Site
from common.records.training import Record, Window
from tests.changes import changed

HEADER = "position,launch,strategy,label,preset,scaling,workers,exchange,repetition,purpose,order_seed"
"""The first line of the first plans, which named no hosts and no stage."""

HOST = {"name": "here", "processor": "Some CPU", "cores": 2, "memory_bytes": 2**33, "gpus": [], "system": "Linux 6"}


@dataclass(frozen=True, kw_only=True)
class MadeUpOptions(ReplicaOptions):
    """What every made-up strategy has."""

    compiled: bool = option(False)
    steps_per_call: int = option(1)
    input: str = option("memory")
    backend: str = option("auto")
    loader_workers: int = option(0)
    updates: str = option("one_by_one")
    trace: bool = option(False)
    rounding: str = option("none", other_maths=True)
    half_precision: bool = option(False, other_maths=True)


def family(title: str, *colors: str) -> Family:
    return Family(title=title, environment=title.lower(), imports=title.lower(), packages=(), colors=colors)


def strategy(name: str, framework: str, of_family: Family, **facts: object) -> Strategy:
    """A strategy over the base of its framework, which is called `amber_single` where the framework is amber."""
    base = None if name == f"{framework}_single" else f"{framework}_single"
    known = {"script": "made_up.py", "summary": "", "options": MadeUpOptions, "base": base, "traffic": ring_all_reduce}
    return Strategy(name=name, framework=framework, family=of_family, **known | facts)


def twice(parameter_bytes: int, *_: object) -> Traffic:
    return Traffic(2.0 * parameter_bytes, "twice the bytes of the gradients", "Somebody, 2014")


AMBER = family("Amber", "#17457e", "#0072b2", "#56b4e9")
COBALT = family("Cobalt", "#a33a00", "#d55e00", "#e6a100")
TEAL = family("Teal", "#00604a", "#009e73", "#74c7a0")
_DECLARED = (
    strategy("amber_single", "amber", AMBER, work=Work.UNDISTRIBUTED, traffic=nothing_sent),
    strategy("amber_ring", "amber", AMBER),
    strategy("amber_library", "amber", AMBER, compared_with={CONVENIENCE_OF: "amber_ring"}),
    strategy("amber_threads", "amber", AMBER, traffic=nothing_sent, compared_with={ONE_PROCESS_OF: "amber_ring"}),
    strategy("amber_sharded", "amber", AMBER, traffic=twice, compared_with={SHARDING_OF: "amber_ring"}),
    strategy("amber_parts", "amber", AMBER, work=Work.PARTS_OF_ONE_MODEL, traffic=activations_sent),
    strategy("cobalt_single", "cobalt", COBALT, work=Work.UNDISTRIBUTED, traffic=nothing_sent),
    strategy("cobalt_replicas", "cobalt", COBALT),
    strategy("cobalt_library", "cobalt", COBALT, compared_with={CONVENIENCE_OF: "cobalt_replicas"}),
    strategy("cobalt_servers", "cobalt", COBALT, traffic=twice, synchronous_with={"updates": "together"}),
    # A family that distributes other families' frameworks.
    strategy("teal_amber", "amber", TEAL),
    strategy("teal_cobalt", "cobalt", TEAL),
)
STRATEGIES = {each.name: each for each in _DECLARED}


@cache
def trained(seed: int, batch: int, steps: int, preset: str = "digits") -> model.Trajectory:
    """The contract in float32 on `steps` batches of `batch` rows, as a strategy without a mistake would train."""
    return oracle.run_oracle(dataclasses.replace(PRESETS[preset], seed=seed), batch, steps, np.float32)


def task_of(workers: int, preset: str = "digits", **changes: object) -> Task:
    """A task of 60 steps in windows of ten after 20 steps to warm up, under weak scaling where nothing else is said."""
    known = {"scaling": "weak", "seed": 3, "steps": 60, "warmup_steps": 20, "window_steps": 10}
    return dataclasses.replace(PRESETS[preset], workers=workers, **known | changes)


def make_record(
    name: str = "amber_ring",
    workers: int = 1,
    milliseconds: tuple[float, ...] = (2.0, 2.0, 2.0, 2.0),
    task: Task | None = None,
    options: Options | None = None,
    rank_factors: tuple[float, ...] | None = None,
    told: Site | None = None,
    **fields: object,
) -> Record:
    """An `ok` record whose windows of ten steps took `milliseconds` a step; rank r's clock shows factor r of it.

    What its strategy declares, and the hosts that it was `told`, are there as a launch would have them; a name that
    isn't made up above is `amber_ring`'s under another one.
    """
    each = STRATEGIES.get(name) or dataclasses.replace(STRATEGIES["amber_ring"], name=name)
    task = task or task_of(workers)
    windows = [
        Window(
            rank=rank,
            step=20 + 10 * index,
            steps=10,
            seconds=value * factor / 100,
            # All start one after another, 2 s after the process did, and compute 9/10 of the time.
            started_seconds=2 + factor * sum(milliseconds[:index]) / 100,
            own_seconds=0.9 * value * factor / 100,
        )
        for rank, factor in enumerate(rank_factors or (1.0,) * workers)
        for index, value in enumerate(milliseconds)
    ]
    options = options or MadeUpOptions()
    known = declared(each, task, options, workers, told) | {"colors": list(each.family.colors)}
    traffic = each.traffic(1, 2, options, 2 if told is not None and len(told.hosts) > 1 else 1)
    known |= {"formula": traffic.formula, "formula_source": traffic.source}
    batch = global_batch(task, each.work, workers)
    course = trained(task.seed, batch, task.steps, task.preset)
    shard_losses = course.shard_losses(known["shards"]).tolist()
    values = {
        **{"status": "ok", "backend": "some backend", "oversubscribed": workers > 2},
        **{"versions": {"python": "3.11.7", "numpy": "2.4.6"}, "host": HOST, "git_commit": "0123456789abcdef"},
        "started_at": "2026-01-02T03:04:05.678+00:00",
        "time_to_first_step_s": 1.5,
        "startup_seconds": {"imports": 1.0, "world": 0.25, "first_step": 0.25},
        "startup_processor_seconds": {"imports": 0.9, "world": 0.05, "first_step": 0.3},
        "examples_per_step": batch,
        "examples_by_rank": [task.steps * batch // workers] * workers,
        **{"windows": windows, "losses": course.losses, "shard_losses": shard_losses},
        "reading": reading(task, known["recipe"], workers, shard_losses),
        "peak_memory_bytes": [300_000_000] * workers,
        "accuracies": [{"step": task.steps, "accuracy": 0.5, "training_seconds": 0.12}],
        "final_accuracy": 0.5,
    }
    return from_json(known | values | fields, Record)


def reading(task: Task, recipe: str, workers: int, losses: list[list[float]], *mistakes: str) -> Reading | None:
    """What the evidence of a launch says whose first and last update were right, or had these mistakes; None: nothing.

    Rounding leaves a third of what it may.
    """
    if not recipe:
        return None
    trained = Trained(task, Recipe[recipe], workers, Share(0, 0, 0), 0, losses)
    steps = [
        Step(
            step=step,
            replica=0,
            tensors={
                name: TensorRecipe(
                    shares=tuple(Coefficient(share, 1e-5) for share in trained.counts(0, name).shares),
                    velocity=None,
                    stale=None,
                    decay=Coefficient(0.0, 1e-6),
                    residual=3e-6,
                    floor=9e-6,
                    declared=3e-1 if mistakes else 3e-6,
                )
                for name in model.parameter_names(task)
            },
            losses=tuple((of_shard[step], of_shard[step]) for of_shard in losses),
        )
        for step in (0, task.steps - 1)
    ]
    return Reading(tuple(steps), mistakes=mistakes)


SMOOTH = task_of(1, "pathway")
"""A task without ReLUs, whose losses are held to the oracle's trajectory."""


def mistaken(record: Record, sentence: str = "Summed, not averaged. Divide.") -> Record:
    """The record of a launch that made this mistake."""
    found = reading(record.task, record.recipe or "AVERAGE", record.world_size, record.shard_losses, sentence)
    return changed(record, reading=found)


def over_hosts(
    name: str = "amber_ring",
    workers: int = 2,
    hosts: int = 2,
    milliseconds: tuple[float, ...] = (2.0, 2.0, 2.0, 2.0),
    megabits: float | None = 100.0,
    **fields: object,
) -> Record:
    """A record of workers on so many virtual hosts, whose links carry so many Mbit/s, as much payload as they can.

    Host k's clock is `offsets[k]` seconds ahead, to within `uncertainty`; rank r starts its windows `late[r]` seconds
    after the others. With `virtual=None` they are real. The field `oversubscribed` is false.
    """
    offsets, uncertainty = fields.pop("offsets", [0.0] * hosts), fields.pop("uncertainty", 1e-4)
    late = fields.pop("late", [0.0] * workers)
    sites = [
        Host(
            name=f"host{place}",
            hostname=f"host{place}",
            workers=workers // hosts,
            cores=2,
            processor="Some CPU",
            address=f"10.77.0.{place}",
            interface="eth0",
            clock_offset_seconds=offset,
            clock_uncertainty_seconds=uncertainty,
        )
        for place, offset in enumerate(offsets, start=1)
    ]
    wire = None if megabits is None else megabits * 1e6
    virtual = Virtual(bandwidth_bits_per_second=wire, delay_seconds=0.0)
    link = Link(bytes_per_second=(wire or 8e9) / 8 * 1448 / 1514, round_trip_seconds=2e-5)
    told = Site(hosts=sites, virtual=fields.pop("virtual", virtual), link=link if hosts > 1 else None)
    starts = [1000 + offsets[rank * hosts // workers] + late[rank] for rank in range(workers)]
    known = {"oversubscribed": False, "process_start_seconds": starts}
    return make_record(name, workers, milliseconds, told=told, **known | fields)


def in_rounds(name: str, milliseconds: float, workers: int = 2, n: int = 6, **fields: object) -> list[Record]:
    """Launches of several rounds, whose times are within 1 % of `milliseconds`, each strategy's in its own way."""
    noise = random.Random(name)
    times = [milliseconds * (1 + noise.uniform(-1, 1) / 100) for _ in range(n)]
    return [make_record(name, workers, (each,) * 3, **fields) for each in times]


def varied(
    name: str, workers: int = 1, milliseconds: tuple[float, ...] = (2.0, 2.0, 2.0, 2.0), **options: object
) -> Record:
    """A record as `make_record` makes it, of a launch with these options of its strategy."""
    return make_record(name, workers, milliseconds, options=MadeUpOptions(**options))


def clocked(name: str, steps: int, window_steps: int, **changes: object) -> Record:
    """A launch of two workers with 64 rows in a step and windows of that length; it has the losses of fewer steps."""
    task = dataclasses.replace(PRESETS["digits"], scaling="weak", workers=2, steps=steps, window_steps=window_steps)
    task = dataclasses.replace(task, **changes)
    return changed(make_record(name, 2, task=dataclasses.replace(task, steps=60), examples_per_step=64), task=task)


def unfinished(status: str, reason: str, name: str = "amber_ring", workers: int = 2) -> Record:
    """A record of a launch that measured nothing, as the comparison writes it."""
    return make_record(
        *(name, workers),
        **{"status": status, "reason": reason, "log": "some.log", "windows": [], "losses": [], "host": Machine()},
        **{"accuracies": [], "final_accuracy": None, "time_to_first_step_s": None, "versions": {}, "git_commit": None},
    )


def named(*records: Record) -> dict[str, Record]:
    """The records by stems such as `amber_ring-2w-00`."""
    return {f"{record.strategy}-{record.world_size}w-{index:02d}": record for index, record in enumerate(records)}


def write_all(folder: Path, records: dict[str, Record]) -> Path:
    """Write every record into `folder`, which is returned; each starts a second after the one before."""
    for seconds, (name, record) in enumerate(records.items()):
        # Launches that start at the same time, and take as long, are one.
        started_at = datetime.fromisoformat(record.started_at) + timedelta(seconds=seconds)
        later = changed(record, started_at=started_at.isoformat(timespec="milliseconds"))
        write_record(folder / f"{name}.json", later)
    return folder


def write_weights(path: Path, seed: int, batch: int, steps: int, factor: float = 1.0, preset: str = "digits") -> None:
    """The final weights of a run without a mistake, times `factor`."""
    state = {name: np.float32(factor) * value for name, value in trained(seed, batch, steps, preset).state.items()}
    save_file(state, path)


def process(parameters: int, state: int = 0, peak: int = 400, **more: int) -> dict[str, int]:
    """What a process with so many megabytes of parameters tells of its memory; its gradients are as large."""
    sizes = {"parameters": parameters, "gradients": parameters, "optimizer_state": state, "above_import": peak}
    return {name: value * 1_000_000 for name, value in (sizes | more).items()}
