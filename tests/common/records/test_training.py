"""common/records/training.py: what a launch leaves of itself, from its declaration and from all its ranks."""

import dataclasses
import json
import math
import re
from datetime import UTC, datetime, timedelta

import pytest

from common.contract.model import parameter_bytes
from common.contract.task import Task
from common.declarations.strategy import Options, Traffic, ring_all_reduce
from common.errors import UserError
from common.measurement import machine, startup
from common.measurement.machine import Pinning
from common.measurement.record import Part, declared, of_launch, wire_bytes
from common.measurement.world import World
from common.records.files import read_record, write_record
from common.records.header import Host, Virtual
from common.records.site import Site
from common.records.training import Memory, Record, Startup, Window

LAUNCH = {
    "task": dataclasses.replace(Task(), steps=60),
    "shards": 2,
    "losses": [1.5] * 60,
    "shard_losses": [[1.0] * 60, [2.0] * 60],
    "accuracies": [{"step": 60, "accuracy": 0.5, "training_seconds": 1.0}],
    "final_accuracy": 0.5,
}
"""Of a launch of two workers whose values fit one another."""


def test_what_is_declared_is_known_before_the_launch_with_the_bytes_by_formula(declare):
    asked = []

    def traffic(*arguments):
        asked.append(arguments)
        return Traffic(1.5, "half of three", "A paper, 1999")

    relations = {"base": "numpy_alone", "compared_with": {"convenience of": "numpy_loop"}}
    strategy = declare(**relations, traffic=traffic, processes_beside=lambda options: 1 + (options.codec == "fp16"))
    task = Task(scaling="weak", threads=3, dimensions=(64, 7, 10))
    options = strategy.options(codec="fp16", exchange=False)
    known = declared(strategy, task, options, 4)
    expected = {
        **{"strategy": "numpy_threads", "label": "fp16 codec, other maths", "family": "NumPy", "framework": "numpy"},
        **{"recipe": "", "script": "numpy_impl/threads.py", "world_size": 4, "synchronous": True, "shards": 4},
        **{"other_maths": ["codec"], "formula_bytes_per_step": 1.5, "scaling": "weak", "threads_per_worker": 3},
        **{"processes_beside": 2, "task": task, "options": dataclasses.asdict(options)},
    }
    assert known == expected | relations
    assert asked == [(parameter_bytes(task), 4, options, 1)]


def part_of(rank, **changes):
    values = {
        "windows": [Window(rank=rank, step=5, steps=5, seconds=0.5)],
        "losses": [[1.0 + rank], [2.0 + rank]],
        "examples": 64,
        "startup_seconds": Startup(imports=0.5, world=0.25, first_step=0.25 + rank),
        "startup_processor_seconds": Startup(imports=0.5, world=0.0, first_step=0.5 - rank / 4),
        "peak_memory_bytes": 1000 + rank,
        "memory_bytes": Memory(parameters=rank),
        "process_start_seconds": 100.0 + rank,
        "sent_bytes": 1000 * (rank + 1),
        "data_sha256": "abc123",
    }
    return Part(**values | changes)


def told(count, **about):
    hosts = [Host(name=f"host{number}", workers=2) for number in range(1, count + 1)]
    return Site(hosts=hosts, **about)


def test_bytes_are_those_of_the_launchs_own_network_or_of_each_host_once_where_all_ranks_tell(monkeypatch):
    parts = [part_of(rank) for rank in range(4)]
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": None}
    for name, value in told(2).variable().items():
        monkeypatch.setenv(name, value)
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": 400, "host_bytes_per_step": [100, 300]}
    # Of a coordinator alone, or of elastic workers of whom some were lost.
    for ranks, workers in ((1, 4), (2, 2)):
        assert wire_bytes(parts[:ranks], workers, steps=10) == {"wire_bytes_per_step": None}
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": 100}


def test_over_several_hosts_the_formula_is_that_of_what_goes_from_host_to_host(declare):
    strategy = declare(traffic=ring_all_reduce)
    parameters = parameter_bytes(Task())
    for count, expected in ((1, 6), (2, 3), (4, 6)):
        known = declared(strategy, Task(), Options(), 4, told(count))
        assert known["formula_bytes_per_step"] == expected * parameters


