"""The one launch of every strategy that several tests of the contract look at."""

from functools import cache

import pytest

from common.records.files import read_record
from common.records.training import Record
from tests.conftest import Launched
from tests.contract.worlds import cases_of, grid_of, is_left_to_the_grid, train_all


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the grid the launches of all cases of a strategy, but for one strategy of each environment."""
    for item in items:
        if "trained" in item.fixturenames and is_left_to_the_grid(item.callspec.params["strategy"]):
            item.add_marker(pytest.mark.grid)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A function that trains all cases of a strategy, joining its world once, and returns what one of them left.

    With a number of workers they are the cases of the grid.
    """

    @cache
    def train(name, workers):
        folder = tmp_path_factory.mktemp(name)
        return folder, *train_all(name, grid_of(name, workers, folder) if workers else cases_of(name, folder))

    def what_is_left(name, case, workers=None):
        folder, status, output = train(name, workers)
        assert status == 0, output
        record = folder / f"{case}.json"
        return Launched(status, output, read_record(record, Record) if record.exists() else None, folder)

    return what_is_left
