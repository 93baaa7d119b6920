"""The phases of an exchange per step, from the frameworks' own accounts of it."""

import pandas as pd
import pytest

from common.records.training import Record
from reports.tables import phases, summaries
from tests.changes import changed
from tests.reports.records import make_record, named, varied

PHASES = [
    {"name": "waiting", "seconds": 0.06, "meaning": "until all workers have the gradient"},
    {"name": "all-reduce", "seconds": 0.03, "meaning": "the exchange itself"},
]
"""Over the 60 steps of a record of the tests."""


def traced(name: str = "teal_amber", milliseconds: float = 4.0, **fields: object) -> Record:
    return changed(varied(name, 2, (milliseconds,) * 3, trace=True), **{"phases": PHASES} | fields)


def table(*records: Record) -> pd.DataFrame:
    return phases.table(summaries.launches(named(*records)), named(*records))


def test_launches_with_one_worker_or_without_exchange_have_nothing_to_account_for():
    alone = changed(make_record("teal_amber", 1), phases=PHASES)
    silent = changed(varied("teal_amber", 2, exchange=False), phases=PHASES)
    for found in (table(), table(alone, silent)):
        assert found.empty
        assert " ".join(found) == "regime workers strategy family phase meaning n seconds"


def test_phases_are_per_step_in_the_order_of_the_record():
    found = table(traced(phases=PHASES[::-1]))
    assert found["phase"].tolist() == ["all-reduce", "waiting"]
    assert found["seconds"].tolist() == pytest.approx([0.0005, 0.001])


def test_a_launch_that_went_on_from_a_checkpoint_counts_its_own_steps_alone():
    assert table(traced(first_step=30))["seconds"].tolist() == pytest.approx([0.002, 0.001])


def test_a_configuration_counts_by_the_median_of_its_launches():
    launches = [traced(phases=[PHASES[0] | {"seconds": seconds}]) for seconds in (0.06, 0.12, 0.6)]
    [row] = table(*launches).to_dict("records")
    assert (row["n"], row["seconds"]) == (3, pytest.approx(0.002))
