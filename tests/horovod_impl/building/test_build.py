"""build.py: what is built anew, what is refused and in which words, what is left behind. Nothing is compiled."""

import base64
import errno
import hashlib
import json
import os
import platform
import sys
import sysconfig
import threading
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import Mock

import pytest

from common.environments.durations import in_words
from common.errors import UserError
from common.files import locked
from horovod_impl.building import build, compilation, cuda, patching
from horovod_impl.building.patching import ADDITIONS, Patch
from tests.launching import is_running, wait_for

DISTRIBUTIONS = ("torch", "tensorflow-cpu", *build.BUILD_REQUIREMENTS)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
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


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_tool(folder, name, version="1.0"):
    write(folder / name, f"#!/bin/sh\necho {name} {version} $1\n")
    (folder / name).chmod(0o755)


def write_wheel(folder, content=""):
    wheel = folder / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("horovod/__init__.py", content)
    return wheel


def metadata_of(distributions, name):
    return distributions / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder that is all of PATH, with every tool that a build may use, in version 1.0."""
    for name in TOOLS:
        write_tool(tmp_path / "tools", name)
    for name in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return tmp_path / "tools"


@pytest.fixture
def distributions(tmp_path, monkeypatch):
    """A folder with all distributions that importlib.metadata finds: those which a build needs."""
    folder = tmp_path / "distributions"
    for name in DISTRIBUTIONS:
        write(metadata_of(folder, name), f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(folder), *(path for path in sys.path if "site-packages" not in path)])
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that runs build.py as a command, and returns its exit status and its output."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["build.py"])
    return lambda: (build.main(), "".join(capsys.readouterr()))


@pytest.mark.parametrize(
    ("lines", "number"),
    [([*UNPATCHED[:2], "other words"], 3), (UNPATCHED[:8], 9), ([], 2)],
    ids=["another line", "a line that isn't there", "no file"],
)
def test_a_patch_is_refused_by_name_where_a_line_isnt_the_one_that_it_changes(tmp_path, lines, number):
    if lines:
        write(tmp_path / PATCHED_FILE, "\n".join(lines))
    with pytest.raises(UserError) as refused:
        PATCH.apply(tmp_path)
    cause = f"line {number} isn't {UNPATCHED[number - 1]!r}: bring the patches up to date"
    assert all(part in str(refused.value) for part in (PATCH.name, PATCHED_FILE, PATCH.reason, cause))


@pytest.mark.usefixtures("distributions")
def test_the_wheel_depends_on_the_version_of_all_that_makes_it_and_on_settings(tools, monkeypatch):
    monkeypatch.setattr(patching, "read_patches", lambda: [PATCH])
    monkeypatch.setattr(patching, "addition_texts", lambda: {"x.h": "text"})
    monkeypatch.setattr(build, "cpu_features", lambda: "avx fma")
    settings = {"CXXFLAGS": "-Ofast", "HOROVOD_CPU_OPERATIONS": "MPI"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ingredients = build.build_ingredients()
    assert json.loads(ingredients.pop("settings")).items() >= settings.items()
    assert ingredients == {
        "archive": build.ARCHIVE_SHA256,
        "edits": json.dumps([DIFF]),
        "additions": json.dumps({"x.h": "text"}),
        "torch": "torch 1.0",
        "tensorflow": "tensorflow-cpu 1.0",
        "python": f"{platform.python_version()} {sysconfig.get_config_var('SOABI')}",
        "compiler": f"{tools}/c++\nc++ 1.0 --version\n",
        "cmake": "cmake 1.0",
        "mpi": f"{tools}/mpicxx\nmpicxx 1.0 -show\n",
        "mpirun": f"{tools}/mpirun\nmpirun 1.0 --version\n",
        # A CUDA compiler on PATH is none of the environment's.
        "cuda": "",
        "machine": f"{platform.machine()} avx fma",
    }
    others = [ingredients | {name: "another"} for name in ingredients]
    assert len({build.cache_key(each) for each in (ingredients, *others)}) == 1 + len(ingredients)


def test_the_tools_of_an_environment_are_told_without_its_folder(tools, monkeypatch):
    """So another environment's same tools make the same wheel. An MPI outside the environment makes another one."""
    write_tool(tools.parent / "environment" / "bin", "mpicxx", version=f"-L{tools.parent}/environment/lib")
    monkeypatch.setenv("PATH", f"{tools.parent}/environment/bin:{tools}")
    monkeypatch.setattr(sys, "prefix", f"{tools.parent}/environment")
    assert build.describe_tool(["mpicxx"]) == "{environment}/bin/mpicxx\nmpicxx -L{environment}/lib --version\n"
    monkeypatch.setattr(sys, "prefix", "/elsewhere")
    assert build.describe_tool(["mpicxx"]).startswith(f"{tools.parent}/environment/bin/mpicxx\n")


