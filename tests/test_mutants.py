"""tests/mutants.py: the share of mutants killed, and survivors that nobody has given a reason for."""

import subprocess
import sys
import tomllib
from collections import Counter

import pytest

from common.paths import ROOT
from tests import mutants
from tests.mutants import KNOWN, Mutant, changed_lines, function_of, functions, kind_of, known_survivors, verdict

SURVIVOR = Mutant("common.files.locked", "number", "survived", "-a[:1]\n+a[:2]")
KILLED = [Mutant("common.files.locked", "", "killed")] * 17 + [Mutant("common.files.locked", "", "timeout")] * 2


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("zip(a, b, strict=True)", "zip(a, b, strict=False)", "boolean"),
        ("zip(a, b, strict=True)", "zip(a, b, )", "argument left out"),
        ("zip(a, b)", "zip(None, b)", "None"),
        ("dict(a=b)", "dict(aXX=b)", "name"),
        ("a = b", "a = None", "None"),
        ("a = None", 'a = ""', "None"),
        ("a += b", "a = b", "assignment"),
        ("a += b", "a -= b", "arithmetic"),
        ("a - b ** c", "a - b * c", "arithmetic"),
        ("a * b ** c", "a * b * c", "arithmetic"),
        ("-a", "+a", "arithmetic"),
        ("not a", "a", "boolean"),
        ("a and b and c", "a and b or c", "boolean"),
        ("a if b > c else d", "a if (b > c) or True else d", "boolean"),
        ("a is b < 1", "a is not b < 1", "comparison"),
        ("a[:16]", "a[:17]", "number"),
        ('a.b("c")', 'a.b("C")', "text"),
        ("a.lower()", "a.upper()", "name"),
        ("continue", "break", "jump"),
        ("match a:\n        case 1: pass\n        case _: b", "match a:\n        case 1: pass", "case"),
    ],
)
def test_a_kind_of_change_is_told_by_the_syntax_whatever_else_the_line_says(before, after, kind):
    assert kind_of(f"def f():\n    {before}\n", f"def f():\n\n    {after}  # Reworded.\n") == kind


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


def test_as_many_survivors_may_survive_as_are_listed():
    known = known_survivors({"It is as good.": {"common.files.locked": ["number"]}})
    said = "20 of 20 mutants tried: 17 killed, 1 survived, 2 timeout; 95.0 % killed, 90 % wanted."
    assert verdict([*KILLED, SURVIVOR], known, 0.9) == ([said], True)
    lines, is_good = verdict([*KILLED, SURVIVOR, SURVIVOR], known, 0.9)
    assert not is_good
    assert lines[2] == "More survive than mutants.toml lists: 1. Test them, or say there why not."


@pytest.mark.parametrize("status", ["survived", "no tests", "segfault"])
@pytest.mark.parametrize("known", [("common.files.locked", "text"), ("common.files.other", "number")])
def test_whatever_is_neither_killed_nor_listed_fails(status, known):
    mutant = Mutant(SURVIVOR.function, SURVIVOR.kind, status, SURVIVOR.difference)
    lines, is_good = verdict([*KILLED, mutant, Mutant("common.files.other", "", "killed")], Counter([known]), 0)
    assert not is_good
    assert lines[0] == f"{status}: common.files.locked: number\n-a[:1]\n+a[:2]"
    assert lines[2] == f"listed, but no survivor: 1 of {known[0]}: {known[1]}"


def test_too_few_killed_fail_though_all_others_are_listed():
    known = Counter([(SURVIVOR.function, SURVIVOR.kind)] * 2)
    assert verdict([*KILLED[:18], *[SURVIVOR] * 2], known, 0.9)[1]
    assert not verdict([*KILLED[:17], *[SURVIVOR] * 2], known, 0.9)[1]


def test_mutants_that_nobody_tried_are_named_and_not_missed():
    known = Counter([(SURVIVOR.function, SURVIVOR.kind)])
    assert verdict([*KILLED, Mutant("common.files.locked", "", "not checked")], known, 0.9) == (
        [
            "untried for want of time: 1 of common.files.locked",
            "19 of 20 mutants tried: 17 killed, 2 timeout; 100.0 % killed, 90 % wanted.",
        ],
        True,
    )


def test_a_run_of_everything_that_tried_nothing_fails():
    assert not verdict([Mutant("common.files.locked", "", "not checked")], Counter(), 0.9)[1]


def test_lines_have_changed_that_were_added_reworded_or_stood_below_what_is_left(tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "a.py").write_text("1\n2\n3\n4\n5\n6\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "a"], check=True)
    (tmp_path / "a.py").write_text("1\ntwo\n3\n5\n6\n7\n8\n")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    assert changed_lines("a.py", "HEAD") == {2, 3, 6, 7}


@pytest.mark.parametrize(
    ("arguments", "lines", "chosen", "minutes"),
    [
        ([], {}, [], None),
        (["common.a", "--minutes", "3"], {}, ["common.a.x_f", "common.a.xǁGǁh"], 3),
        (["common.a.f"], {}, ["common.a.x_f"], None),
        (["--since"], {"common/a.py": {4}, "common/b.py": {8}}, ["common.a.x_f"], 10),
        (["common.b", "--since", "abc"], {"common/b.py": {2}}, ["common.b.x_f"], 10),
    ],
)
def test_only_functions_are_tried_that_are_named_or_have_changed(monkeypatch, arguments, lines, chosen, minutes):
    ran = []
    places = {"common.a.x_f": ("common/a.py", range(3, 6)), "common.a.xǁGǁh": ("common/a.py", range(7, 9))}
    monkeypatch.setattr(mutants, "functions", lambda: places | {"common.b.x_f": ("common/b.py", range(1, 4))})
    monkeypatch.setattr(mutants, "changed_lines", lambda path, _: lines[path])
    monkeypatch.setattr(mutants, "run_mutmut", lambda names, minutes: ran.append((list(names), minutes)) or 0)
    monkeypatch.setattr(
        mutants, "tried", lambda: [Mutant("common.a.f", "", "killed"), Mutant("common.b.f", "", "killed")]
    )
    monkeypatch.setattr(sys, "argv", ["mutants", *arguments])
    assert mutants.main() == 0
    assert ran == [(chosen, minutes)]


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
    listed = {function for by_name in tomllib.loads(KNOWN.read_text()).values() for function in by_name}
    assert sorted(listed - {function_of(name) for name in functions()}) == []
