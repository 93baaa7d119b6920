"""What the report says of Horovod's settings and timeline, and where it says nothing."""

import dataclasses

import pytest

from common.record import Record
from reports import horovod_costs
from reports.blocks import DASH
from reports.material import gather, regime_names
from reports.results import Results
from tests.reports.records import make_record, named, varied

TIMELINE = {
    **{"steps": 50, "negotiation_seconds": 0.05, "queueing_seconds": 0.005},
    **{"copying_seconds": 0.01, "all_reduce_seconds": 0.025},
}


def section(tmp_path, *records: Record) -> list[dict]:
    found = gather(Results(tmp_path, named(*records), None))
    return horovod_costs.section(found.horovod_settings, found.horovod_phases, found.cells, regime_names(found.cells))


def tables_of(blocks: list[dict]) -> list[list[list[str]]]:
    return [block["rows"] for block in blocks if block["kind"] == "table"]


def test_a_comparison_without_horovod_or_with_its_defaults_alone_has_no_such_section(tmp_path):
    assert section(tmp_path, make_record("torch_ddp", 2), varied("torch_ddp", 2, static_graph=True)) == []
    assert section(tmp_path, make_record("horovod_torch", 2)) == []


def test_settings_stand_beside_the_default_of_the_same_strategy(tmp_path):
    default = [make_record("horovod_torch", 2, (4.0,) * 3) for _ in range(6)]
    mpi = [varied("horovod_torch", 2, (2.0 + 0.1 * number,) * 3, backend="mpi") for number in range(6)]
    other = [varied("horovod_tensorflow", 2, (1.0,) * 3, backend="mpi")]
    [rows] = tables_of(section(tmp_path, *default, *mpi, *other))
    assert rows == [
        ["horovod_torch, mpi backend", "2", "digits weak", "2.25", "4.00", "0.56", "0.50 to 0.62", "6"],
    ]


def test_few_launches_have_a_factor_without_an_interval_and_a_note(tmp_path):
    blocks = section(tmp_path, make_record("horovod_torch", 2), varied("horovod_torch", 2, fusion_megabytes=0.0))
    [table] = [block for block in blocks if block["kind"] == "table"]
    assert table["rows"][0][-2:] == [DASH, "1"]
    assert "fewer than 6" in table["notes"][0]


@pytest.mark.parametrize("without_exchange", [True, False])
def test_the_timeline_stands_beside_the_exposed_communication_where_that_was_measured(tmp_path, without_exchange):
    record = dataclasses.replace(varied("horovod_torch", 2, (4.0,) * 3, trace=True), horovod_timeline=TIMELINE)
    records = [record]
    if without_exchange:
        computing = varied("horovod_torch", 2, (1.5,) * 3, trace=True)
        records.append(dataclasses.replace(computing, config=computing.config | {"exchange": False}))
    [rows] = tables_of(section(tmp_path, *records))
    exposed = "2.50" if without_exchange else DASH
    assert rows == [
        ["horovod_torch, trace", "2", "digits weak", "1", "1.00", "0.100", "0.200", "0.500", exposed],
    ]
