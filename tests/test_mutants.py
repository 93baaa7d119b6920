"""tests/mutants.py: the share of mutants killed, and survivors that nobody has given a reason for."""

import subprocess
import sys
import tomllib
from collections import Counter

import pytest

from common.declarations import catalogue
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
        ("a += b", "a = b", "assignment"),
        ("a += b", "a -= b", "arithmetic"),
        ("a - b ** c", "a - b * c", "arithmetic"),
        ("-a", "+a", "arithmetic"),
        ("not a", "a", "boolean"),
        ("a and b and c", "a and b or c", "boolean"),
        ("a if b > c else d", "a if (b > c) or True else d", "boolean"),
        ("a is b < 1", "a is not b < 1", "comparison"),
        ("a[:16]", "a[:17]", "number"),
        ('a.b("c")', 'a.b("C")', "text"),
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


def test_what_is_cached_is_computed_anew_in_every_test():
    before = catalogue.strategies()
    mutants.pytest_runtest_setup()
    assert catalogue.strategies() is not before


def of_status(status):
    return Mutant(SURVIVOR.function, SURVIVOR.kind, status, SURVIVOR.difference)


KNOWN_ONE = known_survivors({"It is as good.": {"common.files.locked": ["number"]}})


@pytest.mark.parametrize(
    ("mutants", "known", "is_good", "said"),
    [
        (
            [*KILLED, SURVIVOR],
            KNOWN_ONE,
            True,
            ["20 of 20 mutants tried: 17 killed, 1 survived, 2 timeout; 95.0 % killed, 90 % wanted."],
        ),
        (
            [*KILLED, SURVIVOR, SURVIVOR],
            KNOWN_ONE,
            False,
            ["More survive than mutants.toml lists: 1. Test them, or say there why not."],
        ),
        *[
            (
                [*KILLED, of_status(status), Mutant("common.files.other", "", "killed")],
                Counter([known]),
                False,
                [
                    f"{status}: common.files.locked: number\n-a[:1]\n+a[:2]",
                    f"listed, but no survivor: 1 of {known[0]}: {known[1]}",
                ],
            )
            for status in ("survived", "no tests", "segfault")
            for known in (("common.files.locked", "text"), ("common.files.other", "number"))
        ],
        ([*KILLED[:18], SURVIVOR, SURVIVOR], KNOWN_ONE + KNOWN_ONE, True, ["90.0 % killed, 90 % wanted."]),
        ([*KILLED[:17], SURVIVOR, SURVIVOR], KNOWN_ONE + KNOWN_ONE, False, ["89.5 % killed, 90 % wanted."]),
        (
            [*KILLED, of_status("not checked")],
            KNOWN_ONE,
            True,
            [
                "untried for want of time: 1 of common.files.locked",
                "19 of 20 mutants tried: 17 killed, 2 timeout; 100.0",
            ],
        ),
        ([of_status("not checked")], Counter(), False, ["0 of 1 mutants tried"]),
    ],
)
def test_survivors_that_are_not_listed_and_too_few_killed_fail(mutants, known, is_good, said):
    lines, holds = verdict(mutants, known, 0.9)
    assert holds == is_good
    assert all(any(each in line for line in lines) for each in said), lines
    assert (len(lines) == len(said)) or not is_good


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


def test_every_reason_in_the_list_is_a_sentence_and_every_function_exists_in_a_module_that_is_mutated():
    listed = tomllib.loads(KNOWN.read_text())
    assert listed
    assert all(reason[0].isupper() and reason.endswith(".") and by_name for reason, by_name in listed.items())
    known = {function for by_name in listed.values() for function in by_name}
    assert sorted(known - {function_of(name) for name in functions()}) == []


def test_every_path_of_the_configuration_exists_and_the_tests_of_every_mutated_module_run():
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    mutated, tests = configured["only_mutate"], configured["pytest_add_cli_args_test_selection"]
    paths = [*configured["source_paths"], *configured["also_copy"], *mutated, *tests]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    # A topic has the same name in each room of the reports.
    assert {path.rpartition("/test_")[2] for path in tests} >= {path.rpartition("/")[2] for path in mutated}
    assert {"common/records/certificate.py", "common/sessions/regression.py", "reports/tables/ranking.py"} <= {*mutated}
