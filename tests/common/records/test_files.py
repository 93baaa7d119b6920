"""common/records/files.py: records of every kind come back as they were, or are refused in one line, whatever is there.

Of the version before there is a record of a launch, schema3.json.
"""

import json
import math
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.contract.task import Task
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.records import ceiling, files
from common.records.ceiling import Ceiling
from common.records.collective_times import CollectivesRecord, Replayed
from common.records.files import (
    EARLIER_VERSIONS,
    RUN_AGAIN,
    damaged_records,
    read_record,
    read_records,
    to_json,
    write_record,
)
from common.records.header import MOST, PRESENTATION, SCHEMA_VERSION, Host, Link, Machine, Virtual
from common.records.quotation import Quotation
from common.records.trace import Message
from common.records.training import Accuracy, Memory, Phase, Record, Startup, Window
from tests.common.laboratory import collective_records
from tests.common.records import matrix_records

EARLIER = Path(__file__).with_name("schema3.json")

LINK = Link(bytes_per_second=1e7, round_trip_seconds=1e-4)
STARTUP = Startup(imports=1.0, world=0.5, first_step=0.25)
KINDS = {
    "training": Record(
        **{"family": "NumPy", "colors": ["#111111"], "status": "ok", "world_size": 2, "threads_per_worker": 1},
        **{"pinned_cores": [0, 1], "versions": {"numpy": "2.0"}, "started_at": "2026-01-01T00:00:00.000+00:00"},
        host=Machine(name="here", processor="Some CPU", cores=2, memory_bytes=2**33, gpus=["one"], system="Linux 6"),
        hosts=[Host(name="one", workers=1, clock_offset_seconds=-3.5), Host(name="two", workers=1, interface="eth0")],
        **{"virtual": Virtual(bandwidth_bits_per_second=1e8), "link": LINK},
        **{"strategy": "numpy_threads", "synchronous": True, "scaling": "weak", "examples_per_step": 64},
        task=Task(data_dir=Path("data"), workers=2, final_learning_rate=0.5),
        options={"exchange": True, "codec": "none", "megabytes": 0.5, "steps": 3, "nothing": None},
        distributed_by=[Quotation(line=3, code="meet()")],
        **{"startup_seconds": STARTUP, "startup_processor_seconds": STARTUP, "time_to_first_step_s": 1.75},
        windows=[Window(rank=0, step=50, steps=25, seconds=0.5, own_seconds=0.5, steal_seconds=-0.01)],
        **{"losses": [1.5, None, -1e300], "shard_losses": [[1.5], [None]], "final_accuracy": 0.5},
        accuracies=[Accuracy(step=300, accuracy=0.5, training_seconds=1.5)],
        memory_bytes=[Memory(parameters=4, gradients=4), Memory()],
        phases=[Phase(name="talk", seconds=0.5, meaning="talking")],
    ),
    "collectives": collective_records.record(
        collective_records.cell(messages=[Message(collective="broadcast", size_bytes=8)]),
        sweep=Sweep(sizes=("8", "4K"), messages=Path("messages")),
        replayed=Replayed(strategy="numpy_threads", launch="one", source="a graph", under_way_seconds=[0.5]),
    ),
    "matrix products": matrix_records.record("rows_gloo", {8: 1.0}),
    "ceiling": Ceiling(
        **{"family": "NumPy", "status": "ok", "world_size": 2, "threads_per_worker": 1, "started_at": "now"},
        **{"framework": "numpy", "preset": "digits", "dimensions": [8, 4], "rows": 2, "variables": {"A": "1"}},
        exchange=[ceiling.Window(repetitions=1, seconds=0.5)],
    ),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "record.json"


def places_in(values: object, place: tuple = ()) -> list[tuple]:
    """Where there is a value in what JSON holds, as keys from the outside in."""
    pairs = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    return [place] * bool(place) + [each for key, value in pairs for each in places_in(value, (*place, key))]


def with_value(values: dict, place: tuple, value: object) -> dict:
    changed = inner = deepcopy(values)
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return changed


@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_a_record_comes_back_as_it_was_written_and_is_taken_for_no_other_kind(record, path, refusal):
    write_record(path, record)
    assert read_record(path, type(record)) == record
    values = json.loads(path.read_bytes())
    assert set(values) == {*record.__struct_fields__, "payload"} - {
        name for name in PRESENTATION if not getattr(record, name, True)
    }
    assert (values["schema_version"], values["payload"]) == (SCHEMA_VERSION, record.__struct_config__.tag)
    for other in KINDS.values():
        if other is not record:
            assert "is damaged" in refusal(lambda other=other: read_record(path, type(other)))
    for version in EARLIER_VERSIONS:
        path.write_text(json.dumps(values | {"schema_version": version}))
        assert read_record(path, type(record)) == record


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_written_nor_taken_for_a_missing_one(number, path):
    link = structs.replace(LINK, bytes_per_second=number)
    changes = {"link": link, "losses": [number], "options": {"megabytes": number}, "final_accuracy": number}
    for field, value in changes.items():
        with pytest.raises(ValueError):
            write_record(path, structs.replace(KINDS["training"], **{field: value}))
    assert list(path.parent.iterdir()) == []


REFUSED = {
    ("isn't a record that can be read (", f"): delete it {RUN_AGAIN}."): [
        "",
        '{"schema_version": 5',
        b"\xff\xfe\x00",
        '{"losses": ' * 100_000,
        '{"schema_version": 5, "losses": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"schema_version": 5, "losses": [NaN]}',
        '{"schema_version": 5, "losses": [1e999]}',
        '{"schema_version": 5, "first_step": ' + "9" * 5000 + "}",
        '{"schema_version": 5, "reason": "\\ud800"}',
    ],
    ("never was a record of this program: ", "move it out of the folder."): ["[]", "{}", '{"dependencies": {}}'],
    ("is of schema version ", f", this program reads 5: delete it {RUN_AGAIN}."): [
        f'{{"schema_version": {version}}}' for version in ("2", "6", "3.0", '"3"', "true", "9" * 400, '"a\\nb"')
    ],
}
"""What a file may hold, by how the sentence on it begins and ends."""


@pytest.mark.parametrize(
    ("said", "content"), [(said, each) for said in REFUSED for each in REFUSED[said]], ids=lambda each: ascii(each)[:60]
)
def test_what_is_no_record_of_this_version_in_strict_json_is_refused_in_one_line(said, content, path, refusal):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    text, (begin, end) = refusal(lambda: read_record(path, Record)), said
    assert text.startswith(f"{path} {begin}")
    assert text.endswith(end)
    assert len(text) < 600


def test_a_file_that_cannot_be_read_or_written_is_refused(path, refusal):
    assert "No such file" in refusal(lambda: read_record(path, Record))
    path.touch()
    assert "below.json" in refusal(lambda: write_record(path / "below.json", KINDS["training"]))


MISSING = ...
"""In place of a value: the key isn't there."""

DAMAGE = {
    ("world_size",): (-1, 2.5, True, None, "2", 10**400, MISSING),
    ("windows",): (None, {}),
    ("windows", 0): (None, {"rank": 0, "step": 0, "steps": 1}),
    ("windows", 0, "seconds"): (5e-324, -0.5, 1e10, "0.5", None),
    ("windows", 0, "steps"): (0,),
    ("windows", 0, "own_seconds"): (-0.1,),
    ("losses",): ("x", [1.0, "x"], [10**400], [[]]),
    ("hosts", 0, "clock_offset_seconds"): (1e10,),
    ("link", "bytes_per_second"): (-1,),
    ("accuracies", 0, "accuracy"): (-0.1, 1.1),
    ("status",): ("fine", MISSING),
    ("options", "steps"): (10**400, [3]),
    ("task",): (None, {}, [], MISSING),
    ("task", "steps"): (0, 10**9, 10**400, "many", None, MISSING),
    ("task", "dimensions"): (64, [64], [64, 10**9, 10]),
    ("task", "preset"): ("moon",),
    ("task", "seed"): (-1, MOST + 1),
    ("task", "record"): (3,),
    **dict.fromkeys([("unknown",), ("task", "barch"), ("host", "unknown"), ("windows", 0, "unknown")], (1,)),
}


@pytest.mark.parametrize(("place", "value"), [(place, each) for place in DAMAGE for each in DAMAGE[place]], ids=str)
def test_a_value_that_its_field_cannot_have_is_refused_by_the_fields_name(place, value, path, refusal):
    path.write_text(json.dumps(with_value(to_json(KINDS["training"]), place, value)))
    text = refusal(lambda: read_record(path, Record))
    assert text.startswith(f"{path} is damaged (")
    names = [key for key in place if isinstance(key, str)]
    assert any(name in text or f"--{name.replace('_', '-')}" in text for name in names)
    assert len(text) < 600


def test_a_task_may_have_numbers_as_large_as_a_float_and_a_key_cannot_end_the_line(path, refusal):
    values = to_json(KINDS["training"])
    path.write_text(json.dumps(with_value(values, ("task", "seed"), MOST)))
    assert read_record(path, Record).task.seed == MOST
    path.write_text(json.dumps(values | {"a\nb\x1b[31m" * 100: 1}))
    text = refusal(lambda: read_record(path, Record))
    assert "\x1b" not in text
    assert len(text) < 600


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 5e-324, 2**53, 10**9])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(data=st.data())
def test_whatever_stands_in_place_of_a_value_is_a_record_or_one_line(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.json"
    record = data.draw(st.sampled_from([*KINDS.values()]))
    values = to_json(record)
    place = data.draw(st.sampled_from(places_in(json.loads(json.dumps(values)))))
    path.write_text(json.dumps(with_value(json.loads(json.dumps(values)), place, data.draw(ANY))))
    try:
        read = read_record(path, type(record))
    except UserError as error:
        text = str(error)
    else:
        text = ""
        write_record(path, read)
        assert read_record(path, type(record)) == read
    assert "\n" not in text


def test_the_records_of_a_folder_come_in_order_and_damaged_ones_are_left_out_and_named(tmp_path):
    for name in ("b", "c", "a"):
        write_record(tmp_path / f"{name}.json", structs.replace(KINDS["training"], strategy=name))
    (tmp_path / "a.json.cells").write_text("{}")
    (tmp_path / "d.json").write_text("{")
    # Hidden files are not looked at.
    (tmp_path / "._a.json").write_bytes(b"\x00\x05\x16\x07")
    records = read_records(tmp_path, Record)
    assert [(launch, record.strategy) for launch, record in records.items()] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert read_records(tmp_path / "nowhere", Record) == {}
    [(launch, reason)] = damaged_records(tmp_path, Record, ["a"]).items()
    assert launch == "d"
    assert reason.startswith(f"{tmp_path / 'd.json'} isn't a record that can be read")


def test_a_sweep_that_could_have_been_pipelined_is_read_unless_it_was(path, refusal):
    record = KINDS["collectives"]
    path.write_text(json.dumps(with_value(to_json(record), ("sweep", "pipelined"), False)))
    assert read_record(path, CollectivesRecord) == record
    path.write_text(json.dumps(with_value(to_json(record), ("sweep", "pipelined"), True)))
    assert "its sweep has no pipelined" in refusal(lambda: read_record(path, CollectivesRecord))


def test_a_launch_of_an_earlier_commit_is_read_and_comes_back_and_damage_is_refused(path, refusal):
    values, record = json.loads(EARLIER.read_text()), read_record(EARLIER, Record)
    assert values["schema_version"] == EARLIER_VERSIONS[0] == SCHEMA_VERSION - 2
    assert record.schema_version == SCHEMA_VERSION
    assert values.keys() >= files.GONE
    assert (record.losses, record.options, record.host.cores) == (values["losses"], values["options"], 2)
    assert [to_json(window) for window in record.windows] == values["windows"]
    assert (record.recipe, record.reading, record.evidence_sha256) == ("", None, "")
    write_record(path, record)
    assert read_record(path, Record) == record
    path.write_text(json.dumps(with_value(values, ("task", "momentum"), MISSING)))
    assert read_record(path, Record).task.momentum == 0.0
    path.write_text(json.dumps(values | {"unknown": 1}))
    assert "is damaged" in refusal(lambda: read_record(path, Record))
