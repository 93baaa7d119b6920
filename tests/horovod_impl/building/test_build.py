"""build.py: what is built anew, what is refused and in which words, what is left behind. Nothing is compiled."""

import base64
import errno
import hashlib
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
from horovod_impl.building.patching import ADDITIONS, Patch

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
UNPATCHED = ["one", "before", "old words", "", "five", "six", "seven", "eight", "nine", ""]
PATCHED = ["one", "before", "new words", "", "five", "six", "seven", "eight", "nine", "ten", ""]


def write_tool(folder, name, version="1.0"):
    tool = folder / name
    tool.write_text(f"#!/bin/sh\necho {name} {version}\n", encoding="utf-8")
    tool.chmod(0o755)


def write_wheel(folder, content="content " * 1000):
    wheel = folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("horovod/__init__.py", content)
    return wheel


def write_unpatched(root, lines=UNPATCHED):
    (root / PATCHED_FILE).parent.mkdir(parents=True)
    (root / PATCHED_FILE).write_text("\n".join(lines), encoding="utf-8")


def metadata_of(distributions, name):
    return distributions / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"


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
def distributions(tmp_path, monkeypatch):
    """A folder that tells importlib.metadata that all distributions which a build needs are installed."""
    folder = tmp_path / "distributions"
    for name in DISTRIBUTIONS:
        metadata_of(folder, name).parent.mkdir(parents=True)
        metadata_of(folder, name).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    return folder


# Patches


@pytest.mark.parametrize("number", [2, 3, 4, 9])
def test_a_patch_is_refused_by_name_where_a_line_is_another_or_isnt_there(tmp_path, number):
    for name, lines in (
        ("other", [*UNPATCHED[: number - 1], "other words", *UNPATCHED[number:]]),
        ("short", UNPATCHED[: number - 1]),
    ):
        write_unpatched(tmp_path / name, lines)
        with pytest.raises(UserError) as refused:
            PATCH.apply(tmp_path / name)
        cause = f"line {number} isn't {UNPATCHED[number - 1]!r}: bring the patches up to date"
        assert all(part in str(refused.value) for part in (PATCH.name, PATCHED_FILE, PATCH.reason, cause))


def test_a_patch_of_a_file_that_isnt_there_is_refused(tmp_path):
    with pytest.raises(UserError, match=f"{PATCH.name} of Horovod's {PATCHED_FILE}"):
        PATCH.apply(tmp_path)


# What the wheel depends on


def change_version(name):
    def change(monkeypatch, distributions, tools):
        path = metadata_of(distributions, name)
        path.write_text(path.read_text(encoding="utf-8").replace("Version: 1.0", "Version: 1.0+cpu"))

    return change


def change_tool(name):
    return lambda monkeypatch, distributions, tools: write_tool(tools, name, version="2.0")


def replace(owner, name, value):
    return lambda monkeypatch, *_: monkeypatch.setattr(owner, name, value)


