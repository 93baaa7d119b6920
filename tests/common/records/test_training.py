"""common/records/training.py: what a launch leaves of itself, from its declaration and from all its ranks."""

import dataclasses
import json
import math
import re

import pytest

from common.contract.model import parameter_bytes
from common.contract.task import Task
from common.declarations.strategy import Traffic
from common.errors import UserError
from common.measurement import machine
from common.measurement.machine import Pinning
from common.measurement.record import Part, declared, of_launch, wire_bytes
from common.measurement.world import World
from common.records.files import RUN_AGAIN, read_record, write_record
from common.records.header import Host, Virtual
from common.records.site import Site
from common.records.training import Memory, Record, Startup, Window
from tests.changes import changed
from tests.reports.records import make_record

HOSTS = [Host(name="host1", workers=2), Host(name="host2", workers=2)]


def test_what_is_declared_is_known_before_the_launch_with_the_bytes_by_formula_on_its_hosts(declare):
    asked = []

    def traffic(*arguments):
        asked.append(arguments)
        return Traffic(1.5, "half of three", "A paper, 1999")

    relations = {"base": "numpy_alone", "compared_with": {"convenience of": "numpy_loop"}}
    strategy = declare(**relations, traffic=traffic, processes_beside=lambda options: 1 + (options.codec == "fp16"))
    task = Task(scaling="weak", threads=3, dimensions=(64, 7, 10))
    options = strategy.options(codec="fp16", exchange=False)
    expected = relations | {
        **{"strategy": "numpy_threads", "label": "fp16 codec, other maths", "family": "NumPy", "framework": "numpy"},
        **{"recipe": "", "script": "numpy_impl/threads.py", "world_size": 4, "synchronous": True, "shards": 4},
        **{"other_maths": ["codec"], "formula_bytes_per_step": 1.5, "scaling": "weak", "threads_per_worker": 3},
        **{"processes_beside": 2, "task": task, "options": dataclasses.asdict(options)},
    }
    assert declared(strategy, task, options, 4) == expected
    site = Site(hosts=HOSTS)
    assert declared(strategy, task, options, 4, site) == expected | site.facts()
    assert asked == [(parameter_bytes(task), 4, options, number) for number in (1, 2)]


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


def test_bytes_are_those_of_the_launchs_own_network_or_of_each_host_once_where_all_ranks_tell(monkeypatch):
    parts = [part_of(rank) for rank in range(4)]
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": None}
    for name, value in Site(hosts=HOSTS).variable().items():
        monkeypatch.setenv(name, value)
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": 400, "host_bytes_per_step": [100, 300]}
    # Of a coordinator alone, or of elastic workers of whom some were lost.
    for ranks, workers in ((1, 4), (2, 2)):
        assert wire_bytes(parts[:ranks], workers, steps=10) == {"wire_bytes_per_step": None}
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": 100}


def test_the_delay_of_the_link_between_hosts_is_part_of_a_launchs_name():
    record = make_record("one", 4, label="mpi backend", told=Site(hosts=HOSTS, virtual=Virtual(delay_seconds=0.001)))
    assert record.name == "one, mpi backend, 2 hosts, 1 ms delay"


def test_a_launchs_record_has_what_every_rank_measured_but_what_is_no_number_and_the_slowest_ones_startup(declare):
    strategy = declare()
    world = World(pinning=Pinning([3], oversubscribed=False), size=2)
    parts = [part_of(0, losses=[[1.0], [math.nan], [math.inf], [-math.inf]]), part_of(1, losses=[[2.0]] * 4)]
    record = of_launch(strategy, Task(), strategy.options(), world, parts, final_accuracy=0.5)
    assert (record.status, record.pinned_cores, record.final_accuracy) == ("ok", [3], 0.5)
    assert [window.rank for window in record.windows] == [0, 1]
    assert record.time_to_first_step_s == 2.0
    assert record.startup_seconds == Startup(imports=0.5, world=0.25, first_step=1.25)
    # Of the rank that was slowest, not the one that computed most.
    assert record.startup_processor_seconds == Startup(imports=0.5, world=0.0, first_step=0.25)
    assert record.peak_memory_bytes == [1000, 1001]
    assert record.memory_bytes == [Memory(parameters=0), Memory(parameters=1)]
    assert record.process_start_seconds == [100.0, 101.0]
    assert record.losses == [1.5, None, None, None]
    assert record.shard_losses == [[1.0, None, None, None], [2.0] * 4]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        *[({name: 0}, "without workers, rows or shards") for name in ("world_size", "examples_per_step", "shards")],
        ({"shards": 3}, "shards don't divide its rows"),
        ({"started_at": "2026-01-02T03:04:05"}, "started_at"),
        ({"started_at": "soon"}, "started_at"),
        ({"first_step": 60}, "begins with a step"),
        ({"first_step": 60, "windows": []}, "begins with a step"),
        ({"earlier_pieces": [{"steps": 1, "global_batch": 64}]}, "more steps than came before it"),
        ({"first_step": 9, "earlier_pieces": [{"steps": 9, "global_batch": 65}]}, "rows that no number of workers has"),
        ({"examples_by_rank": [60 * 64, 60 * 64, 0]}, "rows of more ranks than it has workers"),
        (
            {"losses": [1.000003 * loss for loss in make_record(workers=2).losses]},
            "losses aren't the means of its shards' losses",
        ),
        ({"final_accuracy": None}, "no final_accuracy"),
        ({"hosts": [{"name": "one", "workers": 1}]}, "its hosts have fewer workers than it has"),
        ({"host_bytes_per_step": [1.0]}, "aren't those of its hosts"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_record_whose_values_contradict_one_another_is_refused_with_its_file_and_what_is_wrong(
    tmp_path, fields, said
):
    path = tmp_path / "record.json"
    write_record(path, make_record(workers=2))
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(UserError, match=f"{path} is damaged .*{re.escape(said)}.*: delete it {RUN_AGAIN}"):
        read_record(path, Record)


def test_a_record_may_tell_of_pieces_before_it_and_of_losses_that_are_no_numbers(tmp_path):
    record = make_record(workers=2, first_step=9, earlier_pieces=[{"steps": 9, "global_batch": 128}])
    diverged = changed(record, losses=[None] * 2, shard_losses=[[1.0, None], [None, None]])
    for each in (record, diverged):
        write_record(tmp_path / "record.json", each)
        assert read_record(tmp_path / "record.json", Record) == each
