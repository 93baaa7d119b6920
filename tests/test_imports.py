"""The direction of imports, and that importing a module of ours does nothing, read from the source."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from common.declarations import catalogue

ROOT = Path(__file__).parent.parent
FRAMEWORKS = {"torch", "tensorflow", "keras", "tf_keras", "horovod", "jax", "jaxlib", "accelerate", "deepspeed", "ray"}
AROUND_TORCH = {"accelerate", "deepspeed", "ray"}
COMMON, REPORTS = ROOT / "common", ROOT / "reports"
EXERCISES = COMMON / "check" / "exercises"
"""Programs that students complete, each in a framework. Nothing imports them."""
IMPLEMENTATIONS = sorted(path for path in ROOT.glob("*_impl") if path.is_dir())
OURS = {"common", "reports", "tests", "noxfile"} | {path.name for path in IMPLEMENTATIONS}
COPIED = COMMON / "check" / "watch.py"
"""Is made to be copied into any repository, beside a training with its framework. So it names that framework, imports
nothing of ours, and is imported by nothing of ours."""
PATH_LINES = {f"sys.path.insert(0, str(Path(__file__).{parent}))" for parent in ("parent.parent", "parents[2]")}

LOOSE = ("errors", "files", "paths", "command_line")
ROOMS = {
    **{name: {*LOOSE} for name in LOOSE},
    "contract": {*LOOSE},
    "statistics": {*LOOSE},
    "environments": {*LOOSE},
    "declarations": {*LOOSE, "contract"},
    "records": {*LOOSE, "contract", "statistics", "declarations"},
    "observations": {*LOOSE, "contract", "statistics", "declarations", "records"},
    "prediction": {*LOOSE, "contract", "statistics", "declarations", "records", "observations"},
    "measurement": {*LOOSE, "contract", "statistics", "declarations", "records"},
    "launching": {*LOOSE, "contract", "environments", "declarations", "records", "measurement"},
}
"""What each room of `common/` may import, beside itself."""
ROOMS["sessions"] = {*ROOMS, "common"}
ROOMS["check"] = {*ROOMS}
ROOMS["laboratory"] = {*ROOMS} - {"check"}


ROOMS_OF_REPORTS = {
    "blocks": set(),
    "tables": set(),
    "charts": {"blocks"},
    "words": {"blocks", "tables", "charts"},
    "render": {"blocks", "charts"},
}
"""What each room of `reports/` may import of the others; documents, which lie loose, put all rooms together."""

MEASURED = {*LOOSE, "contract", "declarations", "statistics", "records", "observations"}
"""The rooms of `common/` that reports import: records and what is made of them, and nothing that measures."""

NEIGHBOURS = {"horovod_impl": ("pytorch_impl", "tf_impl")}
"""The folders whose models, inputs and options another folder trains with."""
LENT = {"model", "inputs", "options", "fit"}
"""What these folders lend: modules that know nothing of how a world is joined."""

FORBIDDEN = {
    "common": FRAMEWORKS | OURS - {"common"},
    "reports": FRAMEWORKS | OURS - {"common", "reports"},
    **{path.name: OURS - {"common", path.name, *NEIGHBOURS.get(path.name, ())} for path in IMPLEMENTATIONS},
}
"""What no module of a folder imports anywhere."""
FORBIDDEN["pytorch_impl"] |= FRAMEWORKS - {"torch", *AROUND_TORCH}
FORBIDDEN["tf_impl"] |= {"torch", "horovod"}


@cache
def modules_in_package(path, package="common"):
    """Modules of `package` that a file imports anywhere, by their full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package:
            paths = {alias.name: ROOT / node.module.replace(".", "/") / alias.name for alias in node.names}
            modules = [name for name, path in paths.items() if path.is_dir() or path.with_suffix(".py").exists()]
            found |= {f"{node.module}.{name}" for name in modules} or {node.module}
    return found


def rooms_of(path, package):
    """The rooms of `package` that a file imports, but its own; a module that lies loose is its own room."""
    own = path.relative_to(ROOT).with_suffix("").parts[1] if path.is_relative_to(ROOT / package) else ""
    return {[*name.split("."), package][1] for name in modules_in_package(path, package)} - {own, package}


def modules_in(*folders):
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return [path for path in paths if path != COPIED and path.parent != EXERCISES]


EVERY_MODULE = modules_in(COMMON, REPORTS, *IMPLEMENTATIONS)