def test_the_delay_of_the_link_between_hosts_is_part_of_a_launchs_name(make_record):
    record = make_record(strategy="one", label="mpi backend", **told(2, virtual=Virtual(delay_seconds=0.001)).facts())
    assert record.name == "one, mpi backend, 2 hosts, 1 ms delay"


@pytest.fixture
def gathered(declare):
    """A function that makes the record of two ranks' parts, of a made-up strategy with the changes that it is given."""

    def record_of(*parts, **changes):
        strategy = declare(**changes)
        world = World(pinning=Pinning([3], oversubscribed=False), size=2, backend="barrier", device="abacus")
        return of_launch(strategy, Task(), strategy.options(), world, parts, final_accuracy=0.5)

    return record_of


def test_a_launchs_record_has_what_every_rank_measured_and_the_parts_of_the_slowest_ones_startup(gathered):
    record = gathered(part_of(0), part_of(1))
    assert (record.status, record.pinned_cores, record.final_accuracy) == ("ok", [3], 0.5)
    assert [window.rank for window in record.windows] == [0, 1]
    assert record.time_to_first_step_s == 2.0
    assert record.startup_seconds == Startup(imports=0.5, world=0.25, first_step=1.25)
    # Of the rank that was slowest, not the one that computed most.
    assert record.startup_processor_seconds == Startup(imports=0.5, world=0.0, first_step=0.25)
    assert record.peak_memory_bytes == [1000, 1001]
    assert record.memory_bytes == [Memory(parameters=0), Memory(parameters=1)]
    assert record.process_start_seconds == [100.0, 101.0]


def test_a_launch_has_the_start_of_its_process_by_utc_and_the_versions_of_its_family(gathered, monkeypatch):
    monkeypatch.setattr(startup, "seconds_since_start", lambda: 3600.0)
    monkeypatch.setattr(machine, "versions", lambda packages: dict.fromkeys(packages, "1.0"))
    record = gathered(part_of(0), part_of(1))
    ago = datetime.now(UTC) - datetime.fromisoformat(record.started_at)
    assert timedelta(hours=1) <= ago < timedelta(hours=1, minutes=5)
    assert record.versions == {"numpy": "1.0", "scipy": "1.0"}


def test_losses_that_are_not_finite_are_null(gathered):
    losses = [[1.0], [math.nan], [math.inf], [-math.inf]]
    record = gathered(part_of(0, losses=losses), part_of(1, losses=[[2.0]] * 4))
    assert record.losses == [1.5, None, None, None]
    assert record.shard_losses == [[1.0, None, None, None], [2.0] * 4]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"examples_per_step": 0}, "without workers, rows or shards"),
        ({"shards": 3}, "shards don't divide its rows"),
        ({"started_at": "2026-01-02T03:04:05"}, "started_at"),
        ({"first_step": 60}, "begins with a step"),
        ({"earlier_pieces": [{"steps": 1, "global_batch": 64}]}, "more steps than came before it"),
        ({"first_step": 9, "earlier_pieces": [{"steps": 9, "global_batch": 65}]}, "rows that no number of workers has"),
        ({"examples_by_rank": [60 * 64, 60 * 64, 0]}, "rows of more ranks than it has workers"),
        ({"losses": [2.0] * 60}, "losses aren't the means of its shards' losses"),
        ({"final_accuracy": None}, "no final_accuracy"),
        ({"hosts": [{"name": "one", "workers": 1}]}, "its hosts have fewer workers than it has"),
        ({"host_bytes_per_step": [1.0]}, "aren't those of its hosts"),
    ],
    ids=str,
)
def test_a_record_whose_values_contradict_one_another_is_refused_with_its_file_and_what_is_wrong(
    tmp_path, make_record, fields, said
):
    path = tmp_path / "record.json"
    write_record(path, make_record(**LAUNCH))
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(UserError, match=f"{path} is damaged .*{re.escape(said)}.*: delete it and run its launch again"):
        read_record(path, Record)
