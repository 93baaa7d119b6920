"""What the report says of the frameworks' ceilings, and when a difference is said to be the frameworks' products'."""

import dataclasses

import pytest

from common.contract.task import PRESETS
from common.records.ceiling import AS_TRAINED, Ceiling
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import ceilings
from tests.reports.pieces import items
from tests.reports.probes import probe
from tests.reports.records import MadeUpOptions, make_record, named, varied


def results(tmp_path, records, *probes: Ceiling) -> Results:
    return Results(tmp_path, named(*records), None, ceilings=probes)


def section(tmp_path, records, *probes: Ceiling) -> list[dict]:
    return ceilings.story(Material(results(tmp_path, records, *probes)))


def rows(tmp_path, records, *probes: Ceiling) -> list[tuple]:
    """Each strategy of the table with its workers and, in milliseconds, its products, step and exchange alone."""
    times = ["products_seconds", "step_seconds", "exchange_seconds"]
    found = Material(results(tmp_path, records, *probes)).ceilings
    found[times] = (1000 * found[times]).round(6)
    return [*found[["strategy", "workers", *times]].fillna(0.0).itertuples(index=False, name=None)]


def sentences(tmp_path, *probes: Ceiling) -> list[str]:
    return items(section(tmp_path, [make_record("amber_single")], *probes))


def explained(tmp_path, milliseconds, of_products) -> list[str]:
    """What is said of amber's and cobalt's bases with these steps and products, both in milliseconds."""
    bases = [
        make_record(name, milliseconds=(each,) * 3)
        for name, each in zip(("amber_single", "cobalt_single"), milliseconds, strict=True)
    ]
    probes = [probe(name, each) for name, each in zip(("amber", "cobalt"), of_products, strict=True)]
    table = Material(results(tmp_path, bases, *probes)).ceilings
    return ceilings.explanations(table, table["regime"].iloc[0])


def test_without_a_probe_nothing_is_said(tmp_path):
    assert section(tmp_path, [make_record("amber_single")]) == []


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
    assert Material(results(tmp_path, [make_record("amber_single")], *others)).ceilings.empty


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


def test_what_a_probe_measured_is_said_with_what_computed_and_what_is_empty_left_out(tmp_path):
    [said] = sentences(tmp_path, probe(milliseconds=8.0))
    # Each of the eight products takes a millisecond.
    assert said.startswith("Amber: products, as trained: 8.000 ms a step, ")
    assert said.endswith("; exchange, a sum: 0.400 ms for 0.000 MB. products by: hand. The processor has avx2.")


def test_what_was_tried_stands_beside_how_it_is(tmp_path):
    several = probe(ways={AS_TRAINED: 2.0, "sideways": 1.0})
    as_it_is, changed = sentences(tmp_path, several, probe(milliseconds=2.5, variables={"KERNELS": "old"}))
    assert "products, as trained: 2.000 ms a step" in as_it_is
    assert "products, sideways: 1.000 ms a step" in as_it_is
    assert changed.startswith("Amber with KERNELS=old: products, as trained: 2.500 ms a step")
    assert "avx2" not in changed


def test_a_probe_that_failed_is_a_sentence(tmp_path):
    broken = {"status": "failed", "reason": "It was ended.", "log": "some.log", "products": [], "exchange": []}
    assert sentences(tmp_path, probe(**broken), probe(variables={"A": "1"}, **broken)) == [
        "The probe of Amber is failed: It was ended. (log: some.log)",
        "The probe of Amber with A=1 is failed: It was ended. (log: some.log)",
    ]


def test_a_difference_that_the_products_explain_is_said_to_be_theirs(tmp_path):
    assert explained(tmp_path, milliseconds=(4.0, 3.0), of_products=(2.0, 1.2)) == [
        "amber_single's step of 4.00 ms is 1.00 ms longer than cobalt_single's, and amber's matrix products of these "
        "shapes alone take 0.800 ms longer than cobalt's: that difference is the frameworks', whoever distributes them."
    ]


@pytest.mark.parametrize(
    ("milliseconds", "of_products"),
    [
        pytest.param((4.0, 3.0), (2.0, 1.6), id="they explain less than half of it"),
        pytest.param((4.0, 3.0), (4.0, 1.9), id="they explain more than twice as much"),
        pytest.param((4.0, 3.0), (1.0, 2.0), id="they are faster where the step is slower"),
        pytest.param((4.0, 3.9), (2.0, 1.9), id="the steps hardly differ"),
    ],
)
def test_what_the_products_do_not_explain_is_not_said_to_be_theirs(tmp_path, milliseconds, of_products):
    assert explained(tmp_path, milliseconds, of_products) == []