@cache
def imports_of(source, package):
    """Top-level names of everything that the source imports anywhere, in functions and by name at run time too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(package if node.level else node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            found |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
    return {name.partition(".")[0] for name in found}


def doings_of(source):
    """What the source does when it is imported, beside definitions and the one documented line."""
    return [ast.unparse(node) for node in ast.parse(source).body if not _is_definition(node)]


def _is_definition(node):
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return True
    if isinstance(node, ast.Assign):
        names = [name for target in node.targets for name in (target.elts if hasattr(target, "elts") else [target])]
        return all(isinstance(name, ast.Name) for name in names)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING")
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or ast.unparse(node) in PATH_LINES


def run_apart(*words):
    """What a Python of its own ends with, and prints."""
    result = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


def test_the_folders_are_where_these_tests_look_for_them():
    declared = {strategy.script.partition("/")[0] for strategy in catalogue.strategies().values()}
    assert {path.name for path in IMPLEMENTATIONS} == declared
    assert all(modules_in(path) for path in (COMMON, REPORTS, *IMPLEMENTATIONS))


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_a_folder_imports_no_framework_of_others_and_nothing_of_ours_that_it_may_not(folder):
    found = {path: imports_of(path.read_text(), folder) & FORBIDDEN[folder] for path in modules_in(ROOT / folder)}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_is_copied_elsewhere_imports_one_framework_and_nothing_of_ours():
    assert imports_of(COPIED.read_text(), "common") - sys.stdlib_module_names == {"torch", "safetensors"}
    assert doings_of(COPIED.read_text()) == []
    assert not any("common.check.watch" in modules_in_package(path) for path in EVERY_MODULE)


def test_a_process_of_horovod_imports_the_model_of_one_framework_alone():
    for path in [path for path in modules_in(ROOT / "horovod_impl") if path.stem != "strategies"]:
        modules = [modules_in_package(path, neighbour) for neighbour in NEIGHBOURS["horovod_impl"]]
        assert {name.split(".")[1] for names in modules for name in names} <= LENT, path
        assert not all(modules), path


def test_rooms_import_only_those_below_them():
    wrong = {path: rooms_of(path, "reports") for path in modules_in(*(REPORTS / room for room in ROOMS_OF_REPORTS))}
    wrong = {path: rooms - ROOMS_OF_REPORTS[path.relative_to(REPORTS).parts[0]] for path, rooms in wrong.items()}
    wrong |= {path: rooms_of(path, "common") - MEASURED for path in modules_in(REPORTS)}
    for path in modules_in(COMMON):
        own = path.relative_to(COMMON).with_suffix("").parts[0]
        wrong[path] = rooms_of(path, "common") - ROOMS.get(own, set())
    assert {str(path): rooms for path, rooms in wrong.items() if rooms} == {}


def test_only_what_every_room_needs_lies_loose_in_common():
    assert {path.stem for path in COMMON.glob("*.py")} == {"__init__", *LOOSE}


def test_what_the_noxfile_needs_is_imported_by_a_python_without_any_package():
    modules = sorted(modules_in_package(ROOT / "noxfile.py"))
    program = (
        f"import importlib, sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"[importlib.import_module(name) for name in {modules}]; "
        "from common.declarations import catalogue; catalogue.strategies(); catalogue.libraries(); catalogue.ways()"
    )
    assert run_apart("-I", "-S", "-c", program) == (0, "", "")


def test_importing_all_of_common_prints_nothing_starts_no_thread_and_loads_no_framework():
    paths = [path.relative_to(ROOT).with_suffix("") for path in modules_in(COMMON) if path.stem != "__init__"]
    program = (
        f"import importlib, sys, threading; "
        f"[importlib.import_module(name) for name in {['.'.join(path.parts) for path in paths]}]; "
        f"assert not {FRAMEWORKS} & set(sys.modules); assert threading.active_count() == 1"
    )
    assert run_apart("-c", program) == (0, "", "")


def test_importing_a_module_of_ours_does_nothing_but_define():
    doings = {str(path.relative_to(ROOT)): doings_of(path.read_text()) for path in EVERY_MODULE}
    assert {path: found for path, found in doings.items() if found} == {}


def test_the_path_line_stands_only_where_a_script_is_started_and_only_once():
    for path in EVERY_MODULE:
        source = path.read_text()
        lines = sum(source.count(line) for line in PATH_LINES)
        assert source.count("sys.path") == lines <= 1, path
        assert not lines or 'if __name__ == "__main__":' in source, path


def test_no_module_of_ours_is_named_after_a_library():
    names = {path.stem for path in modules_in(REPORTS, *IMPLEMENTATIONS)} - {"__init__"}
    assert names & (FRAMEWORKS | set(sys.stdlib_module_names)) == set()


@pytest.mark.parametrize(
    ("source", "imported", "doings"),
    [
        ("import torch.nn as nn\nprint('hello')", {"torch"}, 1),
        ("def late():\n    from horovod import torch\nos.environ['A'] = 'b'", {"horovod"}, 1),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", {"torch"}, 1),
        ("import importlib\nif True:\n    importlib.import_module('keras.layers')", {"importlib", "keras"}, 1),
        ('from . import model\nA: int = 3\nB, C = 1, 2\n"""Of C."""\nclass D: pass', {"tf_impl"}, 0),
        ("\n".join([*PATH_LINES, 'if __name__ == "__main__":\n    f()']), set(), 0),
    ],
)
def test_imports_and_what_is_done_at_import_time_are_found_however_they_are_written(source, imported, doings):
    assert imports_of(source, "tf_impl") == imported
    assert len(doings_of(source)) == doings
