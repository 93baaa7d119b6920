"""build.py: what is built anew, what is refused and in which words, what is left behind. Nothing is compiled."""

import base64
import errno
import hashlib
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import zipfile
from pathlib import Path

import pytest

from common.environments.durations import in_words
from common.errors import UserError
from common.files import locked
from common.paths import ROOT
from horovod_impl.building import build, compilation, cuda, patching
from horovod_impl.building.patching import ADDITIONS, PATCHES, Patch

DISTRIBUTIONS = ("torch", "tensorflow-cpu", *build.BUILD_REQUIREMENTS)
TOOLS = ("c++", "mpicxx", "mpirun", "nvcc")
PATCHED_FILE = "folder/file.txt"
DIFF = f"""{PATCHED_FILE}
+++ b/{PATCHED_FILE}
@@ -2,3 +2,3 @@
 before
-old words
+new words

@@ -9 +9,2 @@
 nine
+ten"""
PATCH = Patch("words.patch", "the words have changed", DIFF)
PATCHED = ["one", "before", "old words", "", "five", "six", "seven", "eight", "nine", ""]


def write_tool(folder, name, version="1.0"):
    tool = folder / name
    tool.write_text(f"#!/bin/sh\necho {name} {version}\n", encoding="utf-8")
    tool.chmod(0o755)


def write_wheel(folder, content="content " * 1000):
    wheel = folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("horovod/__init__.py", content)
    return wheel


def changes_of(patch):
    """The path and the lines of each file's part of the patch."""
    for change in patch.diff.split("\n--- a/"):
        path, _, *lines = change.split("\n")
        yield path, lines


def write_source(root):
    """A source of stand-ins, in which the lines that the patches name are where the patches look for them.

    The patches are undone one after another, last first, in files of which nothing is known.
    """
    texts = {path: [f"line {number}" for number in range(3000)] for patch in PATCHES for path, _ in changes_of(patch)}
    for patch in reversed(PATCHES):
        for path, lines in changes_of(patch):
            starts = [number for number, line in enumerate(lines) if line.startswith("@@")]
            for first, end in reversed(list(itertools.pairwise([*starts, len(lines)]))):
                position = int(lines[first].partition("+")[2].split()[0].partition(",")[0]) - 1
                hunk = lines[first + 1 : end]
                replaced = sum(not line.startswith("-") for line in hunk)
                texts[path][position : position + replaced] = [line[1:] for line in hunk if not line.startswith("+")]
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("\n".join(text), encoding="utf-8")
    return root


def missing_lines(source):
    """The lines that a patch adds and that aren't in the tree at `source`."""
    return [
        (patch.name, line)
        for patch in PATCHES
        for path, lines in changes_of(patch)
        for line in lines
        if line.startswith("+") and line[1:] not in (source / path).read_text(encoding="utf-8").split("\n")
    ]


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
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
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
    result = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert not (tools.parent / "cache").exists()
    (line,) = result.stderr.splitlines()
    return line


def patched(root, lines):
    """The lines of a file after PATCH."""
    (root / PATCHED_FILE).parent.mkdir(parents=True)
    (root / PATCHED_FILE).write_text("\n".join(lines), encoding="utf-8")
    PATCH.apply(root)
    return (root / PATCHED_FILE).read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize(
    ("lines", "number", "line"),
    [
        ([], 2, "before"),
        (["one", "before", "other words", *PATCHED[3:]], 3, "old words"),
        (["one", "otherwise", *PATCHED[2:]], 2, "before"),
        (["zero", *PATCHED], 2, "before"),
        ([*PATCHED[:3], "three", *PATCHED[4:]], 4, ""),
        (PATCHED[:8], 9, "nine"),
    ],
    ids=["no text", "another text", "other lines before", "another place", "other lines after", "too short"],
)
def test_a_patch_that_no_longer_applies_is_refused_by_name(tmp_path, lines, number, line):
    with pytest.raises(UserError) as refused:
        patched(tmp_path, lines)
    for part in (PATCH.name, PATCHED_FILE, PATCH.reason, f"line {number} isn't {line!r}: bring the patches up to date"):
        assert part in str(refused.value)


