"""common/environments/uv.py: pip's settings reach uv, uv's own go first, and the list of versions names no host."""

import os
import re
import tomllib

import pytest

from common.environments import inventory, uv
from common.errors import UserError
from common.paths import ROOT
from tests.common.environments.test_installation import write_wheel


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    """No settings of pip's or uv's in the environment."""
    for name in [each for each in os.environ if each.startswith(("PIP_", "UV_", "SSL_CERT")) or "PROXY" in each]:
        monkeypatch.delenv(name)


@pytest.fixture
def settings_of_pip(monkeypatch):
    """Settings of pip's by name, in place of those that it has here."""
    settings = {}
    monkeypatch.setattr(uv, "_settings_of_pip", lambda: settings)
    return settings


def test_pip_s_settings_of_where_packages_are_reach_uv(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text(
        """[global]
        index-url = https://mine.invalid/simple
        extra-index-url =
            https://a.invalid/simple
            https://b.invalid/simple
        find-links = /wheels
        constraint = /c/one.txt /c/two.txt
        trusted-host =
            a.invalid
            b.invalid
        keyring-provider = import
        proxy = http://proxy.invalid:3128
        timeout = 180
        [install]
        retries = 7
        find-links = /wheels /more
        [download]
        index-url = https://never.invalid/simple
        """
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://first.invalid/simple")
    options, variables = uv.settings()
    assert options == ["--constraint", "/c/one.txt", "--constraint", "/c/two.txt"]
    expected = {
        "UV_DEFAULT_INDEX": "https://first.invalid/simple",
        "UV_INDEX": "https://a.invalid/simple https://b.invalid/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "a.invalid b.invalid",
        "UV_KEYRING_PROVIDER": "subprocess",
        "ALL_PROXY": "http://proxy.invalid:3128",
        "UV_HTTP_TIMEOUT": "180",
        "UV_HTTP_RETRIES": "7",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    assert {name: variables.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("settings", "options", "is_named"),
    [
        ({"no-index": "1"}, ["--no-index"], True),
        ({"no-index": "true"}, ["--no-index"], True),
        ({"no-index": "no"}, [], True),
        ({"index-url": "https://mine.invalid/simple"}, [], True),
        ({"find-links": "/wheels"}, [], True),
        ({"timeout": "180", "proxy": "http://10.1.2.3:3128"}, [], False),
    ],
)
def test_pip_s_settings_say_whether_there_is_an_index_and_whether_the_user_has_named_one(
    settings, options, is_named, settings_of_pip
):
    settings_of_pip |= settings
    assert uv.settings()[0] == options
    assert uv.names_an_index() is is_named


@pytest.mark.parametrize("name", ["UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"])
def test_where_the_user_has_named_an_index_to_uv_pip_s_are_left_out(settings_of_pip, monkeypatch, name):
    monkeypatch.setenv(name, "https://mine.invalid")
    assert uv.names_an_index()
    settings_of_pip |= {"no-index": "1", "index-url": "https://a.invalid", "find-links": "/a", "constraint": "a"}
    settings_of_pip["timeout"] = "9"
    monkeypatch.setenv("UV_INDEX_STRATEGY", "first-index")
    monkeypatch.setenv("UV_CONSTRAINT", "mine.txt")
    options, variables = uv.settings()
    assert options == ["--constraint", "mine.txt"]
    assert {each: value for each, value in variables.items() if re.match("UV_.*(INDEX|LINKS)", each)} == {
        name: "https://mine.invalid",
        "UV_INDEX_STRATEGY": "first-index",
    }
    assert variables["UV_HTTP_TIMEOUT"] == "9"


def test_uv_trusts_the_certificates_that_pip_trusts(settings_of_pip, tmp_path, monkeypatch):
    names = ("of_pip.pem", "of_requests.pem", "of_system.pem")
    of_pip, of_requests, of_system = (tmp_path / name for name in names)
    monkeypatch.setattr(uv, "_CERTIFICATES", (str(tmp_path / "nowhere.pem"), str(of_system)))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(of_requests))
    settings_of_pip["cert"] = str(of_pip)
    assert "SSL_CERT_FILE" not in uv.settings()[1]
    for path in (of_system, of_requests, of_pip):
        path.touch()
        assert uv.settings()[1]["SSL_CERT_FILE"] == str(path)
    monkeypatch.setenv("SSL_CERT_FILE", "mine.pem")
    assert uv.settings()[1]["SSL_CERT_FILE"] == "mine.pem"


def test_in_a_home_that_cannot_be_written_uv_does_without_its_cache(settings_of_pip, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "UV_NO_CACHE" not in uv.settings()[1]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert uv.settings()[1]["UV_NO_CACHE"] == "true"
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    assert "UV_NO_CACHE" not in uv.settings()[1]


def test_where_nox_has_no_pip_the_settings_are_those_of_the_pip_on_path(tmp_path, monkeypatch):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho \"global.timeout='12'\"\n")
    python.chmod(0o755)
    monkeypatch.setattr(uv.sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert uv.settings()[1]["UV_HTTP_TIMEOUT"] == "12"
    python.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "UV_HTTP_TIMEOUT" not in uv.settings()[1]


def test_a_script_s_pip_asks_the_indexes_that_the_user_has_named_to_uv(monkeypatch):
    assert uv.settings_for_pip() == {}
    monkeypatch.setenv("UV_INDEX_URL", "https://mine.invalid/simple")
    monkeypatch.setenv("UV_INDEX", "torch=https://a.invalid/simple https://b.invalid/simple?x=1")
    monkeypatch.setenv("UV_FIND_LINKS", "/a,/b")
    assert uv.settings_for_pip() == {
        "PIP_INDEX_URL": "https://mine.invalid/simple",
        "PIP_EXTRA_INDEX_URL": "https://a.invalid/simple https://b.invalid/simple?x=1",
        "PIP_FIND_LINKS": "/a /b",
    }


def test_each_pin_of_the_project_is_in_the_list_of_versions_with_the_libraries_of_cuda_builds():
    lines = inventory.CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    pins = {each for group in groups.values() for each in group if isinstance(each, str)}
    assert len(pins) > 30
    for pin in pins:
        name, version = re.fullmatch(r"([\w-]+)(?:\[[\w,-]+\])?={2,3}(\S+)", pin).groups()
        assert f"{name}=={version}" in lines, f"{pin}: run `nox -s lock`."
    assert any(line.startswith("nvidia-nccl-cu13==") for line in lines)


def test_the_list_is_renewed_from_the_groups_and_keeps_what_still_serves(settings_of_pip, tmp_path, monkeypatch, capfd):
    wheels, pyproject = tmp_path / "wheels", '[project]\nname = "one"\nversion = "1"\n[dependency-groups]\n'
    wheels.mkdir()
    write_wheel(wheels, "first", needs=["second"])
    settings_of_pip |= {"no-index": "1", "find-links": str(wheels)}
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(uv, "CONSTRAINTS", tmp_path / "list.txt")
    monkeypatch.setattr(uv, "ROOT", tmp_path)
    uv.CONSTRAINTS.write_text("# Of the list.\n")
    (tmp_path / "pyproject.toml").write_text(f'{pyproject}some = ["first"]\n')
    for version, options, locked in (("1.0", [], "1.0"), ("1.1", [], "1.0"), ("1.1", ["--upgrade"], "1.1")):
        write_wheel(wheels, "second", version)
        uv.lock(["some"], "3.11", options)
        assert uv.CONSTRAINTS.read_text() == f"# Of the list.\nfirst==1.0\nsecond=={locked}\n"
    (tmp_path / "pyproject.toml").write_text(f'{pyproject}some = ["nobody-has-this"]\n')
    with pytest.raises(UserError, match=r"list\.txt is as it was, since uv failed"):
        uv.lock(["some"], "3.11", [])
    assert "nobody-has-this was not found" in capfd.readouterr().err
    assert uv.CONSTRAINTS.read_text() == "# Of the list.\nfirst==1.0\nsecond==1.1\n"