@pytest.mark.parametrize(
    ("missing", "named", "remedy"),
    [
        ("c++", "A C++ compiler was not found", "apt-get install g++"),
        ("Python.h", "Python.h was not found in ", f"`apt-get install python{PYTHON}-dev`"),
        ("torch", "torch is not installed", "`horovod` dependency group"),
        ("tensorflow-cpu", "tensorflow is not installed", "`horovod` dependency group"),
        ("ninja", "ninja is not installed", "`horovod` dependency group"),
    ],
)
def test_what_is_missing_is_named_with_its_remedy_before_anything_is_made(
    tools, distributions, run, monkeypatch, missing, named, remedy
):
    if missing == "Python.h":
        monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tools))
    elif missing in TOOLS:
        # A compiler that is there but can't run is none.
        write(tools / missing, "#!/bin/sh\nexit 127\n")
    else:
        metadata_of(distributions, missing).unlink()
        metadata_of(distributions, missing).parent.rmdir()
    status, output = run()
    assert (status, (tools.parent / "cache").exists(), len(output.splitlines())) == (2, False, 1)
    assert output.startswith(named)
    assert remedy in output


@pytest.mark.parametrize(
    ("archive", "sentence", "logged"),
    [
        (b"something else", "does not have the expected SHA-256", "DO NOT MATCH THE HASHES"),
        (None, "could not download", "No matching distribution"),
    ],
    ids=["another archive", "no archive"],
)
def test_a_download_that_fails_is_refused_with_the_name_of_its_log_and_leaves_nothing(
    tmp_path, monkeypatch, archive, sentence, logged
):
    pytest.importorskip("pip")
    if archive:
        (tmp_path / "horovod-0.28.1.tar.gz").write_bytes(archive)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    log = tmp_path / "build.log"
    log.write_text("an earlier try: THESE PACKAGES DO NOT MATCH THE HASHES", encoding="utf-8")
    with pytest.raises(UserError, match=f"{sentence}.*{log}"):
        build.build_wheel(tmp_path, "c++", False, {})
    assert logged in log.read_text(encoding="utf-8")
    assert list((tmp_path / "building").iterdir()) == []


@pytest.mark.parametrize(
    ("output", "error", "said"),
    [
        (
            "a.cc:1:2: error: 'x' was not declared\nninja: stopped.",
            UserError,
            "build.log.*a.cc:1:2: error: 'x' was not",
        ),
        ("CMake Error at C.txt:5 (message):\n  It is wrong.\n\n", UserError, r"C.txt:5 \(message\): It is wrong\.$"),
        ("/bin/sh: 1: CMAKE_AR-NOTFOUND: not found", UserError, "the first error is: /bin/sh: 1: CMAKE_AR-NOTFOUND"),
        ("fatal error: error writing to x.s: No space left on device", OSError, "No space left"),
    ],
    ids=["compiler", "CMake", "a missing tool", "full disk"],
)
def test_a_step_that_fails_names_its_log_and_its_first_error(tmp_path, output, error, said):
    command = [sys.executable, "-c", f"print({output!r}); raise SystemExit(1)"]
    with pytest.raises(error, match=said):
        compilation.run_tool(command, {}, tmp_path / "build.log", 1)
    assert (tmp_path / "build.log").read_text(encoding="utf-8") == f"{output}\n"


@dataclass
class Steps:
    """Stands in for downloading, CMake and Ninja."""

    failing: str = ""
    """The tool that fails."""
    downloads: int = 0
    commands: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def download_source(self, scratch, log):
        self.downloads += 1
        source = scratch / "horovod-0.28.1"
        for name, text in {
            PATCHED_FILE: "\n".join(UNPATCHED),
            "horovod.egg-info/requires.txt": "cffi>=1.4.0\npyyaml\n\n[ray]\nray\n",
            "horovod.egg-info/entry_points.txt": "[console_scripts]\n",
            "PKG-INFO": "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\nDescription: x\n",
            "LICENSE": "Apache 2.0\n",
            "horovod/__init__.py": "version = '0.28.1'\n",
        }.items():
            write(source / name, text)
        return source

    def run_tool(self, command, settings, log, lock):
        tool = Path(command[0]).name
        self.settings = settings
        self.commands.append(tool)
        objects = Path(command[command.index("-B" if tool == "cmake" else "-C") + 1])
        write(objects / "build.ninja", "")
        write(objects / "libraries" / "horovod" / "torch" / "mpi_lib_v2.so", "a library")
        if tool == self.failing:
            raise UserError("Horovod did not compile.")