def test_a_patch_replaces_and_adds_lines_of_a_file_that_is_there(tmp_path):
    with pytest.raises(UserError, match=f"{PATCH.name} of Horovod's {PATCHED_FILE}"):
        PATCH.apply(tmp_path)
    expected = ["one", "before", "new words", "", "five", "six", "seven", "eight", "nine", "ten", ""]
    assert patched(tmp_path, PATCHED) == expected


def change_version_of(name):
    def change(distributions):
        information = distributions / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
        information.write_text(information.read_text(encoding="utf-8").replace("Version: 1.0", "Version: 1.0+cpu"))

    return lambda monkeypatch, distributions, tools: change(distributions)


CHANGES = {
    **{
        name: lambda monkeypatch, _, tools, name=name: write_tool(tools, name, version="2.0")
        for name in ("c++", "mpicxx", "mpirun")
    },
    "the archive": lambda monkeypatch, *_: monkeypatch.setattr(build, "ARCHIVE_SHA256", "0" * 64),
    "a patch": lambda monkeypatch, *_: monkeypatch.setattr(patching, "PATCHES", (*PATCHES, PATCH)),
    "a file of ours": lambda monkeypatch, *_: monkeypatch.setattr(patching, "addition_texts", lambda: {"x.h": "text"}),
    "torch": change_version_of("torch"),
    "TensorFlow": change_version_of("tensorflow-cpu"),
    "CMake": change_version_of("cmake"),
    "Python": lambda monkeypatch, *_: monkeypatch.setattr(platform, "python_version", lambda: "3.99.0"),
    "the machine": lambda monkeypatch, *_: monkeypatch.setattr(platform, "machine", lambda: "abacus"),
    "the CPU": lambda monkeypatch, *_: monkeypatch.setattr(build, "cpu_features", lambda: "steam"),
    "a compiler flag": lambda monkeypatch, *_: monkeypatch.setenv("CXXFLAGS", "-Ofast"),
    "an option of Horovod": lambda monkeypatch, *_: monkeypatch.setenv("HOROVOD_CPU_OPERATIONS", "MPI"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_the_wheel_depends_on_makes_another_wheel(distributions, tools, monkeypatch, change):
    monkeypatch.syspath_prepend(distributions)
    before = build.cache_key(build.build_ingredients())
    assert build.cache_key(build.build_ingredients()) == before
    change(monkeypatch, distributions, tools)
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


@pytest.mark.parametrize("content", [None, "#!/bin/sh\nexit 127\n"], ids=["not there", "cannot run"])
def test_a_missing_compiler_is_named_with_its_remedy(tools, distributions, content):
    (tools / "c++").write_text(content) if content else (tools / "c++").unlink()
    sentence = "A C++ compiler was not found: install one, for example with `apt-get install g++`."
    assert refusal(tools, distributions) == sentence


@pytest.mark.usefixtures("tools")
def test_missing_headers_of_python_are_named_with_their_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(UserError, match=f"{tmp_path}.*`apt-get install python{version}-dev`"):
        build.find_compiler()


@pytest.mark.parametrize("name", ["torch", "tensorflow-cpu", "setuptools", "cmake", "ninja"])
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


@pytest.fixture
def directory(tmp_path):
    """A folder for a wheel."""
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def test_an_archive_with_another_hash_is_refused(directory, only_local_archives):
    (only_local_archives / "horovod-0.28.1.tar.gz").write_bytes(b"something else")
    with pytest.raises(UserError, match="does not have the expected SHA-256") as refused:
        build.build_wheel(directory, False, {})
    assert str(directory / "build.log") in str(refused.value)
    assert list((directory / "building").iterdir()) == []


@pytest.mark.usefixtures("only_local_archives")
def test_a_failed_download_is_refused_with_the_name_of_the_log(directory):
    log = directory / "build.log"
    log.write_text("an earlier try: THESE PACKAGES DO NOT MATCH THE HASHES", encoding="utf-8")
    with pytest.raises(UserError, match="could not download") as refused:
        build.build_wheel(directory, False, {})
    assert str(log) in str(refused.value)
    assert "No matching distribution" in log.read_text(encoding="utf-8")


@pytest.fixture
def steps(monkeypatch):
    """Stands in for downloading, CMake and Ninja, which print `output` and end with `status`; remembers the rest."""

    class Steps:
        downloads = 0
        output = "source.cc:1:2: error: 'x' was not declared\nninja: build stopped: subcommand failed.\n"
        status = 0
        failing = ("cmake", "ninja")
        settings = None
        commands = ()

    def download_source(scratch, log):
        Steps.downloads += 1
        source = write_source(scratch / "horovod-0.28.1")
        (source / "horovod.egg-info").mkdir()
        (source / "horovod.egg-info" / "requires.txt").write_text(
            "cffi>=1.4.0\npyyaml\n\n[ray]\nray\n", encoding="utf-8"
        )
        (source / "horovod.egg-info" / "entry_points.txt").write_text("[console_scripts]\n", encoding="utf-8")
        (source / "PKG-INFO").write_text(
            "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\nDescription: x\n", encoding="utf-8"
        )
        (source / "LICENSE").write_text("Apache 2.0\n", encoding="utf-8")
        (source / "horovod" / "__init__.py").write_text("version = '0.28.1'\n", encoding="utf-8")
        return source

    def run_tool(command, settings, log, lock):
        Steps.settings = settings
        Steps.commands = (*Steps.commands, Path(command[0]).name)
        status = Steps.status if Path(command[0]).name in Steps.failing else 0
        script = f"print({Steps.output!r}); raise SystemExit({status})"
        run_really([sys.executable, "-c", script], settings, log, lock)
        objects = Path(command[command.index("-B" if "-B" in command else "-C") + 1])
        (objects / "libraries" / "horovod" / "torch").mkdir(parents=True, exist_ok=True)
        (objects / "build.ninja").touch()
        (objects / "libraries" / "horovod" / "torch" / "mpi_lib_v2.so").write_bytes(b"a library")

    run_really = compilation.run_tool
    monkeypatch.setattr(compilation, "run_tool", run_tool)
    monkeypatch.setattr(compilation, "download_source", download_source)
    return Steps


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "source.cc:1:2: error: 'x' was not declared\nninja: stopped.\n",
            r"LOG.*source.cc:1:2: error: 'x' was not d\w+$",
        ),
        (
            "CMake Error at CMakeLists.txt:5 (message):\n  This is wrong.\n\n\n",
            r"CMakeLists.txt:5 \(message\): This is wrong\.$",
        ),
        ("fatal error: error writing to x.s: No space left on device", "is full: free 100 MB, or set XDG_CACHE_HOME"),
    ],
    ids=["compiler", "CMake", "full disk"],
)
def test_a_failed_compilation_names_log_and_first_error(directory, steps, output, said):
    steps.status, steps.output = 1, output
    with pytest.raises(UserError, match=said.replace("LOG", str(directory / "build.log"))):
        build.build_wheel(directory, False, {})
    assert build.cached_wheel(directory) is None


