"""common/environments/installation.py: downloads are said first, one's trouble isn't the others', an interrupted one
goes on."""

import os
import platform
import re
import socket
import subprocess
import sys
import threading
import tomllib
import zipfile
from pathlib import Path

import pytest

from common.environments import installation, inventory
from common.environments.inventory import Environment
from common.errors import NotInstalledError, UserError
from common.files import locked

VERSION = platform.python_version()


def write_wheel(folder, name, version="1.0", content="", needs=()):
    """A wheel of one module, of which pip finds everything that it asks for."""
    information = f"{name}-{version}.dist-info"
    requirements = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}.py": content,
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirements}",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels that is all that pip knows; environments are made below another one."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "first", needs=["second"])
    write_wheel(folder, "second", content="# " + 3_000_000 * "x")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setattr(inventory, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(installation, "LARGE_BYTES", 1e6)
    return folder


def installed(name, module):
    command = [inventory.FOLDER / name / "bin" / "python", "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_an_environment_that_cannot_be_made_is_one_sentence_and_the_others_are_made(index, capsys):
    good, bad = Environment("good", ("first==1.0",)), Environment("bad", ("nobody-has-this==7",))
    failed = installation.make([good, bad])
    assert [*failed] == ["bad"]
    assert failed["bad"] == (
        "The environment bad can't be made: No matching distribution found for nobody-has-this==7; the log is "
        f"{inventory.FOLDER / 'bad.log'}."
    )
    assert installed("good", "second")
    assert inventory.python_of("good") == good.python
    with pytest.raises(NotInstalledError, match="nobody-has-this==7; the log is"):
        inventory.python_of("bad")
    said = capsys.readouterr().out
    before, _, after = said.partition("good: installing 2 packages")
    assert before.index("Asking pip what the environments need (good, bad)") < before.index(
        "To be downloaded for Python"
    )
    rows = [line.split() for line in before.splitlines() if " MB  " in line]
    assert rows == [["3", "MB", "second", "1.0"], ["0", "MB", "1", "smaller", "packages"], ["3", "MB", "in", "all"]]
    assert "good: made in" in after

    write_wheel(index, "nobody_has_this", version="7")
    assert installation.make([good, bad]) == {}
    assert inventory.python_of("bad") == bad.python
    assert installed("bad", "nobody_has_this")
    capsys.readouterr()
    assert installation.make([good, bad]) == {}
    assert capsys.readouterr().out == "", "What is made isn't made again."


def test_where_gpus_are_absent_their_libraries_come_with_advice(index, capsys, monkeypatch):
    found = [installation.Download(f"nvidia-{name}", "1", 2_000_000_000) for name in "ab"]
    monkeypatch.setattr(installation.shutil, "which", lambda name: None)
    installation._print_downloads(found, "3.13.0", "Take another.")
    assert (
        "4.0 GB of these serve NVIDIA GPUs, which this machine doesn't show. Take another." in capsys.readouterr().out
    )
    monkeypatch.setattr(installation.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    installation._print_downloads(found, "3.13.0", "Take another.")
    assert "Take another" not in capsys.readouterr().out


def test_an_interrupted_environment_goes_on_where_it_stopped(index, tmp_path, capsys):
    script = tmp_path / "scripts" / "build.py"
    script.parent.mkdir()
    script.write_text("print('compiling')\nraise SystemExit('a compiler is missing: install one.')\n")
    environment = Environment("one", ("second==1.0",), script)
    failed = installation.make([environment])
    assert "can't be made: a compiler is missing: install one; the log" in failed["one"]
    assert "one: compiling" in capsys.readouterr().out
    kept, made = inventory.FOLDER / "one" / "kept", inventory.FOLDER / "one" / "made.json"
    kept.touch()
    script.write_text("import second, sys\nopen(sys.prefix + '/built', 'a').write('x')\n")
    assert installation.make([environment]) == installation.make([environment]) == {}
    assert kept.exists()
    assert (inventory.FOLDER / "one" / "built").read_text() == "x", "A finished build isn't repeated."
    script.with_name("edits.py").touch()
    (index / "second-1.0-py3-none-any.whl").rename(tmp_path / "away")
    assert installation.make([environment]) == {}
    assert (inventory.FOLDER / "one" / "built").read_text() == "xx", "A changed build is, without pip's help."
    (tmp_path / "away").rename(index / "second-1.0-py3-none-any.whl")
    made.unlink()
    with pytest.raises(NotInstalledError, match="isn't finished: run `nox -s one`"):
        inventory.python_of("one")
    environment.python.unlink()
    assert installation.make([environment]) == {}
    assert not kept.exists(), "Without its Python it is made from scratch."


def test_with_options_of_pip_an_environment_is_made_from_scratch(index):
    environment = Environment("one", ("second==1.0",))
    installation.make([environment])
    (inventory.FOLDER / "one" / "kept").touch()
    write_wheel(index, "second", version="1.0+cpu")
    installation.make([environment], pip_options=["--no-deps"])
    assert not (inventory.FOLDER / "one" / "kept").exists()
    assert (inventory.FOLDER / "one.versions.txt").read_text() == "second==1.0+cpu\n"


def test_a_package_index_that_does_not_answer_is_named_as_the_cause(index, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_TIMEOUT", "1")
        monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "1")
        monkeypatch.setenv("PIP_RETRIES", "1")
        failed = installation.make([Environment("one", ("first==1.0",))])
    assert "pip's package index didn't answer" in failed["one"]
    assert "check the network and pip's settings" in failed["one"]


def test_a_second_maker_waits_for_the_first(index, capsys):
    environment = Environment("one", ("second==1.0",))
    with locked(inventory.FOLDER / "making.lock"):
        second = threading.Thread(target=installation.make, args=([environment],))
        second.start()
        second.join(0.5)
        assert "Another process is making the environments of this checkout; waiting" in capsys.readouterr().out
        assert not environment.python.exists()
    second.join()
    assert environment.made.exists()


def test_a_checkout_that_cannot_be_written_is_one_sentence(monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", Path("/proc/nowhere"))
    with pytest.raises(UserError, match=r"/proc/nowhere.* can't be written .*: choose a folder that you may write to"):
        installation.make([Environment("one", ("first==1.0",))])


def write_python(folder, minor, status=0):
    program = folder / f"python3.{minor}"
    program.write_text(f"#!/bin/sh\necho 3.{minor}.4\nexit {status}\n")
    program.chmod(0o755)


def test_the_python_is_that_of_nox_where_it_will_do_else_the_newest_that_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for minor, status in ((11, 0), (12, 0), (13, 127), (14, 0)):
        write_python(tmp_path, minor, status)
    assert installation.find_python() == (sys.executable, platform.python_version())
    for version in ("3.10.13", "3.14.0"):
        monkeypatch.setattr(platform, "python_version", lambda version=version: version)
        assert installation.find_python() == (str(tmp_path / "python3.12"), "3.12.4")
    for minor in (11, 12):
        (tmp_path / f"python3.{minor}").unlink()
    with pytest.raises(UserError, match=r"needs Python 3\.11, 3\.12 or 3\.13, but Nox runs under 3\.14 and none"):
        installation.find_python()


def test_of_pip_s_output_large_downloads_are_told_by_quarters():
    lines = ["Collecting torch==2.13.0", "  Downloading torch-2.13.0-cp313-cp313-manylinux_2_28_x86_64.whl (526.6 MB)"]
    lines += [f"Progress {done} of 526000000" for done in range(0, 526000001, 1000000)]
    lines += ["  Downloading tiny-1.0-py3-none-any.whl (1 kB)", "Progress 1000 of 1000"]
    lines += ["Installing collected packages: tiny, torch"]
    news = [*installation._news_of_pip(lines)]
    assert news[0] == "downloading torch, 0 of 526 MB"
    assert news[-2:] == ["downloading torch, 526 of 526 MB", "installing 2 packages ..."]
    assert len(news) == 6


def test_downloading_and_installing_are_timed_apart(monkeypatch):
    """pip says that it has everything when it begins to install."""
    clock = iter([0.0, 7.0, 8.0, 20.0])
    monkeypatch.setattr(installation.time, "monotonic", lambda: next(clock))
    lines = ["Collecting tiny", "Installing collected packages: tiny, torch", "Successfully installed tiny torch"]
    seconds = {}
    assert [*installation._timed_news_of_pip(lines, seconds)] == ["installing 2 packages ..."]
    assert seconds == {"downloading": 7.0, "installing": 12.0}


def test_the_account_of_an_environment_is_its_time_by_parts_and_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    (tmp_path / "one" / "lib").mkdir(parents=True)
    for name, size in (("bin", 300_000_000), ("lib/torch.so", 900_000_000)):
        with (tmp_path / "one" / name).open("wb") as file:
            file.truncate(size)
    (tmp_path / "one" / "link").symlink_to("lib/torch.so")
    size_bytes = installation._size_on_disk_bytes(Environment("one", ()))
    account = installation._account({"downloading": 7.0, "installing": 61.0}, size_bytes)
    assert account == "1 min 8 s: downloading 7.0 s, installing 1 min 1 s; 1.2 GB on disk"


def test_the_sums_count_every_environment_and_what_failed_took_time_as_well(tmp_path, monkeypatch, capsys):
    def install(environment, found, options, lock, seconds):
        seconds |= {"downloading": 2.0, "installing": 30.0}

    def build(environment, lock, seconds):
        seconds["building"] = 90.0
        environment.python.parent.mkdir(parents=True)
        with (environment.python.parent / "library").open("wb") as file:
            file.truncate(200_000_000)
        return "it is broken" if environment.name == "bad" else None

    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    for name, stand_in in {"_unpack_python": lambda *_, **__: None, "_resolve_all": lambda *_: ({}, {})}.items():
        monkeypatch.setattr(installation, name, stand_in)
    monkeypatch.setattr(installation, "_install_packages", install)
    monkeypatch.setattr(installation, "_run_script", build)
    assert [*installation.make([Environment("good", ()), Environment("bad", ())])] == ["bad"]
    one, in_all = capsys.readouterr().out.splitlines()
    assert one == "good: made in 2 min 2 s: downloading 2.0 s, installing 30 s, building 1 min 30 s; 0.2 GB on disk"
    assert re.fullmatch(
        r"Making environments took 4 min 4 s: preparing 0\.\d s, downloading 4\.0 s, installing 1 min 0 s, "
        r"building 3 min 0 s; 0\.2 GB on disk",
        in_all,
    )


@pytest.mark.parametrize(("on_a_terminal", "said"), [(True, "one: built in 9 s\n"), (False, "")])
def test_what_a_script_says_last_stays_on_a_terminal(tmp_path, monkeypatch, capsys, on_a_terminal, said):
    """Elsewhere nothing was printed over, and it isn't said twice."""
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    monkeypatch.setattr(installation, "_run", lambda *_: 0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_a_terminal)
    environment, seconds = Environment("one", (), tmp_path / "build.py"), {}
    environment.log.write_text("compiling ...\nbuilt in 9 s\n")
    assert installation._run_script(environment, 0, seconds) is None
    assert capsys.readouterr().out == said
    assert [*seconds] == ["building"]


def test_the_versions_are_those_that_the_project_says_it_supports():
    project = tomllib.loads((inventory.FOLDER.parent / "pyproject.toml").read_text())["project"]
    lowest, highest = installation.PYTHON_VERSIONS[-1], installation.PYTHON_VERSIONS[0]
    above = f"3.{int(highest.partition('.')[2]) + 1}"
    assert project["requires-python"] == f">={lowest},<{above}"
