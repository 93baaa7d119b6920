"""horovod_impl/build.py: what is built anew, what is refused and in which words, what is left behind. No compiling."""

import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from horovod_impl import build

DISTRIBUTIONS = ("torch", "tensorflow-cpu", *build.BUILD_REQUIREMENTS)
TOOLS = ("c++", "cmake", "make", "mpicxx", "mpirun", "nvcc")
EDIT = build.Edit("folder/file.txt", "old words", "new words", why="the words have changed")


def write_tool(folder, name, version="1.0"):
    tool = folder / name
    tool.write_text(f"#!/bin/sh\necho {name} {version}\n")
    tool.chmod(0o755)


def write_wheel(folder, content="content " * 1000):
    wheel = folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("horovod/__init__.py", content)
    return wheel


def write_source(root, edits=build.EDITS):
    for edit in edits:
        file = root / edit.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + f"{edit.old}\n")
    return root


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder that is all of PATH, with every tool that a build may use, in version 1.0."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in TOOLS:
        write_tool(folder, name)
    for name in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def distributions(tmp_path):
    """A folder that tells importlib.metadata that all distributions which a build needs are installed."""
    folder = tmp_path / "distributions"
    for name in DISTRIBUTIONS:
        information = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return folder


def refusal(tools, distributions):
    """The one line with which the script, which finds these tools and distributions only, refuses to start."""
    environment = os.environ | {
        "PATH": str(tools),
        "PYTHONPATH": str(distributions),
        "XDG_CACHE_HOME": str(tools.parent / "cache"),
        "PIP_NO_INDEX": "1",
    }
    # -S hides what is installed for the Python that runs the tests.
    command = [sys.executable, "-S", build.__file__]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert not (tools.parent / "cache").exists()
    (line,) = result.stderr.splitlines()
    return line


def test_an_edit_replaces_its_text(tmp_path):
    source = write_source(tmp_path, [EDIT])
    build.apply_edits(source, [EDIT])
    assert (source / EDIT.path).read_text() == "new words\n"


@pytest.mark.parametrize(("copies", "times"), [([], 0), ([EDIT, EDIT], 2)])
def test_an_edit_that_no_longer_applies_is_refused_by_name(tmp_path, copies, times):
    with pytest.raises(build.BuildError) as refused:
        build.apply_edits(write_source(tmp_path, copies), [EDIT])
    for part in (EDIT.path, repr(EDIT.old), EDIT.why, f"{times} times"):
        assert part in str(refused.value)


def test_each_edit_of_horovod_leaves_nothing_of_what_it_replaces(tmp_path):
    source = write_source(tmp_path)
    build.apply_edits(source, build.EDITS)
    assert [edit.path for edit in build.EDITS if edit.old in (source / edit.path).read_text()] == []


def test_files_of_ours_are_added_where_nothing_was(tmp_path):
    build.add_files(tmp_path)
    for name, path in build.ADDITIONS.items():
        assert (tmp_path / path).read_text() == Path(build.__file__).with_name(name).read_text()
    assert not set(build.ADDITIONS.values()) & {edit.path for edit in build.EDITS}


@pytest.mark.parametrize("name", ["c++", "cmake", "make", "mpicxx", "mpirun", "nvcc"])
def test_another_version_of_a_tool_makes_another_wheel(tools, distributions, monkeypatch, name):
    monkeypatch.syspath_prepend(distributions)
    before = build.cache_key(build.build_ingredients())
    write_tool(tools, name, version="2.0")
    assert build.cache_key(build.build_ingredients()) != before


def change_version_of(name):
    def change(monkeypatch, distributions):
        information = distributions / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
        information.write_text(information.read_text().replace("Version: 1.0", "Version: 1.0+cpu"))

    return change