def test_after_a_failed_compilation_what_is_missing_is_looked_for_again(directory, steps):
    steps.status, steps.failing, steps.output = 1, ("ninja",), "/bin/sh: 1: CMAKE_AR-NOTFOUND: not found\n"
    with pytest.raises(UserError, match="the first error is: /bin/sh: 1: CMAKE_AR-NOTFOUND: not found"):
        build.build_wheel(directory, False, {})
    steps.status = 0
    build.build_wheel(directory, False, {})
    assert steps.commands == ("cmake", "ninja") * 2


def test_what_is_compiled_is_the_edited_source(directory, steps):
    steps.status = 1
    with pytest.raises(UserError):
        build.build_wheel(directory, False, {})
    source = directory / "building" / "source"
    assert missing_lines(source) == []
    for name, path in ADDITIONS.items():
        assert (source / path).read_bytes() == (Path(build.__file__).parent / name).read_bytes()


@pytest.mark.parametrize(("with_mpi", "asked", "unasked"), [(True, "WITH", "WITHOUT"), (False, "WITHOUT", "WITH")])
def test_mpi_is_built_if_there_is_one_and_cuda_is_only_looked_for_for_gpus(
    directory, steps, monkeypatch, with_mpi, asked, unasked
):
    monkeypatch.setattr(cuda, "package_folder", lambda name: None)
    build.build_wheel(directory, with_mpi, {})
    assert steps.settings[f"HOROVOD_{asked}_MPI"] == "1"
    assert steps.settings["HOROVOD_GPU_OPERATIONS"] == ""
    assert not {f"HOROVOD_{unasked}_MPI", "HOROVOD_CUDA_HOME"} & {*steps.settings}


