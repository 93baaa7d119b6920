"""common/environments/installation.py: one's trouble isn't the others', interrupted ones go on, versions are kept."""

import http.server
import os
import platform
import socket
import sys
import threading
import tomllib
import zipfile
from functools import partial

import pytest

from common.declarations.catalogue import families
from common.environments import installation, inventory
from common.environments.inventory import Environment
from common.errors import NotInstalledError, UserError
from common.files import locked


def write_wheel(folder, name, version="1.0", content="", needs=()):
    """A wheel of one module, of which uv finds everything that it asks for."""
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
    """A folder of wheels, named in pip's settings, that is all that uv knows; environments are made below another."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "first", needs=["second"])
    write_wheel(folder, "second")
    for name in [each for each in os.environ if each.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(inventory, "FOLDER", tmp_path / "made")
    return folder


def versions_in(name):
    """What is installed in an environment, each by name and version."""
    folders = (inventory.FOLDER / name).glob("lib/python*/site-packages/*.dist-info")
    return sorted(folder.name.removesuffix(".dist-info") for folder in folders)


def test_an_environment_that_cannot_be_made_is_one_sentence_and_the_others_are_made(index, monkeypatch, capsys):
    bad, good = Environment("bad", ("nobody-has-this==7",)), Environment("good", ("first==1.0",))
    failed = installation.make([bad, good])
    assert [*failed] == ["bad"]
    assert failed["bad"].startswith("The environment bad can't be made: No solution found when resolving dependencies")
    assert failed["bad"].endswith(f"requirements are unsatisfiable; the log is {inventory.FOLDER / 'bad.log'}.")
    assert versions_in("good") == ["first-1.0", "second-1.0"]
    assert inventory.python_of("good") == good.python
    with pytest.raises(NotInstalledError, match="nobody-has-this==7, we can conclude"):
        inventory.python_of("bad")
    assert "good: made in " in capsys.readouterr().out
    assert " + first==1.0" in good.log.read_text()

    write_wheel(index, "nobody_has_this", version="7")
    assert installation.make([bad, good]) == {}
    assert inventory.python_of("bad") == bad.python
    assert versions_in("bad") == ["nobody_has_this-7"]
    capsys.readouterr()
    assert installation.make([bad, good]) == {}
    assert capsys.readouterr().out == "", "What is made isn't made again."

    # Programs name their interpreter by its whole path.
    (good.made.parent / "of the old folder").touch()
    monkeypatch.setattr(inventory, "FOLDER", inventory.FOLDER.rename(inventory.FOLDER.with_name("moved")))
    assert installation.make([bad, good]) == {}
    assert not (good.made.parent / "of the old folder").exists()


def test_what_is_installed_is_compiled_and_has_the_versions_of_the_list_and_nothing_else(index, tmp_path, monkeypatch):
    write_wheel(index, "second", version="1.1")
    monkeypatch.setattr(installation, "CONSTRAINTS", tmp_path / "a list.txt")
    monkeypatch.setattr(inventory, "CONSTRAINTS", tmp_path / "a list.txt")
    (tmp_path / "a list.txt").write_text("second==1.0\n")
    assert installation.make([Environment("one", ("first",))]) == {}
    assert versions_in("one") == ["first-1.0", "second-1.0"]
    assert [*(inventory.FOLDER / "one").glob("lib/python*/site-packages/__pycache__/second.*.pyc")]
    # What the list or the project pins otherwise is installed anew, and so is all of another Python.
    (tmp_path / "a list.txt").write_text("second==1.1\n")
    assert installation.make([Environment("one", ("first",))]) == {}
    assert versions_in("one") == ["first-1.0", "second-1.1"]
    assert installation.make([Environment("one", ("second",))]) == {}
    assert versions_in("one") == ["second-1.1"]
    (inventory.FOLDER / "one" / "of another Python").touch()
    monkeypatch.setattr(installation, "find_python", lambda: (sys.executable, "3.13.99"))
    assert installation.make([Environment("one", ("second",))]) == {}
    assert not (inventory.FOLDER / "one" / "of another Python").exists()


def test_where_gpus_are_absent_downloads_of_their_libraries_come_with_advice(index, monkeypatch, capfd):
    answers = iter([None, "/usr/bin/nvidia-smi"])
    monkeypatch.setattr(installation.shutil, "which", lambda program: next(answers))
    names = ("nvidia-absent", "nvidia-present")
    for name in names:
        write_wheel(index, name.replace("-", "_"), content="# " + 3_000_000 * "x")
    serve = partial(http.server.SimpleHTTPRequestHandler, directory=index)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        wanted = [Environment(name, (f"{name}==1.0",)) for name in names]
        assert installation.make(wanted, advice="Take another.") == {}
        server.shutdown()
    absent, advice, present = capfd.readouterr().out.partition("which this machine doesn't show. Take another.")
    assert "Downloading nvidia-absent" in absent
    assert advice
    assert "Downloading nvidia-present" in present
    assert "Take another." not in present


@pytest.mark.parametrize(
    ("chosen", "named", "tried"), [(None, False, ["auto", ""]), (None, True, [""]), ("cu130", False, ["cu130"])]
)
def test_every_environment_prefers_a_build_unless_the_user_has_chosen_and_always_has_the_lists_versions(
    chosen, named, tried, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    if chosen:
        monkeypatch.setenv("UV_TORCH_BACKEND", chosen)
    program = tmp_path / "uv"
    program.write_text(
        "#!/bin/sh\n"
        'for last; do :; done; [ "$1" = venv ] && mkdir -p $last/bin $last/lib/python3.11/site-packages && exit\n'
        f'case "$*" in *"--constraint {inventory.CONSTRAINTS} "*) ;; *) exit 1;; esac\n'
        f'echo "$UV_TORCH_BACKEND" >> {tmp_path}/tried\n'
        '[ "$UV_TORCH_BACKEND" != auto ] || { echo "error: no answer"; exit 1; }\n'
        f"ln -s {sys.executable} $4\n"
        "echo Bytecode compiled\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(installation.uv, "program", lambda: str(program))
    monkeypatch.setattr(installation.uv, "settings", lambda: ([], dict(os.environ)))
    monkeypatch.setattr(installation.uv, "names_an_index", lambda: named)
    wanted = [Environment(name, ("torch==2.13.0",), variables={"UV_TORCH_BACKEND": "auto"}) for name in families()]
    assert installation.make(wanted) == {}
    assert (tmp_path / "tried").read_text().splitlines() == len(wanted) * tried
    said = f"{wanted[-1].name}: again without UV_TORCH_BACKEND=auto, since no answer." in capsys.readouterr().out
    assert said == (tried[0] == "auto")


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
    assert installation.make([environment]) == {}
    assert (inventory.FOLDER / "one" / "built").read_text() == "xx", "A changed build is."
    assert environment.log.read_text() == "", "It needs nothing of uv's."
    made.unlink()
    (compiled,) = (inventory.FOLDER / "one").glob("lib/python*/site-packages/__pycache__/second.*.pyc")
    compiled.unlink()
    with pytest.raises(NotInstalledError, match="isn't finished: run `nox -s one`"):
        inventory.python_of("one")
    assert installation.make([environment]) == {}
    assert kept.exists()
    assert compiled.exists()


def test_with_options_of_uv_an_environment_is_made_from_scratch_beside_what_pip_is_told(index, tmp_path):
    environment = Environment("one", ("second==1.0",))
    installation.make([environment])
    (inventory.FOLDER / "one" / "kept").touch()
    write_wheel(index, "second", version="1.0+cpu")
    assert installation.make([environment], options=["--no-deps"]) == {}
    assert not (inventory.FOLDER / "one" / "kept").exists()
    assert versions_in("one") == ["second-1.0+cpu"]
    failed = installation.make([environment], options=["--no-such-option"])
    assert "unexpected argument '--no-such-option' found; the log is" in failed["one"]
    with pytest.raises(UserError, match="--help installs nothing: leave it out"):
        installation.make([environment], options=["--help"])


def test_a_package_index_that_does_not_answer_is_named_as_the_cause(index, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setenv("PIP_TIMEOUT", "1")
        monkeypatch.setenv("PIP_RETRIES", "0")
        failed = installation.make([Environment("one", ("first==1.0",))])
    assert f"the package index didn't answer ({address}/first/): check the network and the settings" in failed["one"]


def test_the_cause_is_one_line_whichever_way_uv_writes_its_errors():
    for cause in ("Caused by", "cause"):
        output = f"warning: nothing is linked\nerror: Failed to extract: `a.whl`\n{cause}: No space left.\nhint: b"
        assert installation._cause_of_uv(output.splitlines()) == "Failed to extract: `a.whl`: No space left"


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


def test_without_uv_one_line_says_how_to_have_it(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r'uv, .* isn\'t found: run `python3 -m pip install "nox\[uv\]"`'):
        installation.make([Environment("one", ("first==1.0",))])


def test_the_python_is_that_of_nox_where_it_will_do_else_the_newest_that_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for minor, status in ((11, 0), (12, 0), (13, 127), (14, 0)):
        program = tmp_path / f"python3.{minor}"
        program.write_text(f"#!/bin/sh\necho 3.{minor}.4\nexit {status}\n")
        program.chmod(0o755)
    assert installation.find_python() == (sys.executable, platform.python_version())
    for version in ("3.10.13", "3.14.0"):
        monkeypatch.setattr(platform, "python_version", lambda version=version: version)
        assert installation.find_python() == (str(tmp_path / "python3.12"), "3.12.4")
    for minor in (11, 12):
        (tmp_path / f"python3.{minor}").unlink()
    with pytest.raises(UserError, match=r"needs Python 3\.11, 3\.12 or 3\.13, but Nox runs under 3\.14 and none"):
        installation.find_python()


def test_the_versions_are_those_that_the_project_says_it_supports():
    project = tomllib.loads((inventory.FOLDER.parent / "pyproject.toml").read_text())["project"]
    lowest, highest = installation.PYTHON_VERSIONS[-1], installation.PYTHON_VERSIONS[0]
    above = f"3.{int(highest.partition('.')[2]) + 1}"
    assert project["requires-python"] == f">={lowest},<{above}"
