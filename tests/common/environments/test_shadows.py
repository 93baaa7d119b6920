"""common/environments/shadows.py: what takes the place of a package on PYTHONPATH is refused by its name."""

import os
import shutil
import subprocess
import sys

import pytest

from common.environments import inventory, shadows
from common.paths import ROOT


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The site-packages of an environment in which yaml and numpy are installed."""
    folder = tmp_path / ".nox" / "torch" / "lib" / "python3.11" / "site-packages"
    for package in ("yaml", "numpy"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    monkeypatch.setattr(inventory, "FOLDER", tmp_path / ".nox")
    return folder


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("yaml.py", "yaml"),
        ("numpy/__init__.py", "numpy"),
        ("yaml.cpython-311-x86_64-linux-gnu.so", "yaml"),
        ("queue.py", "queue"),
        ("common/__init__.py", "common"),
    ],
)
def test_a_module_that_takes_the_place_of_another_is_refused(file, module, site, tmp_path, monkeypatch, refusal):
    entry = tmp_path / "opt" / "ros"
    (entry / file).parent.mkdir(parents=True)
    (entry / file).touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "nowhere"), str(entry)]))
    name = file.partition("/")[0]
    assert f"names {entry}, where {name} takes the place of the package {module}: " in refusal(shadows.refuse)


def test_what_takes_nobodys_place_is_no_shadow(site, tmp_path, monkeypatch):
    entry = tmp_path / "opt"
    # Of packages, only one with an __init__.py comes before others of its name.
    for file in ("rospy/__init__.py", "numpy/data.txt", "yaml.txt", "sitecustomize.py"):
        path = entry / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(entry), str(ROOT), str(site)]))
    shadows.refuse()
    monkeypatch.delenv("PYTHONPATH")
    shadows.refuse()


def test_a_session_is_refused_before_any_python_of_ours_is_started(tmp_path):
    # Every environment has this package, and Nox itself doesn't import it.
    (tmp_path / "psutil.py").write_text("raise SystemExit('not the psutil that is installed')\n")
    nox = shutil.which("nox", path=os.path.dirname(sys.executable)) or "nox"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run([nox, "-s", "report"], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    assert result.returncode != 0
    assert f"PYTHONPATH names {tmp_path}, where psutil.py takes the place of the package psutil" in result.stderr
