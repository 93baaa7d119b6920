"""The one launch of every strategy that several tests of the contract look at."""

from functools import cache
from pathlib import Path

import pytest

from common.declarations.catalogue import strategies
from common.records.files import read_record
from common.records.training import Record
from tests.conftest import Launched
from tests.contract.cases import cases_of
from tests.contract.worlds import is_left_to_the_grid, train_all


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the grid the launches of all cases of a strategy, but for one strategy of each environment."""
    for item in items:
        if "trained" in item.fixturenames and is_left_to_the_grid(item.callspec.params["strategy"]):
            item.add_marker(pytest.mark.grid)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A function that trains all cases of a strategy, joining its world once, and returns what one of them left."""
    folders: dict[str, Path] = {}

    @cache
    def train(name):
        folders[name] = tmp_path_factory.mktemp(name)
        return train_all(strategies()[name], cases_of(name, folders[name]))

    def what_is_left(name, case):
        status, output = train(name)
        assert status == 0, output
        record = folders[name] / f"{case}.json"
        return Launched(status, output, read_record(record, Record) if record.exists() else None, folders[name])

    return what_is_left
