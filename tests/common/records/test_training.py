"""common/records/training.py: one strict JSON file per launch, read back as it was or refused."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest

from common.contract import mlp
from common.contract.mlp import parameter_bytes
from common.contract.task import Task, task_of
from common.contract.work import Work
from common.declarations.strategy import Options, Traffic, ring_all_reduce, ring_between_hosts
from common.measurement import machine, startup
from common.measurement.machine import Placement
from common.measurement.record import Part, declared, of_launch, wire_bytes
from common.measurement.world import World
from common.records import quotation
from common.records.site import Site
from common.records.training import SCHEMA_VERSION, Record, read_record, read_records, write_record

KEYS = {
    *("schema_version", "strategy", "framework", "world_size", "synchronous", "scaling", "status", "reason", "task"),
    *("options", "label", "family", "colors", "base", "compared_with", "other_maths", "phases"),
    *("formula_bytes_per_step", "formula", "formula_source"),
    *("backend", "threads_per_worker", "oversubscribed", "versions", "host", "git_commit", "started_at"),
    *("time_to_first_step_s", "windows", "examples_per_step", "losses", "wire_bytes_per_step", "final_accuracy"),
}


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} isn't JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def changed(tmp_path, make_record):
    """A function that writes a record's file whose JSON has the given changes; None takes a key out."""

    def write(**changes):
        path = tmp_path / "changed.json"
        write_record(path, make_record())
        values = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))
        return path

    return write


def test_a_record_comes_back_as_it_was_written(tmp_path, make_record):
    record = make_record(
        reason="a reason with ümlauts",
        windows=[{"rank": 0, "step": 5, "steps": 5, "seconds": 0.1}],
        losses=[2.302585092994046, 1 / 3],
        time_to_first_step_s=1.25,
        peak_memory_bytes=[2**40],
        host={"cores": 2, "gpus": []},
    )
    write_record(tmp_path / "record.json", record)
    assert read_record(tmp_path / "record.json") == record


def test_a_records_task_leads_back_to_the_task_even_with_paths(tmp_path, make_record):
    task = Task(record=tmp_path / "record.json", data_dir=tmp_path, final_learning_rate=0.01, workers=2)
    write_record(task.record, make_record(task=dataclasses.asdict(task)))
    assert task_of(read_record(task.record).task) == task


def test_every_key_that_readers_count_on_is_in_the_file(tmp_path, make_record):
    write_record(tmp_path / "record.json", make_record())
    values = strict_json((tmp_path / "record.json").read_text())
    assert set(values) >= KEYS
    assert set(values) == {field.name for field in dataclasses.fields(Record)}
    assert values["schema_version"] == SCHEMA_VERSION


def test_losses_that_are_not_finite_become_null_and_the_file_stays_strict_json(tmp_path, make_record):
    path = tmp_path / "record.json"
    losses = [1.0, float("nan"), float("inf"), -float("inf"), None]
    write_record(path, make_record(losses=losses, shard_losses=[[2.0], losses]))
    values, record = strict_json(path.read_text()), read_record(path)
    assert values["losses"] == record.losses == [1.0, None, None, None, None]
    assert values["shard_losses"] == record.shard_losses == [[2.0], [1.0, None, None, None, None]]


def test_a_measurement_that_is_not_finite_is_never_written(tmp_path, make_record):
    with pytest.raises(ValueError):
        write_record(tmp_path / "record.json", make_record(final_accuracy=float("nan")))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, make_record, refusal):
    (tmp_path / "file").touch()
    assert "record.json" in refusal(lambda: write_record(tmp_path / "file" / "record.json", make_record()))