@pytest.fixture
def steps(monkeypatch):
    """The steps of a build of a source to which one patch applies."""
    steps = Steps()
    monkeypatch.setattr(patching, "read_patches", lambda: [PATCH])
    monkeypatch.setattr(compilation, "run_tool", steps.run_tool)
    monkeypatch.setattr(compilation, "download_source", steps.download_source)
    return steps


@pytest.mark.parametrize(("with_mpi", "asked", "unasked"), [(True, "WITH", "WITHOUT"), (False, "WITHOUT", "WITH")])
def test_mpi_is_built_if_there_is_one_and_cuda_is_only_looked_for_for_gpus(
    tmp_path, steps, monkeypatch, with_mpi, asked, unasked
):
    monkeypatch.setattr(cuda, "package_folder", lambda name: None)
    build.build_wheel(tmp_path, "c++", with_mpi, {})
    assert steps.settings[f"HOROVOD_{asked}_MPI"] == "1"
    assert steps.settings["HOROVOD_GPU_OPERATIONS"] == ""
    assert not {f"HOROVOD_{unasked}_MPI", "HOROVOD_CUDA_HOME"} & {*steps.settings}


def test_a_build_that_is_run_again_keeps_the_edited_source_and_looks_again_for_what_was_missing(tmp_path, steps):
    steps.failing = "ninja"
    with pytest.raises(UserError):
        build.build_wheel(tmp_path, "c++", False, {})
    assert build.cached_wheel(tmp_path) is None
    source, seconds = tmp_path / "building" / "source", {}
    assert (source / PATCHED_FILE).read_text(encoding="utf-8").split("\n") == PATCHED
    for name, path in ADDITIONS.items():
        assert (source / path).read_bytes() == (Path(build.__file__).parent / name).read_bytes()
    steps.failing = ""
    build.build_wheel(tmp_path, "c++", False, seconds)
    assert (steps.downloads, steps.commands) == (1, ["cmake", "ninja"] * 2)
    assert [*seconds] == ["configuring", "compiling", "packing"], "What was done before isn't counted."
    assert not (tmp_path / "building").exists()


