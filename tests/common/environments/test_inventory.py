"""common/environments/inventory.py: when an environment counts as made, and what is said of one that isn't."""

import json

import pytest

from common.environments import inventory
from common.environments.inventory import Environment
from common.errors import NotInstalledError


@pytest.mark.parametrize(
    "change", ["another Python", "another pin", "another list", "another script", "its Python is gone"]
)
def test_a_change_makes_an_environment_outdated(change, tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path / "made")
    script = tmp_path / "scripts" / "build.py"
    script.parent.mkdir()
    script.touch()
    environment, version = Environment("one", ("second==1.0",), script), "3.13.0"
    environment.python.parent.mkdir(parents=True)
    environment.python.touch()
    environment.made.write_text(json.dumps(environment.ingredients(version)))
    assert environment.is_made(version)
    if change == "another Python":
        version = "3.13.1"
    elif change == "another pin":
        environment = Environment("one", ("second==2.0",), script)
    elif change == "another list":
        (tmp_path / "list.txt").write_text("second==2.0")
        monkeypatch.setattr(inventory, "CONSTRAINTS", tmp_path / "list.txt")
        assert not environment.has_packages(version)
    elif change == "another script":
        assert environment.has_packages(version)
        script.with_name("edits.py").touch()
    else:
        environment.python.unlink()
    assert not environment.is_made(version)


def test_an_environment_that_is_not_finished_has_no_interpreter(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    one = Environment("one", ())
    assert inventory.python_of("one") is None
    one.made.parent.mkdir()
    with pytest.raises(NotInstalledError, match="isn't finished: run `nox -s one`"):
        inventory.python_of("one")
    one.failed.write_text("It can't be made.\n")
    with pytest.raises(NotInstalledError, match=r"^It can't be made\.$"):
        inventory.python_of("one")
    one.failed.unlink()
    one.made.touch()
    assert inventory.python_of("one") == one.python