def test_a_build_that_is_run_again_goes_on_where_it_ended(directory, steps):
    steps.status = 1
    with pytest.raises(UserError):
        build.build_wheel(directory, False, {})
    objects = directory / "building" / "objects"
    objects.mkdir(exist_ok=True)
    (objects / "half.o").write_bytes(b"compiled")
    (objects / "build.ninja").touch()
    steps.status, steps.commands = 0, ()
    seconds = {}
    build.build_wheel(directory, False, seconds)
    assert (steps.downloads, steps.commands) == (1, ("ninja",))
    assert [*seconds] == ["compiling", "packing"], "What was done before is neither repeated nor counted."
    assert not (directory / "building").exists()


@pytest.mark.usefixtures("steps")
def test_each_step_tells_its_time_when_it_has_ended(directory, capsys):
    seconds = {}
    build.build_wheel(directory, False, seconds)
    assert [*seconds] == ["downloading", "editing", "configuring", "compiling", "packing"]
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if " took " in line] == [f"{step} took {in_words(seconds[step])}" for step in seconds]
    assert said.index("configuring ...") < said.index(f"configuring took {in_words(seconds['configuring'])}")


def test_a_source_that_was_not_prepared_to_its_end_is_prepared_anew(directory, steps, monkeypatch):
    monkeypatch.setattr(patching, "addition_texts", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build.build_wheel(directory, False, {})
    assert not (directory / "building" / "source").exists()
    monkeypatch.undo()


def test_the_wheel_lists_what_it_holds(directory, steps):
    wheel = build.build_wheel(directory, False, {})
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name == f"horovod-0.28.1-{tag}-{tag}-linux_{platform.machine()}.whl"
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read("horovod-0.28.1.dist-info/RECORD").decode().splitlines()
        for name, digest, _ in (line.split(",") for line in record[:-1]):
            expected = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={expected}"
        assert {line.split(",")[0] for line in record} == set(archive.namelist())
        assert {"horovod/__init__.py", "horovod/torch/mpi_lib_v2.so"} < set(archive.namelist())
        metadata = archive.read("horovod-0.28.1.dist-info/METADATA").decode()
    assert metadata.endswith("Version: 0.28.1\nRequires-Dist: cffi>=1.4.0\nRequires-Dist: pyyaml\n")


def test_progress_is_a_line_for_each_tenth(capsys):
    shown = 0
    for done in range(1, 78):
        shown = compilation.show_progress(f"[{done}/77] Building CXX object half.cc.o\n", shown)
    assert compilation.show_progress("a warning\n", shown) == shown == 100
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert (lines[0], lines[-1]) == ("compiling: 10 % (8 of 77 steps)", "compiling: 100 % (77 of 77 steps)")


def test_an_interruption_ends_what_was_started(tmp_path):
    script = (
        "import signal, sys; from pathlib import Path; from horovod_impl.building import compilation\n"
        # What a shell starts in the background ignores it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "tool = 'import os, time; print(f\"[1/1] {os.getpid()}\", flush=True); time.sleep(60)'\n"
        f"compilation.run_tool([sys.executable, '-c', tool], {{}}, Path({str(tmp_path / 'log')!r}), 1)"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as run:
        assert run.stdout.readline().startswith("compiling: 100 %")
        run.send_signal(signal.SIGINT)
        # The pipe is closed when the tool has ended, which has it as well.
        started = time.monotonic()
        run.stdout.read()
    assert time.monotonic() - started < 30


@pytest.mark.usefixtures("steps")
def test_two_builds_of_the_same_wait_for_one_another(directory, capsys):
    with locked(directory / "lock"):
        second = threading.Thread(target=build.build_wheel, args=(directory, False, {}))
        second.start()
        second.join(0.5)
        assert capsys.readouterr().out == "waiting until another process has built the same Horovod ...\n"
        assert build.cached_wheel(directory) is None
    second.join()
    assert build.cached_wheel(directory)


def test_a_wheel_that_another_process_built_meanwhile_is_used(directory, steps):
    wheel = write_wheel(directory)
    assert build.build_wheel(directory, False, {}) == wheel
    assert steps.commands == ()


def test_a_cache_that_cannot_be_written_gives_way_to_the_environment_or_the_remedy_is_named(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"no place to build.*set XDG_CACHE_HOME"):
        build.writable_directory([tmp_path / "file" / "one", tmp_path / "file" / "two"])
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    directory = build.writable_directory(build.wheel_directories("key"))
    assert directory == tmp_path / "environment" / "lockstep-cache" / "horovod" / "key"
    assert str(tmp_path / "file") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("outcome", "status", "words"),
    [
        ({"downloading": 6, "compiling": 180}, 0, ", in 3 min 6 s: downloading 6.0 s, compiling 3 min 0 s.\n"),
        ({}, 0, "Horovod 0.28.1 is installed for torch and TensorFlow.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "set XDG_CACHE_HOME"),
        (KeyboardInterrupt(), 130, "goes on from what is compiled"),
    ],
    ids=["built", "installed already", "full disk", "interrupted"],
)
def test_the_last_line_says_how_the_build_ended(monkeypatch, capsys, outcome, status, words):
    def build_and_install():
        if isinstance(outcome, dict):
            return outcome
        raise outcome

    monkeypatch.setattr(build, "build_and_install", build_and_install)
    monkeypatch.setattr(sys, "argv", ["build.py"])
    assert build.main() == status
    said = "".join(capsys.readouterr())
    assert words in said
    assert len(said.splitlines()) == 1


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "one byte differs": lambda content: content[:60] + bytes([content[60] ^ 255]) + content[61:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.usefixtures("steps")
def test_a_damaged_cached_wheel_is_not_used_but_replaced(directory, damage):
    wheel = build.build_wheel(directory, False, {})
    wheel.write_bytes(damage(wheel.read_bytes()))
    assert build.cached_wheel(directory) is None
    assert build.build_wheel(directory, False, {}) == wheel
    assert build.cached_wheel(directory) == wheel


def pretend_installed(folder, wheel):
    information = folder / "horovod-0.28.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n", encoding="utf-8")
    hashes = {"sha256": build.hashlib.sha256(wheel.read_bytes()).hexdigest()}
    (information / "direct_url.json").write_text(json.dumps({"archive_info": {"hashes": hashes}}), encoding="utf-8")


def test_only_the_very_same_wheel_counts_as_installed(tmp_path, monkeypatch):
    pretend_installed(tmp_path, write_wheel(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert build.is_installed(write_wheel(tmp_path))
    assert not build.is_installed(write_wheel(tmp_path, content="another build"))


@pytest.mark.usefixtures("tools")
def test_the_second_run_neither_builds_nor_installs(tmp_path, distributions, monkeypatch, steps):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["build.py"])
    monkeypatch.syspath_prepend(distributions)
    monkeypatch.setattr(build, "install", lambda wheel, with_mpi, seconds: pretend_installed(distributions, wheel))
    assert build.main() == 0
    assert steps.downloads == 1
    monkeypatch.delattr(build, "install")
    assert build.main() == 0
    assert steps.downloads == 1


def test_a_horovod_that_does_not_load_is_uninstalled(tmp_path, tools, monkeypatch):
    calls, seconds = [], {}
    monkeypatch.setattr(build, "run_pip", lambda *arguments: calls.append(arguments[0]))
    write_tool(tools, "python")
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    build.install(write_wheel(tmp_path), False, seconds)
    assert (calls, [*seconds]) == (["install"], ["installing", "loading"])
    (tools / "python").write_text("#!/bin/sh\necho 'ImportError: undefined symbol' >&2\nexit 1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"does not load with torch.*undefined symbol"):
        build.install(write_wheel(tmp_path), False, {})
    assert calls == ["install", "install", "uninstall"]


@pytest.fixture
def wheels_for_gpus(tmp_path, monkeypatch):
    """A folder that is all of Python's path, with what the `horovod-nccl` group installs, as far as it is looked at."""
    site = tmp_path / "site"
    files = ["torch/__init__.py", "torch/lib/libtorch_cuda.so", "nvidia/nccl/include/nccl.h"]
    files += ["nvidia/nccl/lib/libnccl.so.2"]
    toolkit = ["bin/nvcc", "include/cuda_runtime.h", "include/crt/host_defines.h", "include/nv/target"]
    toolkit += ["nvvm/bin/cicc", "lib/libcudart.so.13", "lib/libcudart_static.a"]
    for file in [*files, *(f"nvidia/cu13/{part}" for part in toolkit)]:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(f"{file} 1.0\n", encoding="utf-8")
    monkeypatch.setattr(cuda, "package_folder", lambda name: site / name if (site / name).exists() else None)
    return site


def test_for_gpus_nccl_and_the_toolkit_come_from_the_wheels(directory, steps, monkeypatch, wheels_for_gpus):
    monkeypatch.setattr(compilation, "pack_wheel", lambda source, libraries, directory: write_wheel(directory))
    monkeypatch.setattr(build.shutil, "rmtree", lambda folder, **_: None)
    build.build_wheel(directory, False, {})
    home = Path(steps.settings["HOROVOD_CUDA_HOME"])
    for part in (
        "bin/nvcc",
        "include/cuda_runtime.h",
        "nvvm/bin/cicc",
        "lib64/libcudart.so",
        "lib64/libcudart_static.a",
    ):
        assert (home / part).resolve().is_relative_to(wheels_for_gpus / "nvidia" / "cu13")
    assert steps.settings["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert (Path(steps.settings["HOROVOD_NCCL_INCLUDE"]) / "nccl.h").exists()
    assert (Path(steps.settings["HOROVOD_NCCL_LIB"]) / "libnccl.so").exists()


def test_another_nccl_makes_another_wheel_for_gpus_and_a_cuda_compiler_that_lies_about_none(
    tools, distributions, monkeypatch, wheels_for_gpus
):
    monkeypatch.syspath_prepend(distributions)
    before = build.cache_key(build.build_ingredients())
    header = wheels_for_gpus / "nvidia" / "nccl" / "include" / "nccl.h"
    header.write_text("#define NCCL_MAJOR 3\n", encoding="utf-8")
    after = build.cache_key(build.build_ingredients())
    (wheels_for_gpus / "nvidia" / "cu13" / "bin" / "nvcc").unlink()
    assert len({before, after, build.cache_key(build.build_ingredients())}) == 3
    monkeypatch.syspath_prepend(distributions)
    before = build.cache_key(build.build_ingredients())
    write_tool(tools, "nvcc", version="2.0")
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda-99")
    assert build.cache_key(build.build_ingredients()) == before


def test_an_environment_without_a_cuda_compiler_is_not_one_for_gpus(wheels_for_gpus):
    assert cuda.wheel_folders() == (wheels_for_gpus / "nvidia" / "cu13", wheels_for_gpus / "nvidia" / "nccl")
    (wheels_for_gpus / "nvidia" / "cu13" / "bin" / "nvcc").unlink()
    assert cuda.wheel_folders() is None


@pytest.mark.parametrize(
    "missing", ["torch/lib/libtorch_cuda.so", "nvidia/nccl/include/nccl.h", "nvidia/cu13/include/nv/target"]
)
def test_a_part_that_the_cuda_compiler_lacks_is_named_with_its_remedy(wheels_for_gpus, missing):
    (wheels_for_gpus / missing).unlink()
    with pytest.raises(UserError, match=rf"no {wheels_for_gpus / missing}: install the `horovod-nccl`"):
        cuda.wheel_folders()