def test_an_interrupted_build_goes_on_without_configuring_and_a_source_is_there_only_whole(
    tmp_path, steps, monkeypatch
):
    write(tmp_path / "building" / "objects" / "build.ninja", "")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(patching, "addition_texts", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build.build_wheel(tmp_path, "c++", False, {})
    assert not (tmp_path / "building" / "source").exists()
    build.build_wheel(tmp_path, "c++", False, {})
    assert (steps.downloads, steps.commands) == (2, ["ninja"])


@pytest.mark.usefixtures("steps")
def test_each_step_tells_its_time_when_it_has_ended_and_the_wheel_lists_what_it_holds(tmp_path, capsys):
    seconds = {}
    wheel = build.build_wheel(tmp_path, "c++", False, seconds)
    said = capsys.readouterr().out.splitlines()
    assert [*seconds] == ["downloading", "editing", "configuring", "compiling", "packing"]
    assert [line for line in said if " took " in line] == [f"{step} took {in_words(seconds[step])}" for step in seconds]
    tag = f"cp{PYTHON.replace('.', '')}"
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


def test_an_interruption_ends_what_was_started(tmp_path, monkeypatch):
    printed = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(compilation, "print", printed, raising=False)
    tool = "import os, time; print(f'[1/1] {os.getpid()}', flush=True); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        compilation.run_tool([sys.executable, "-c", tool], {}, tmp_path / "log", 1)
    assert printed.call_args.args == ("compiling: 100 % (1 of 1 steps)",)
    started = int((tmp_path / "log").read_text(encoding="utf-8").split()[1])
    wait_for(lambda: not is_running(started), seconds=30)


def test_who_builds_the_same_as_another_waits_and_takes_the_others_wheel(tmp_path, steps, capsys):
    with locked(tmp_path / "lock"):
        second = threading.Thread(target=build.build_wheel, args=(tmp_path, "c++", False, {}))
        second.start()
        second.join(0.5)
        assert capsys.readouterr().out == "waiting until another process has built the same Horovod ...\n"
        write_wheel(tmp_path)
    second.join()
    assert (steps.downloads, steps.commands) == (0, [])


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
    ("outcome", "status", "words"),
    [
        ({"downloading": 6, "compiling": 180}, 0, ", in 3 min 6 s: downloading 6.0 s, compiling 3 min 0 s.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "set XDG_CACHE_HOME"),
        (KeyboardInterrupt(), 130, "goes on from what is compiled"),
    ],
    ids=["built", "full disk", "interrupted"],
)
def test_the_last_line_says_how_the_build_ended(monkeypatch, run, outcome, status, words):
    monkeypatch.setattr(build, "build_and_install", Mock(side_effect=[outcome]))
    ended, output = run()
    assert (ended, len(output.splitlines())) == (status, 1)
    assert words in output


@pytest.mark.usefixtures("tools")
def test_the_second_run_neither_builds_nor_installs_and_only_the_very_same_wheel_counts_as_installed(
    tmp_path, distributions, monkeypatch, run, steps
):
    def install(wheel, with_mpi, seconds):
        information = distributions / "horovod-0.28.1.dist-info"
        write(information / "METADATA", "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")
        origin = {"archive_info": {"hashes": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}}}
        write(information / "direct_url.json", json.dumps(origin))

    monkeypatch.setattr(build, "install", install)
    assert run()[0] == 0
    monkeypatch.delattr(build, "install")
    assert run() == (0, "Horovod 0.28.1 is installed for torch and TensorFlow.\n")
    assert steps.downloads == 1
    assert not build.is_installed(write_wheel(tmp_path, content="another build"))


def test_a_horovod_that_does_not_load_is_uninstalled(tmp_path, tools, monkeypatch):
    calls, seconds = [], {}
    monkeypatch.setattr(build, "run_pip", lambda *arguments: calls.append(arguments[0]))
    write_tool(tools, "python")
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    build.install(write_wheel(tmp_path), False, seconds)
    assert (calls, [*seconds]) == (["install"], ["installing", "loading"])
    write(tools / "python", "#!/bin/sh\necho 'ImportError: undefined symbol' >&2\nexit 1\n")
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
        write(site / file, f"{file} 1.0\n")
    monkeypatch.setattr(cuda, "package_folder", lambda name: site / name if (site / name).exists() else None)
    return site


@pytest.mark.usefixtures("distributions", "tools")
def test_for_gpus_nccl_and_the_toolkit_come_from_the_wheels(tmp_path, steps, wheels_for_gpus):
    build.build_wheel(tmp_path, "c++", False, {})
    assert steps.settings["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    settings = cuda.assemble_toolkit(tmp_path / "cuda", *cuda.wheel_folders())
    assert settings.keys() <= steps.settings.keys()
    home = Path(settings["HOROVOD_CUDA_HOME"])
    libraries = ("lib64/libcudart.so", "lib64/libcudart_static.a")
    for part in ("bin/nvcc", "include/cuda_runtime.h", "nvvm/bin/cicc", *libraries):
        assert (home / part).resolve().is_relative_to(wheels_for_gpus / "nvidia" / "cu13")
    assert (Path(settings["HOROVOD_NCCL_INCLUDE"]) / "nccl.h").exists()
    assert (Path(settings["HOROVOD_NCCL_LIB"]) / "libnccl.so").exists()
    # The wheel that is made depends on both.
    write_tool(wheels_for_gpus / "nvidia" / "cu13" / "bin", "nvcc")
    compiler = f"{wheels_for_gpus}/nvidia/cu13/bin/nvcc\nnvcc 1.0 --version\n"
    assert build.build_ingredients()["cuda"] == f"{compiler}nvidia/nccl/include/nccl.h 1.0\n"


@pytest.mark.parametrize("missing", ["torch/lib/libtorch_cuda.so", "nvidia/cu13/include/nv/target"])
def test_a_part_that_the_cuda_compiler_lacks_is_named_with_its_remedy(wheels_for_gpus, missing):
    (wheels_for_gpus / missing).unlink()
    with pytest.raises(UserError, match=rf"no {wheels_for_gpus / missing}: install the `horovod-nccl`"):
        cuda.wheel_folders()
