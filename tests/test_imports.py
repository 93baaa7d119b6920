"""The direction of imports, whom modules name, and that importing one does nothing, read from the source."""

import ast
import sys
from functools import cache

import pytest

from common.declarations import catalogue
from common.paths import ROOT
from tests.conftest import run_command

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
def imports_of(source, package):
    """Full names of everything that the source imports anywhere, in functions and by name at run time too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{package if node.level else node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            found |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
    return found


def tops_of(path, package):
    """Top-level names of everything that a file of the package imports."""
    return {name.partition(".")[0] for name in imports_of(path.read_text(), package)}


def rooms_of(path, package):
    """The rooms of `package` that a file imports, but its own; a module that lies loose is its own room."""
    own = path.relative_to(ROOT).with_suffix("").parts[1] if path.is_relative_to(ROOT / package) else ""
    names = imports_of(path.read_text(), package)
    return {name.split(".")[1] for name in names if name.startswith(f"{package}.")} - {own}


def modules_in(*folders):
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return [path for path in paths if path != COPIED and path.parent != EXERCISES]


EVERY_MODULE = modules_in(COMMON, REPORTS, *IMPLEMENTATIONS)


def doings_of(source):
    """What the source does when it is imported, beside definitions and the one documented line."""
    return [ast.unparse(node) for node in ast.parse(source).body if not _is_definition(node)]


def _is_definition(node):
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return True
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each for target in targets for each in ast.walk(target)]
            return not any(isinstance(each, ast.Attribute | ast.Subscript) for each in names)
        case ast.If():
            return ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING")
        case ast.Expr(ast.Constant()):
            return True
    return ast.unparse(node) in PATH_LINES


def test_the_folders_are_where_these_tests_look_for_them():
    declared = {strategy.script.partition("/")[0] for strategy in catalogue.strategies().values()}
    assert {path.name for path in IMPLEMENTATIONS} == declared
    assert all(modules_in(path) for path in (COMMON, REPORTS, *IMPLEMENTATIONS))


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_a_folder_imports_no_framework_of_others_and_nothing_of_ours_that_it_may_not(folder):
    found = {path: tops_of(path, folder) & FORBIDDEN[folder] for path in modules_in(ROOT / folder)}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_is_copied_elsewhere_imports_one_framework_and_nothing_of_ours():
    assert tops_of(COPIED, "common") - sys.stdlib_module_names == {"torch", "safetensors"}
    assert doings_of(COPIED.read_text()) == []
    assert not any("common.check.watch" in name for path in EVERY_MODULE for name in imports_of(path.read_text(), ""))


def test_a_process_of_horovod_imports_the_model_of_one_framework_alone():
    for path in [path for path in modules_in(ROOT / "horovod_impl") if path.stem != "strategies"]:
        modules = [rooms_of(path, neighbour) for neighbour in NEIGHBOURS["horovod_impl"]]
        assert set().union(*modules) <= LENT, path
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
    imports = [node for node in ast.parse((ROOT / "noxfile.py").read_text()).body if isinstance(node, ast.ImportFrom)]
    ours = [ast.unparse(node) for node in imports if node.module.partition(".")[0] in OURS]
    assert "from common.declarations import catalogue" in ours
    begin = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    program = "\n".join([begin, *ours, "catalogue.strategies(); catalogue.libraries(); catalogue.ways()"])
    assert run_command([sys.executable, "-I", "-S", "-c", program]) == (0, "")


def test_importing_all_of_common_prints_nothing_starts_no_thread_and_loads_no_framework():
    paths = [path.relative_to(ROOT).with_suffix("") for path in modules_in(COMMON) if path.stem != "__init__"]
    program = (
        f"import importlib, sys, threading; "
        f"[importlib.import_module(name) for name in {['.'.join(path.parts) for path in paths]}]; "
        f"assert not {FRAMEWORKS} & set(sys.modules); assert threading.active_count() == 1"
    )
    assert run_command([sys.executable, "-c", program]) == (0, "")


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
        ("import torch.nn as nn\nprint('hello')", {"torch.nn"}, 1),
        ("def late():\n    from horovod import torch\nos.environ['A'] = 'b'", {"horovod.torch"}, 1),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", {"torch"}, 1),
        ("import importlib\nif True:\n    importlib.import_module('keras.layers')", {"importlib", "keras.layers"}, 1),
        ('from . import model\nA: int = 3\nB, C = 1, 2\n"""Of C."""\nclass D: pass', {"tf_impl.model"}, 0),
        ("\n".join([*PATH_LINES, 'if __name__ == "__main__":\n    f()']), set(), 0),
    ],
)
def test_imports_and_what_is_done_at_import_time_are_found_however_they_are_written(source, imported, doings):
    assert imports_of(source, "tf_impl") == imported
    assert len(doings_of(source)) == doings


def names_said_in(source, names):
    """The declared names that a module says, each with its line: in strings (docstrings too) and in identifiers."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        texts = [getattr(node, name, None) for name in ("id", "attr", "name", "arg", "module")]
        texts += [node.value] if isinstance(node, ast.Constant) else []
        text = " ".join(text for text in texts if isinstance(text, str))
        # The contract's formulas are PyTorch's. An array has the name of an environment in it.
        text = text.replace("PyTorch's", "").lower().replace("array", "")
        found |= {(getattr(node, "lineno", 0), name) for name in names if name in text}
    return found


@pytest.mark.parametrize("folder", [COMMON, REPORTS])
def test_a_folder_that_serves_every_framework_names_no_strategy_framework_environment_or_folder(folder):
    strategies = catalogue.strategies()
    folders = {strategy.script.partition("/")[0] for strategy in strategies.values()}
    names = {*strategies, *catalogue.families(), *folders, *(strategy.framework for strategy in strategies.values())}
    # What a user's own training imports speaks of that training's framework.
    paths = [path for path in modules_in(folder) if path != COMMON / "check" / "assignment.py"]
    said = {path: names_said_in(path.read_text(), names) for path in paths}
    assert {path: found for path, found in said.items() if found} == {}


@pytest.mark.parametrize(
    "source", ["def torch_loss(): pass", "import horovod_impl", "x = 'started by torchrun'", '"""tensorflow"""']
)
def test_a_name_is_found_however_it_is_said(source):
    assert names_said_in(source, {"torch", "tensorflow", "horovod_impl"})
