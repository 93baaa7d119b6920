"""tests/mutants.py: the share of mutants killed, and survivors that nobody has given a reason for."""

import ast
import tomllib

import pytest

from common.paths import ROOT
from tests.mutants import KNOWN, Mutant, change_of, function_of, known_survivors, verdict

DIFFERENCE = """--- common/files.py
+++ common/files.py
@@ -1,5 +1,4 @@
 def locked(path):
-    with lock(
-        path, seconds=5):
+    with lock(path):
         yield
"""

SURVIVOR = Mutant("common.files.locked", "a -> b", "survived")
KILLED = [Mutant("common.files.locked", "", "killed")] * 17 + [Mutant("common.files.locked", "", "timeout")] * 2


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("zip(a, b, strict=True)", "zip(a, b, strict=False)", "strict=True -> strict=False"),
        ("zip(a, b, strict=True)", "zip(a, b, )", "strict=True ->"),
        ('rows.to_dict("records"):', 'rows.to_dict("RECORDS"):', "records -> RECORDS"),
        ("return p <= 0.05", "return p < 0.05", "<= -> <"),
        ("key[:16]", "key[:17]", "16 -> 17"),
    ],
)
def test_a_change_is_told_by_what_differs_so_that_its_line_can_be_reworded(before, after, change):
    assert change_of(f"--- a\n+++ b\n@@ -1 +1 @@\n def f():\n-    {before}\n+    {after}\n") == change


def test_a_change_of_several_lines_is_told_in_one():
    assert change_of(DIFFERENCE) == "path, seconds=5 -> path"


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("common.files.x_locked__mutmut_3", "common.files.locked"),
        ("common.files.x__fill__mutmut_12", "common.files._fill"),
        ("common.files.xǁLockǁtake__mutmut_1", "common.files.Lock.take"),
    ],
)
def test_a_mutant_is_told_by_its_function(name, function):
    assert function_of(name) == function


def test_survivors_that_are_listed_may_survive():
    known = known_survivors({"It is as good.": {"common.files.locked": ["a -> b"]}})
    assert verdict([*KILLED, SURVIVOR], known) == (
        ["20 mutants: 17 killed, 1 survived, 2 timeout; 95.0 % killed, 90 % wanted."],
        True,
    )


@pytest.mark.parametrize("status", ["survived", "no tests", "segfault"])
@pytest.mark.parametrize("known", [{("common.files.locked", "a -> c")}, {("common.files.other", "a -> b")}])
def test_whatever_is_neither_killed_nor_listed_fails(status, known):
    lines, is_good = verdict([*KILLED, Mutant("common.files.locked", "a -> b", status)], known)
    assert not is_good
    assert lines[0] == f"{status}: common.files.locked: a -> b"
    assert lines[1] == "Neither killed nor listed in mutants.toml: 1. Test them, or say there why not."
    assert lines[2].startswith("listed, but no survivor: common.files.")


def test_too_few_killed_fail_though_all_others_are_listed():
    known = {(SURVIVOR.function, SURVIVOR.change)}
    assert verdict([*KILLED[:18], *[SURVIVOR] * 2], known)[1]
    assert not verdict([*KILLED[:17], *[SURVIVOR] * 2], known)[1]


def test_a_listed_mutant_that_nobody_tried_is_not_missed():
    known = {(SURVIVOR.function, SURVIVOR.change)}
    lines, is_good = verdict([*KILLED, Mutant("common.files.locked", "", "not checked")], known)
    assert lines == ["19 mutants: 17 killed, 2 timeout; 100.0 % killed, 90 % wanted."]
    assert is_good


def test_a_run_that_tried_nothing_fails():
    assert not verdict([Mutant("common.files.locked", "", "not checked")], set())[1]


def test_every_reason_in_the_list_is_a_sentence():
    listed = tomllib.loads(KNOWN.read_text())
    assert listed
    assert all(reason[0].isupper() and reason.endswith(".") and by_name for reason, by_name in listed.items())


def test_every_path_of_the_configuration_exists():
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    names = ("source_paths", "only_mutate", "also_copy", "pytest_add_cli_args_test_selection")
    paths = [path for name in names for path in configured[name]]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert {
        "common/records/certificate.py",
        "common/sessions/regression.py",
        "reports/tables/certificate.py",
        "reports/tables/ranking.py",
    } <= {*paths}


def test_the_tests_of_every_mutated_module_run():
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    # A topic has the same name in each room of the reports.
    modules = {path.rpartition("/")[2] for path in configured["only_mutate"]}
    assert {path.rpartition("/test_")[2] for path in configured["pytest_add_cli_args_test_selection"]} == modules


def test_every_function_of_the_list_exists_in_a_module_that_is_mutated():
    mutated = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]["only_mutate"]
    functions = set()
    for path in mutated:
        module = path.removesuffix(".py").replace("/", ".")
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ClassDef):
                functions |= {f"{module}.{node.name}.{each.name}" for each in node.body if hasattr(each, "name")}
            if isinstance(node, ast.FunctionDef):
                functions.add(f"{module}.{node.name}")
    listed = {function for by_name in tomllib.loads(KNOWN.read_text()).values() for function in by_name}
    assert sorted(listed - functions) == []