CHANGES = {
    "the archive": lambda monkeypatch, _: monkeypatch.setattr(build, "ARCHIVE_SHA256", "0" * 64),
    "an edit": lambda monkeypatch, _: monkeypatch.setattr(build, "EDITS", (*build.EDITS, EDIT)),
    "a file of ours": lambda monkeypatch, _: monkeypatch.setattr(build, "addition_texts", lambda: {"x.h": "text"}),
    "torch": change_version_of("torch"),
    "TensorFlow": change_version_of("tensorflow-cpu"),
    "Python": lambda monkeypatch, _: monkeypatch.setattr(platform, "python_version", lambda: "3.99.0"),
    "the machine": lambda monkeypatch, _: monkeypatch.setattr(platform, "machine", lambda: "abacus"),
    "the CPU": lambda monkeypatch, _: monkeypatch.setattr(build, "cpu_features", lambda: "steam"),
    "a compiler flag": lambda monkeypatch, _: monkeypatch.setenv("CXXFLAGS", "-Ofast"),
    "an option of Horovod": lambda monkeypatch, _: monkeypatch.setenv("HOROVOD_GPU_OPERATIONS", "NCCL"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.usefixtures("tools")
def test_a_change_of_what_the_wheel_depends_on_makes_another_wheel(distributions, monkeypatch, change):
    monkeypatch.syspath_prepend(distributions)
    before = build.cache_key(build.build_ingredients())
    assert build.cache_key(build.build_ingredients()) == before
    change(monkeypatch, distributions)
    assert build.cache_key(build.build_ingredients()) != before


def test_the_same_tools_in_another_environment_make_the_same_wheel(tools, distributions, monkeypatch):
    """Both MPIs are that of their environment; another MPI, outside the environment, makes another wheel."""
    monkeypatch.syspath_prepend(distributions)
    keys = []
    for environment, prefix in [("first", "first"), ("second", "second"), ("second", "elsewhere")]:
        folder = tools.parent / environment / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        write_tool(folder, "mpicxx", version=f"-L{folder.parent}/lib")
        monkeypatch.setenv("PATH", f"{folder}:{tools}")
        monkeypatch.setattr(sys, "prefix", str(tools.parent / prefix))
        keys.append(build.cache_key(build.build_ingredients()))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("c++", "A C++ compiler was not found: install it, for example with `apt-get install g++`."),
        ("cmake", "CMake was not found: install it, for example with `apt-get install cmake`."),
        ("make", "Make was not found: install it, for example with `apt-get install make`."),
    ],
)
def test_a_missing_tool_is_named_with_its_remedy(tools, distributions, name, sentence):
    (tools / name).unlink()
    assert refusal(tools, distributions) == sentence


def test_a_tool_that_is_found_but_cannot_run_counts_as_missing(tools, distributions):
    (tools / "cmake").write_text("#!/bin/sh\nexit 127\n")
    assert refusal(tools, distributions).startswith("CMake was not found")


