"""common/environments/inventory.py: when an environment counts as made, and what is said of one that isn't."""

import json

import pytest

from common.environments import inventory
from common.environments.inventory import Environment


@pytest.mark.parametrize(
    "change",
    ["another Python", "another pin", "another list", "another script", "another folder", "no Python"],
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
    assert not environment.was_moved
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
    elif change == "another folder":
        monkeypatch.setattr(inventory, "FOLDER", (tmp_path / "made").rename(tmp_path / "moved"))
        assert environment.was_moved
    else:
        environment.python.unlink()
    assert not environment.is_made(version)