@pytest.mark.parametrize("content", [b"", b"{", b"not JSON", b"\xff\xfe\x00", b'{"schema_version": 1'])
def test_damaged_json_is_refused_with_file_and_remedy(tmp_path, refusal, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    text = refusal(lambda: read_record(path))
    assert str(path) in text
    assert "delete it and run its launch again" in text


def test_a_missing_file_is_refused(tmp_path, refusal):
    assert "record.json" in refusal(lambda: read_record(tmp_path / "record.json"))


@pytest.mark.parametrize("content", ["[]", "3", "null", '"record"', "{}"])
def test_json_that_is_no_record_is_refused(tmp_path, refusal, content):
    path = tmp_path / "record.json"
    path.write_text(content)
    assert f"schema version None, this program reads {SCHEMA_VERSION}" in refusal(lambda: read_record(path))


@pytest.mark.parametrize("version", [1, 3, 0, "2"])
def test_another_schema_version_is_refused(changed, refusal, version):
    text = refusal(lambda: read_record(changed(schema_version=version)))
    assert f"schema version {version}, this program reads 2" in text
    assert "delete it" in text


def test_a_missing_key_is_refused_by_name(changed, refusal):
    assert "world_size" in refusal(lambda: read_record(changed(world_size=None)))


def test_an_unknown_key_is_damage_that_is_named(changed, refusal):
    text = refusal(lambda: read_record(changed(speed_up=4.0)))
    assert "is damaged" in text
    assert "speed_up" in text


def test_a_record_cannot_be_changed(make_record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_record().world_size = 4


def test_a_folders_records_come_in_the_order_of_their_names(tmp_path, make_record):
    for name in ("b", "c", "a"):
        write_record(tmp_path / f"{name}.json", make_record(strategy=f"strategy_{name}"))
    (tmp_path / "a.log").write_text("not a record")
    found = read_records(tmp_path)
    assert [path.name for path in found] == ["a.json", "b.json", "c.json"]
    assert [record.strategy for record in found.values()] == ["strategy_a", "strategy_b", "strategy_c"]


def test_one_damaged_record_in_a_folder_is_named(tmp_path, make_record, refusal):
    write_record(tmp_path / "a.json", make_record())
    (tmp_path / "b.json").write_text("{")
    assert "b.json" in refusal(lambda: read_records(tmp_path))


def test_a_folder_without_records_has_none(tmp_path):
    assert read_records(tmp_path) == {}


# What the declaration tells


def test_what_is_declared_is_known_before_the_launch(declare):
    traffic = Traffic(1.5, "half of three", "A paper, 1999")
    strategy = declare(
        base="numpy_alone",
        compared_with={"convenience of": "numpy_loop"},
        traffic=lambda *_: traffic,
        processes_beside=lambda options: 2 if options.codec == "fp16" else 1,
    )
    task, options = Task(scaling="weak", threads=3), strategy.options(codec="fp16", exchange=False)
    known = declared(strategy, task, options, 4)
    assert known == {
        "strategy": "numpy_threads",
        "label": "fp16 codec, other maths",
        "family": "NumPy",
        "colors": ["#111111", "#555555", "#999999"],
        "framework": "numpy",
        "base": "numpy_alone",
        "alone": "",
        "script": "numpy_impl/threads.py",
        # The script of a made-up strategy isn't there.
        "distributed_by": [],
        "compared_with": {"convenience of": "numpy_loop"},
        "world_size": 4,
        "synchronous": True,
        "shards": 4,
        "other_maths": ["codec"],
        "formula_bytes_per_step": 1.5,
        "formula": "half of three",
        "formula_source": "A paper, 1999",
        "scaling": "weak",
        "threads_per_worker": 3,
        "processes_beside": 2,
        "task": dataclasses.asdict(task),
        "options": dataclasses.asdict(options),
    }


def test_what_a_script_says_of_itself_is_quoted_with_its_line(declare, tmp_path, monkeypatch):
    monkeypatch.setattr(quotation, "ROOT", tmp_path)
    (tmp_path / "loop.py").write_text("wait()\n# The line that makes it distributed.\nmeet()\n")
    known = declared(declare(script="loop.py"), Task(), declare().options(), 2)
    code = "# The line that makes it distributed.\nmeet()"
    assert (known["script"], known["distributed_by"]) == ("loop.py", [{"line": 2, "code": code}])


def test_the_formula_is_of_the_models_bytes_the_workers_and_the_options(declare):
    asked = []

    def traffic(*arguments):
        asked.append(arguments)
        return Traffic(None, "none")

    strategy, task = declare(traffic=traffic), Task(dimensions=(64, 7, 10))
    options = strategy.options(prefetch=2)
    assert declared(strategy, task, options, 3)["formula_bytes_per_step"] is None
    assert asked == [(mlp.parameter_bytes(task), 3, options)]


def test_a_launch_that_does_not_wait_for_all_gradients_is_declared_asynchronous(declare):
    strategy = declare(synchronous_with={"packed": True})
    for packed in (True, False):
        known = declared(strategy, Task(), strategy.options(packed=packed), 2)
        assert known["synchronous"] is packed


def test_a_record_is_named_by_its_strategy_and_its_label(make_record):
    assert make_record().name == "numpy_threads"
    assert make_record(label="no packed, fp16 codec").name == "numpy_threads, no packed, fp16 codec"


def test_gradients_are_exchanged_unless_the_options_say_otherwise(make_record):
    found = [make_record(options=options).exchange for options in ({}, {"exchange": True}, {"exchange": False})]
    assert found == [True, True, False]


# What all ranks measured


def part_of(rank, **changes):
    values = {
        "windows": [{"rank": rank, "step": 5, "steps": 5, "seconds": 0.5}],
        "losses": [[1.0 + rank], [2.0 + rank]],
        "examples": 64,
        "startup_seconds": {"imports": 0.5, "world": 0.25, "first_step": 0.25 + rank},
        "startup_processor_seconds": {"imports": 0.5, "world": 0.0, "first_step": 0.5 - rank / 4},
        "peak_memory_bytes": 1000 + rank,
        "memory_bytes": {"parameters": rank},
        "process_start_seconds": 100.0 + rank,
        "sent_bytes": 1000 * (rank + 1),
    }
    return Part(**values | changes)


# Hosts


def told(count, **about):
    hosts = [{"name": f"host{number}", "workers": 2} for number in range(1, count + 1)]
    return Site(hosts=hosts, **about)


def test_bytes_are_those_of_the_launchs_own_network_or_of_each_host_once(monkeypatch):
    parts = [part_of(rank) for rank in range(4)]
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": None}
    for name, value in told(2).variable().items():
        monkeypatch.setenv(name, value)
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": 400, "host_bytes_per_step": [100, 300]}
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    assert wire_bytes(parts, 4, steps=10) == {"wire_bytes_per_step": 100}


def test_a_coordinators_clock_alone_does_not_tell_what_all_hosts_sent(monkeypatch):
    for name, value in told(2).variable().items():
        monkeypatch.setenv(name, value)
    assert wire_bytes([part_of(0)], 4, steps=10) == {"wire_bytes_per_step": None}


def test_over_several_hosts_the_formula_is_that_of_what_goes_from_host_to_host(declare):
    strategy = declare(traffic=ring_all_reduce, traffic_between_hosts=ring_between_hosts)
    parameters = parameter_bytes(Task())
    for count, expected in ((1, 6), (2, 3), (4, 6)):
        known = declared(strategy, Task(), Options(), 4, told(count))
        assert known["formula_bytes_per_step"] == expected * parameters


@pytest.mark.parametrize(
    ("count", "virtual", "name"),
    [
        (1, {}, "one, mpi backend"),
        (2, {}, "one, mpi backend, 2 hosts"),
        (4, {"bandwidth_bits_per_second": 1e8, "delay_seconds": 0.0}, "one, mpi backend, 4 hosts, 100 Mbit/s"),
        (2, {"delay_seconds": 0.001}, "one, mpi backend, 2 hosts, 1 ms delay"),
    ],
)
def test_hosts_and_their_link_are_part_of_a_launchs_name(count, virtual, name, make_record):
    record = make_record(strategy="one", label="mpi backend", **told(count, virtual=virtual).facts())
    assert record.name == name


@pytest.fixture
def gathered(declare):
    """A function that makes the record of two ranks' parts, of a made-up strategy with the changes that it is given."""

    def record_of(*parts, **changes):
        strategy = declare(**changes)
        world = World(placement=Placement([3], oversubscribed=False), size=2, backend="barrier", device="abacus")
        return of_launch(strategy, Task(), strategy.options(), world, parts, final_accuracy=0.5)

    return record_of


def test_a_launchs_record_has_what_every_rank_measured(gathered):
    record = gathered(part_of(0), part_of(1))
    assert (record.status, record.world_size, record.backend, record.device) == ("ok", 2, "barrier", "abacus")
    assert (record.pinned_cores, record.oversubscribed, record.final_accuracy) == ([3], False, 0.5)
    assert [window["rank"] for window in record.windows] == [0, 1]
    assert record.losses == [1.5, 2.5]
    assert (record.shards, record.shard_losses) == (2, [[1.0, 2.0], [2.0, 3.0]])
    assert record.time_to_first_step_s == 2.0
    assert record.startup_seconds == {"imports": 0.5, "world": 0.25, "first_step": 1.25}
    # Of the rank that was slowest, not the one that computed most.
    assert record.startup_processor_seconds == {"imports": 0.5, "world": 0.0, "first_step": 0.25}
    assert record.examples_by_rank == [64, 64]
    assert record.peak_memory_bytes == [1000, 1001]
    assert record.memory_bytes == [{"parameters": 0}, {"parameters": 1}]


def test_a_launch_started_as_long_ago_as_its_process_lasts_by_utc(gathered, monkeypatch):
    monkeypatch.setattr(startup, "seconds_since_start", lambda: 3600.0)
    started_at = datetime.fromisoformat(gathered(part_of(0), part_of(1)).started_at)
    assert started_at.utcoffset() == timedelta()
    assert timedelta(hours=1) <= datetime.now(UTC) - started_at < timedelta(hours=1, minutes=5)


def test_the_versions_are_those_of_the_familys_packages(gathered, monkeypatch):
    monkeypatch.setattr(machine, "versions", lambda packages: dict.fromkeys(packages, "1.0"))
    assert gathered(part_of(0), part_of(1)).versions == {"numpy": "1.0", "scipy": "1.0"}


def test_a_rank_that_sees_no_loss_leaves_it_to_those_that_do(gathered):
    record = gathered(part_of(0, losses=[]), part_of(1), work=Work.PARTS_OF_ONE_MODEL)
    assert record.losses == [2.0, 3.0]
    assert (record.shards, record.shard_losses) == (1, [[2.0, 3.0]])


def test_a_process_that_has_the_shards_of_all_workers_gives_the_loss_of_each(gathered):
    part = part_of(0, losses=[[1.0, 2.0], [3.0, 5.0]])
    record = gathered(part, work=Work.REPLICAS_IN_ONE_PROCESS)
    assert record.losses == [1.5, 4.0]
    assert (record.shards, record.shard_losses) == (2, [[1.0, 3.0], [2.0, 5.0]])


def test_shards_of_different_lengths_are_a_mistake(gathered):
    with pytest.raises(ValueError):
        gathered(part_of(0, losses=[[1.0, 2.0], [3.0]]), work=Work.REPLICAS_IN_ONE_PROCESS)


@pytest.mark.parametrize("examples", [(0, 64), (64, 0), (64, 64)])
def test_rows_that_parts_of_one_model_all_see_count_once(gathered, examples):
    parts = [part_of(rank, examples=count) for rank, count in enumerate(examples)]
    assert gathered(*parts, work=Work.PARTS_OF_ONE_MODEL).examples_by_rank == [64, 0]
    assert gathered(*parts).examples_by_rank == list(examples)