CHANGES = {
    "a C++ compiler": change_tool("c++"),
    "MPI's compiler": change_tool("mpicxx"),
    "mpirun": change_tool("mpirun"),
    "the archive": replace(build, "ARCHIVE_SHA256", "0" * 64),
    "a patch": replace(patching, "PATCHES", (*patching.PATCHES, PATCH)),
    "a file of ours": replace(patching, "addition_texts", lambda: {"x.h": "text"}),
    "torch": change_version("torch"),
    "TensorFlow": change_version("tensorflow-cpu"),
    "CMake": change_version("cmake"),
    "Python": replace(platform, "python_version", lambda: "3.99.0"),
    "the machine": replace(platform, "machine", lambda: "abacus"),
    "the CPU": replace(build, "cpu_features", lambda: "steam"),
    "a compiler flag": lambda monkeypatch, *_: monkeypatch.setenv("CXXFLAGS", "-Ofast"),
    "an option of Horovod": lambda monkeypatch, *_: monkeypatch.setenv("HOROVOD_CPU_OPERATIONS", "MPI"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_the_wheel_depends_on_makes_another_wheel(distributions, tools, monkeypatch, change):
    before = build.cache_key(build.build_ingredients())
    assert build.cache_key(build.build_ingredients()) == before
    change(monkeypatch, distributions, tools)
    assert build.cache_key(build.build_ingredients()) != before


@pytest.mark.usefixtures("distributions")
def test_the_same_tools_in_another_environment_make_the_same_wheel(tools, monkeypatch):
    """Both MPIs are that of their environment; another MPI, outside the environment, makes another wheel."""
    keys = []
    for environment, prefix in [("first", "first"), ("second", "second"), ("second", "elsewhere")]:
        folder = tools.parent / environment / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        write_tool(folder, "mpicxx", version=f"-L{folder.parent}/lib")
        monkeypatch.setenv("PATH", f"{folder}:{tools}")
        monkeypatch.setattr(sys, "prefix", str(tools.parent / prefix))
        keys.append(build.cache_key(build.build_ingredients()))
    assert keys[0] == keys[1] != keys[2]


def break_compiler(distributions, tools):
    (tools / "c++").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")


def uninstall(name):
    def remove(distributions, tools):
        metadata_of(distributions, name).unlink()
        metadata_of(distributions, name).parent.rmdir()

    return remove


@pytest.mark.parametrize(
    ("take_away", "named", "remedy"),
    [
        (lambda distributions, tools: (tools / "c++").unlink(), "A C++ compiler was not found", "apt-get install g++"),
        (break_compiler, "A C++ compiler was not found", "apt-get install g++"),
        (uninstall("torch"), "torch is not installed", "`horovod` dependency group"),
        (uninstall("tensorflow-cpu"), "tensorflow is not installed", "`horovod` dependency group"),
        (uninstall("ninja"), "ninja is not installed", "`horovod` dependency group"),
    ],
    ids=["no compiler", "a compiler that cannot run", "no torch", "no TensorFlow", "no Ninja"],
)
def test_what_is_missing_is_named_with_its_remedy_before_anything_is_made(
    tools, distributions, take_away, named, remedy
):
    take_away(distributions, tools)
    cache = tools.parent / "cache"
    variables = {"PYTHONPATH": str(distributions), "XDG_CACHE_HOME": str(cache), "PIP_NO_INDEX": "1"}
    # -S hides what is installed for the Python that runs the tests.
    command = [sys.executable, "-S", build.__file__]
    result = subprocess.run(command, env=os.environ | variables, capture_output=True, encoding="utf-8", timeout=60)
    assert (result.returncode, result.stdout, cache.exists()) == (2, "", False)
    [line] = result.stderr.splitlines()
    assert line.startswith(named)
    assert remedy in line


@pytest.mark.usefixtures("tools")
def test_missing_headers_of_python_are_named_with_their_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(UserError, match=f"{tmp_path}.*`apt-get install python{version}-dev`"):
        build.find_compiler()


# The build


@pytest.fixture
def directory(tmp_path):
    """A folder for a wheel."""
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("archive", "sentence", "logged"),
    [
        (b"something else", "does not have the expected SHA-256", "DO NOT MATCH THE HASHES"),
        (None, "could not download", "No matching distribution"),
    ],
    ids=["another archive", "no archive"],
)
def test_a_download_that_fails_is_refused_with_the_name_of_its_log_and_leaves_nothing(
    directory, tmp_path, monkeypatch, archive, sentence, logged
):
    pytest.importorskip("pip")
    if archive:
        (tmp_path / "horovod-0.28.1.tar.gz").write_bytes(archive)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    log = directory / "build.log"
    log.write_text("an earlier try: THESE PACKAGES DO NOT MATCH THE HASHES", encoding="utf-8")
    with pytest.raises(UserError, match=f"{sentence}.*{log}"):
        build.build_wheel(directory, False, {})
    assert logged in log.read_text(encoding="utf-8")
    assert list((directory / "building").iterdir()) == []


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
        source = scratch / "horovod-0.28.1"
        write_unpatched(source)
        metadata = "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\nDescription: x\n"
        for name, text in {
            "horovod.egg-info/requires.txt": "cffi>=1.4.0\npyyaml\n\n[ray]\nray\n",
            "horovod.egg-info/entry_points.txt": "[console_scripts]\n",
            "PKG-INFO": metadata,
            "LICENSE": "Apache 2.0\n",
            "horovod/__init__.py": "version = '0.28.1'\n",
        }.items():
            (source / name).parent.mkdir(exist_ok=True)
            (source / name).write_text(text, encoding="utf-8")
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
    monkeypatch.setattr(patching, "PATCHES", (PATCH,))
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


@pytest.mark.parametrize(("with_mpi", "asked", "unasked"), [(True, "WITH", "WITHOUT"), (False, "WITHOUT", "WITH")])
def test_mpi_is_built_if_there_is_one_and_cuda_is_only_looked_for_for_gpus(
    directory, steps, monkeypatch, with_mpi, asked, unasked
):
    monkeypatch.setattr(cuda, "package_folder", lambda name: None)
    build.build_wheel(directory, with_mpi, {})
    assert steps.settings[f"HOROVOD_{asked}_MPI"] == "1"
    assert steps.settings["HOROVOD_GPU_OPERATIONS"] == ""
    assert not {f"HOROVOD_{unasked}_MPI", "HOROVOD_CUDA_HOME"} & {*steps.settings}


def test_a_build_that_is_run_again_goes_on_where_it_ended_with_the_edited_source(directory, steps):
    steps.status = 1
    with pytest.raises(UserError):
        build.build_wheel(directory, False, {})
    source, objects = directory / "building" / "source", directory / "building" / "objects"
    assert (source / PATCHED_FILE).read_text(encoding="utf-8").split("\n") == PATCHED
    for name, path in ADDITIONS.items():
        assert (source / path).read_bytes() == (Path(build.__file__).parent / name).read_bytes()
    objects.mkdir(exist_ok=True)
    (objects / "build.ninja").touch()
    steps.status, steps.commands = 0, ()
    seconds = {}
    build.build_wheel(directory, False, seconds)
    assert (steps.downloads, steps.commands) == (1, ("ninja",))
    assert [*seconds] == ["compiling", "packing"], "What was done before is neither repeated nor counted."
    assert not (directory / "building").exists()


def test_a_source_that_was_not_prepared_to_its_end_is_prepared_anew(directory, steps, monkeypatch):
    monkeypatch.setattr(patching, "addition_texts", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build.build_wheel(directory, False, {})
    assert not (directory / "building" / "source").exists()


@pytest.mark.usefixtures("steps")
def test_each_step_tells_its_time_when_it_has_ended_and_the_wheel_lists_what_it_holds(directory, capsys):
    seconds = {}
    wheel = build.build_wheel(directory, False, seconds)
    said = capsys.readouterr().out.splitlines()
    assert [*seconds] == ["downloading", "editing", "configuring", "compiling", "packing"]
    assert [line for line in said if " took " in line] == [f"{step} took {in_words(seconds[step])}" for step in seconds]
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


# The cache


def test_who_builds_the_same_as_another_waits_and_takes_the_others_wheel(directory, steps, capsys):
    with locked(directory / "lock"):
        second = threading.Thread(target=build.build_wheel, args=(directory, False, {}))
        second.start()
        second.join(0.5)
        assert capsys.readouterr().out == "waiting until another process has built the same Horovod ...\n"
        write_wheel(directory)
    second.join()
    assert (steps.downloads, steps.commands) == (0, ())


def test_a_cache_that_cannot_be_written_gives_way_to_the_environment_or_the_remedy_is_named(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"no place to build.*set XDG_CACHE_HOME"):
        build.writable_directory([tmp_path / "file" / "one", tmp_path / "file" / "two"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    directory = build.writable_directory(build.wheel_directories("key"))
    assert directory == tmp_path / "environment" / "lockstep-cache" / "horovod" / "key"
    assert str(tmp_path / "file") in capsys.readouterr().out


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[: len(content) // 2], lambda content: content[:60] + b"damage" + content[66:]],
    ids=["cut off", "overwritten"],
)
@pytest.mark.usefixtures("steps")
def test_a_damaged_cached_wheel_is_not_used_but_replaced(directory, damage):
    wheel = build.build_wheel(directory, False, {})
    wheel.write_bytes(damage(wheel.read_bytes()))
    assert build.cached_wheel(directory) is None
    assert build.build_wheel(directory, False, {}) == wheel
    assert build.cached_wheel(directory) == wheel


@pytest.mark.parametrize(
    ("outcome", "status", "words"),
    [
        ({"downloading": 6, "compiling": 180}, 0, ", in 3 min 6 s: downloading 6.0 s, compiling 3 min 0 s.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "set XDG_CACHE_HOME"),
        (KeyboardInterrupt(), 130, "goes on from what is compiled"),
    ],
    ids=["built", "full disk", "interrupted"],
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


# The installation


@pytest.mark.usefixtures("tools")
def test_the_second_run_neither_builds_nor_installs_and_only_the_very_same_wheel_counts_as_installed(
    tmp_path, distributions, monkeypatch, capsys, steps
):
    def install(wheel, with_mpi, seconds):
        information = distributions / "horovod-0.28.1.dist-info"
        information.mkdir()
        metadata = "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n"
        (information / "METADATA").write_text(metadata, encoding="utf-8")
        origin = {"archive_info": {"hashes": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}}}
        (information / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["build.py"])
    monkeypatch.setattr(build, "install", install)
    assert build.main() == 0
    monkeypatch.delattr(build, "install")
    capsys.readouterr()
    assert build.main() == 0
    assert steps.downloads == 1
    assert capsys.readouterr().out == "Horovod 0.28.1 is installed for torch and TensorFlow.\n"
    assert not build.is_installed(write_wheel(tmp_path, content="another build"))


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


# GPUs


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
    libraries = ("lib64/libcudart.so", "lib64/libcudart_static.a")
    for part in ("bin/nvcc", "include/cuda_runtime.h", "nvvm/bin/cicc", *libraries):
        assert (home / part).resolve().is_relative_to(wheels_for_gpus / "nvidia" / "cu13")
    assert steps.settings["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert (Path(steps.settings["HOROVOD_NCCL_INCLUDE"]) / "nccl.h").exists()
    assert (Path(steps.settings["HOROVOD_NCCL_LIB"]) / "libnccl.so").exists()


@pytest.mark.usefixtures("distributions")
def test_another_nccl_makes_another_wheel_and_a_cuda_compiler_that_lies_about_none(tools, monkeypatch, wheels_for_gpus):
    keys = [build.cache_key(build.build_ingredients())]
    (wheels_for_gpus / "nvidia" / "nccl" / "include" / "nccl.h").write_text("#define NCCL_MAJOR 3\n", encoding="utf-8")
    keys.append(build.cache_key(build.build_ingredients()))
    (wheels_for_gpus / "nvidia" / "cu13" / "bin" / "nvcc").unlink()
    keys.append(build.cache_key(build.build_ingredients()))
    assert len({*keys}) == 3
    write_tool(tools, "nvcc", version="2.0")
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda-99")
    assert build.cache_key(build.build_ingredients()) == keys[-1]


@pytest.mark.parametrize(
    "missing", ["torch/lib/libtorch_cuda.so", "nvidia/nccl/include/nccl.h", "nvidia/cu13/include/nv/target"]
)
def test_a_part_that_the_cuda_compiler_lacks_is_named_with_its_remedy(wheels_for_gpus, missing):
    (wheels_for_gpus / missing).unlink()
    with pytest.raises(UserError, match=rf"no {wheels_for_gpus / missing}: install the `horovod-nccl`"):
        cuda.wheel_folders()
