"""What frameworks' probes measured, beside the strategies that they are the ceilings of."""

import dataclasses

import pandas as pd

from common.contract.task import PRESETS
from common.records.ceiling import AS_TRAINED, Ceiling
from reports.tables.material import Material
from reports.tables.results import Results
from tests.reports.probes import probe
from tests.reports.records import MadeUpOptions, make_record, named, varied


def material(tmp_path, records, *probes: Ceiling) -> Material:
    return Material(Results(tmp_path, named(*records), None, ceilings=probes))


def rows(tmp_path, records, *probes: Ceiling) -> list[tuple]:
    """Each strategy of the table with its workers and, in milliseconds, its products, step and exchange alone."""
    times = ["products_seconds", "step_seconds", "exchange_seconds"]
    found = material(tmp_path, records, *probes).ceilings
    found[times] = (1000 * found[times]).round(6)
    return [*found[["strategy", "workers", *times]].fillna(0.0).itertuples(index=False, name=None)]


def clocked(tmp_path, *probes: Ceiling) -> pd.DataFrame:
    return material(tmp_path, [make_record("amber_single")], *probes).probes


def test_each_strategy_stands_beside_the_products_of_its_framework_and_the_exchange_of_its_family(tmp_path):
    records = [
        *[make_record("amber_single"), make_record("cobalt_single", milliseconds=(4.0,) * 3)],
        *[make_record("amber_ring", 2, (6.0,) * 3), varied("amber_ring", 2, (2.5,) * 3, exchange=False)],
        *[make_record("teal_amber", 2, (6.0,) * 3), varied("teal_amber", 2, (2.0,) * 3, exchange=False)],
    ]
    assert rows(tmp_path, records, probe("amber", 1.0)) == [
        *[("amber_ring", 2, 1.0, 2.5, 0.4), ("amber_single", 1, 1.0, 2.0, 0.0), ("teal_amber", 2, 1.0, 2.0, 0.0)],
    ]


def test_a_probe_that_failed_or_changed_its_framework_stands_beside_nothing(tmp_path):
    others = [probe(status="failed"), probe(variables={"KERNELS": "old"})]
    assert material(tmp_path, [make_record("amber_single")], *others).ceilings.empty


def test_an_exchange_over_another_transport_does_not_stand_beside_it(tmp_path):
    records = [make_record("amber_ring", 2, (6.0,) * 3), varied("amber_ring", 2, (2.5,) * 3, exchange=False)]
    [row] = rows(tmp_path, records, probe(backend="carrier pigeons"))
    assert row[-1] == 0.0


def test_products_of_other_rows_are_no_ceiling_of_a_strategy(tmp_path):
    assert rows(tmp_path, [make_record("amber_single")], probe(rows=32)) == []


def test_a_worker_of_strong_scaling_has_its_part_of_the_rows(tmp_path):
    task = dataclasses.replace(PRESETS["digits"], workers=2, batch=128, steps=60, warmup_steps=20, window_steps=10)
    alone = MadeUpOptions(exchange=False)
    records = [make_record("amber_ring", 2, task=task), make_record("amber_ring", 2, task=task, options=alone)]
    [row] = rows(tmp_path, records, probe())
    assert row[:2] == ("amber_ring", 2)


def test_every_way_of_a_probe_and_its_exchange_have_a_row_with_what_computed(tmp_path):
    table = clocked(tmp_path, probe(ways={AS_TRAINED: 2.0, "sideways": 1.0}), probe(variables={"KERNELS": "old"}))
    assert table["operation"].tolist() == [
        "products, as trained",
        "products, sideways",
        "a sum",
        *table["operation"][3:],
    ]
    assert (1000 * table["seconds"]).round(6).tolist() == [2.0, 1.0, 0.4, 1.0, 0.4]
    assert table["variables"].tolist() == ["", "", "", "KERNELS: old", "KERNELS: old"]
    assert {*table["facts"]} == {"products by: hand; instruction sets: avx2"}
    # 2 operations for each of 64 rows times the inputs times the outputs, of each product.
    operations = sum(each.operations for each in probe().products)
    assert table["gigaflops"].tolist()[0] == operations / 2e-3 / 1e9


def test_a_probe_that_failed_has_a_row_with_the_reason(tmp_path):
    [row] = clocked(tmp_path, probe(status="failed", reason="It was ended.", products=[], exchange=[])).to_dict(
        "records"
    )
    assert (row["framework"], row["reason"]) == ("amber", "It was ended.")
    assert pd.isna(row["seconds"])
