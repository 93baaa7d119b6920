"""common/record.py: one strict JSON file per launch, read back as it was or refused."""

import dataclasses
import json

import pytest

from common.config import Config, from_record
from common.record import SCHEMA_VERSION, Record, read_record, read_records, write_record

KEYS = {
    *("schema_version", "strategy", "framework", "world_size", "synchronous", "scaling", "status", "reason", "config"),
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


def test_a_records_config_leads_back_to_the_config_even_with_paths(tmp_path, make_record):
    config = Config(record=tmp_path / "record.json", data_dir=tmp_path, final_learning_rate=0.01, workers=2)
    write_record(config.record, make_record(config=dataclasses.asdict(config)))
    assert from_record(read_record(config.record).config) == config


def test_every_key_that_readers_count_on_is_in_the_file(tmp_path, make_record):
    write_record(tmp_path / "record.json", make_record())
    values = strict_json((tmp_path / "record.json").read_text())
    assert set(values) >= KEYS
    assert set(values) == {field.name for field in dataclasses.fields(Record)}
    assert values["schema_version"] == SCHEMA_VERSION


def test_losses_that_are_not_finite_become_null_and_the_file_stays_strict_json(tmp_path, make_record):
    path = tmp_path / "record.json"
    write_record(path, make_record(losses=[1.0, float("nan"), float("inf"), -float("inf"), None]))
    assert strict_json(path.read_text())["losses"] == [1.0, None, None, None, None]
    assert read_record(path).losses == [1.0, None, None, None, None]


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
    assert "delete it and run its cell again" in text


def test_a_missing_file_is_refused(tmp_path, refusal):
    assert "record.json" in refusal(lambda: read_record(tmp_path / "record.json"))


@pytest.mark.parametrize("content", ["[]", "3", "null", '"record"', "{}"])
def test_json_that_is_no_record_is_refused(tmp_path, refusal, content):
    path = tmp_path / "record.json"
    path.write_text(content)
    assert f"schema version None, this program reads {SCHEMA_VERSION}" in refusal(lambda: read_record(path))


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0, "1"])
def test_another_schema_version_is_refused(changed, refusal, version):
    text = refusal(lambda: read_record(changed(schema_version=version)))
    assert f"schema version {version}" in text
    assert "delete it" in text


def test_a_missing_key_is_refused_by_name(changed, refusal):
    assert "world_size" in refusal(lambda: read_record(changed(world_size=None)))


def test_an_unknown_key_is_refused_by_name(changed, refusal):
    assert "speed_up" in refusal(lambda: read_record(changed(speed_up=4.0)))


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
