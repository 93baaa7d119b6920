"""What frameworks' probes measured, beside the strategies that they are the ceilings of."""

import dataclasses

from common.contract.task import PRESETS
from common.records.ceiling import Ceiling
from tests.reports.materials import material_of, probe
from tests.reports.records import MadeUpOptions, make_record, varied


def rows(records, *probes: Ceiling) -> list[tuple]:
    """Each strategy of the table with its workers and, in milliseconds, its products, step and exchange alone."""
    times = ["products_seconds", "step_seconds", "exchange_seconds"]
    found = material_of(*records, ceilings=probes).ceilings
    found[times] = (1000 * found[times]).round(6)
    return [*found[["strategy", "workers", *times]].fillna(0.0).itertuples(index=False, name=None)]


def test_each_strategy_stands_beside_the_products_of_its_framework_and_the_exchange_of_its_family():
    records = [
        *[make_record("amber_single"), make_record("cobalt_single", milliseconds=(4.0,) * 3)],
        *[make_record("amber_ring", 2, (6.0,) * 3), varied("amber_ring", 2, (2.5,) * 3, exchange=False)],
        *[make_record("teal_amber", 2, (6.0,) * 3), varied("teal_amber", 2, (2.0,) * 3, exchange=False)],
    ]
    assert rows(records, probe("amber", 1.0)) == [
        *[("amber_ring", 2, 1.0, 2.5, 0.4), ("amber_single", 1, 1.0, 2.0, 0.0), ("teal_amber", 2, 1.0, 2.0, 0.0)],
    ]


def test_a_probe_that_failed_or_changed_its_framework_stands_beside_nothing():
    others = [probe(status="failed"), probe(variables={"KERNELS": "old"})]
    assert rows([make_record("amber_single")], *others) == []


def test_an_exchange_over_another_transport_does_not_stand_beside_it():
    records = [make_record("amber_ring", 2, (6.0,) * 3), varied("amber_ring", 2, (2.5,) * 3, exchange=False)]
    [row] = rows(records, probe(backend="carrier pigeons"))
    assert row[-1] == 0.0


def test_products_of_other_rows_are_no_ceiling_of_a_strategy():
    assert rows([make_record("amber_single")], probe(rows=32)) == []


def test_a_worker_of_strong_scaling_has_its_part_of_the_rows():
    task = dataclasses.replace(PRESETS["digits"], workers=2, batch=128, steps=60, warmup_steps=20, window_steps=10)
    alone = MadeUpOptions(exchange=False)
    records = [make_record("amber_ring", 2, task=task), make_record("amber_ring", 2, task=task, options=alone)]
    [row] = rows(records, probe())
    assert row[:2] == ("amber_ring", 2)