@pytest.mark.parametrize("name", ["torch", "tensorflow-cpu", "setuptools"])
def test_a_missing_distribution_is_named_with_its_remedy(tools, distributions, name):
    (distributions / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA").unlink()
    (distributions / f"{name.replace('-', '_')}-1.0.dist-info").rmdir()
    line = refusal(tools, distributions)
    assert line.startswith(f"{name.removesuffix('-cpu')} is not installed")
    assert "`horovod` dependency group" in line


@pytest.fixture
def only_local_archives(tmp_path, monkeypatch):
    """pip without network: it finds what lies in the folder that this returns."""
    pytest.importorskip("pip")
    folder = tmp_path / "archives"
    folder.mkdir()
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def test_an_archive_with_another_hash_is_refused(tmp_path, only_local_archives):
    (only_local_archives / "horovod-0.28.1.tar.gz").write_bytes(b"something else")
    with pytest.raises(build.BuildError, match="does not have the expected SHA-256") as refused:
        build.build_wheel(tmp_path / "cache", with_mpi=False)
    log = tmp_path / "cache" / "build.log"
    assert str(log) in str(refused.value)
    assert list(log.parent.iterdir()) == [log]


@pytest.mark.usefixtures("only_local_archives")
def test_a_failed_download_is_refused_with_the_name_of_the_log(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "build.log").write_text("an earlier try: THESE PACKAGES DO NOT MATCH THE HASHES")
    with pytest.raises(build.BuildError, match="could not download") as refused:
        build.build_wheel(tmp_path / "cache", with_mpi=False)
    log = tmp_path / "cache" / "build.log"
    assert str(log) in str(refused.value)
    assert "No matching distribution" in log.read_text()


@pytest.fixture
def pip(monkeypatch):
    """Stands in for downloading and for pip, which succeeds or not as `succeeds` says; remembers what it was given."""

    class Pip:
        succeeds = True
        calls = ()
        settings = None
        unedited = None

    def run_pip(arguments, log, settings=None):
        Pip.calls = (*Pip.calls, arguments[0])
        Pip.settings = settings
        log.write_text("source.cc:1:2: error: 'x' was not declared\nerror: subprocess-exited-with-error\n")
        if Pip.succeeds and arguments[0] == "wheel":
            source = Path(arguments[-1])
            Pip.unedited = [edit for edit in build.EDITS if edit.old in (source / edit.path).read_text()]
            Pip.unedited += [path for path in build.ADDITIONS.values() if not (source / path).exists()]
            write_wheel(Path(arguments[arguments.index("--wheel-dir") + 1]))
        return Pip.succeeds

    monkeypatch.setattr(build, "run_pip", run_pip)
    monkeypatch.setattr(build, "download_source", lambda scratch, log: write_source(scratch / "horovod-0.28.1"))
    return Pip


def test_a_failed_compilation_names_log_and_first_error_and_leaves_only_the_log(tmp_path, pip):
    pip.succeeds = False
    with pytest.raises(build.BuildError) as refused:
        build.build_wheel(tmp_path, with_mpi=False)
    log = tmp_path / "build.log"
    assert str(log) in str(refused.value)
    assert str(refused.value).endswith("source.cc:1:2: error: 'x' was not declared")
    assert list(tmp_path.iterdir()) == [log]


def test_what_is_compiled_is_the_edited_source(tmp_path, pip):
    build.build_wheel(tmp_path, with_mpi=False)
    assert pip.unedited == []


@pytest.mark.parametrize(("with_mpi", "asked", "unasked"), [(True, "WITH", "WITHOUT"), (False, "WITHOUT", "WITH")])
def test_mpi_is_built_if_there_is_one(tmp_path, pip, with_mpi, asked, unasked):
    build.build_wheel(tmp_path, with_mpi)
    assert pip.settings[f"HOROVOD_{asked}_MPI"] == "1"
    assert f"HOROVOD_{unasked}_MPI" not in pip.settings


def test_a_whole_cached_wheel_is_used(tmp_path):
    wheel = write_wheel(tmp_path)
    assert build.cached_wheel(tmp_path) == wheel


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "one byte differs": lambda content: content[:60] + bytes([content[60] ^ 255]) + content[61:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.usefixtures("pip")
def test_a_damaged_cached_wheel_is_not_used_but_replaced(tmp_path, damage):
    wheel = write_wheel(tmp_path)
    wheel.write_bytes(damage(wheel.read_bytes()))
    assert build.cached_wheel(tmp_path) is None
    assert build.build_wheel(tmp_path, with_mpi=False) == wheel
    assert build.cached_wheel(tmp_path) == wheel


def pretend_installed(folder, wheel):
    information = folder / "horovod-0.28.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")
    hashes = {"sha256": build.hashlib.sha256(wheel.read_bytes()).hexdigest()}
    (information / "direct_url.json").write_text(json.dumps({"archive_info": {"hashes": hashes}}))


def test_only_the_very_same_wheel_counts_as_installed(tmp_path, monkeypatch):
    pretend_installed(tmp_path, write_wheel(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert build.is_installed(write_wheel(tmp_path))
    assert not build.is_installed(write_wheel(tmp_path, content="another build"))


@pytest.mark.usefixtures("tools")
def test_the_second_run_neither_builds_nor_installs(tmp_path, distributions, monkeypatch, pip):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["build.py"])
    monkeypatch.syspath_prepend(distributions)
    monkeypatch.setattr(build, "install", lambda wheel, with_mpi: pretend_installed(distributions, wheel))
    assert build.main() == 0
    assert pip.calls == ("wheel",)
    monkeypatch.delattr(build, "install")
    assert build.main() == 0
    assert pip.calls == ("wheel",)


def test_a_horovod_that_does_not_load_is_uninstalled(tmp_path, tools, monkeypatch, pip):
    (tools / "python").write_text("#!/bin/sh\necho 'ImportError: undefined symbol' >&2\nexit 1\n")
    (tools / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    with pytest.raises(build.BuildError, match=r"does not load with torch.*undefined symbol"):
        build.install(write_wheel(tmp_path), with_mpi=False)
    assert pip.calls == ("install", "uninstall")
