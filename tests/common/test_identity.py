"""common/identity.py: what makes an interrupted session begin anew, and what doesn't."""

import pytest

from common import environments, identity


@pytest.fixture
def checkout(tmp_path):
    for name in ("common/run.py", "numpy_impl/ddp.py", "numpy_impl/building/flags.h", "pyproject.toml", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["common/run.py", "numpy_impl/ddp.py", "numpy_impl/building/flags.h", "pyproject.toml"]
)
def test_an_edit_of_what_launches_import_changes_the_code(checkout, name):
    before = identity.code_digest(checkout)
    (checkout / name).write_text("edited")
    assert identity.code_digest(checkout) != before


def test_a_file_that_is_added_or_renamed_changes_the_code(checkout):
    before = identity.code_digest(checkout)
    (checkout / "common" / "run.py").rename(checkout / "common" / "loop.py")
    renamed = identity.code_digest(checkout)
    (checkout / "common" / "more.py").write_text("")
    assert len({before, renamed, identity.code_digest(checkout)}) == 3


@pytest.mark.parametrize("name", ["README.md", "reports/page.py", "common/__pycache__/run.cpython-311.pyc"])
def test_an_edit_of_anything_else_does_not(checkout, name):
    before = identity.code_digest(checkout)
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("edited")
    assert identity.code_digest(checkout) == before


def test_another_version_of_a_package_changes_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    packages = tmp_path / "torch" / "lib" / "python3.11" / "site-packages"
    (packages / "numpy-2.4.6.dist-info").mkdir(parents=True)
    assert "torch: numpy-2.4.6.dist-info" in identity.installed()
    before = identity.fingerprint({})
    (packages / "numpy-2.4.6.dist-info").rename(packages / "numpy-2.4.7.dist-info")
    assert identity.fingerprint({}) != before


def test_variables_that_frameworks_obey_are_kept_and_those_of_launchers_and_of_others_are_not():
    obeyed = {"LD_PRELOAD": "libjemalloc.so", "OMP_WAIT_POLICY": "active", "TF_ENABLE_ONEDNN_OPTS": "0"}
    launchers = {"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "TF_CONFIG": "{}", "TORCHELASTIC_RUN_ID": "x"}
    others = {"HOME": "/home/me", "MASTER_PORT": "1", "RANK": "0", "OMNI_PATH": "1"}
    assert identity.obeyed_variables({**others, **obeyed, **launchers}) == obeyed
    assert identity.fingerprint(obeyed) != identity.fingerprint(obeyed | {"OMP_WAIT_POLICY": "passive"})
