"""tests/mutants.py: the share of mutants killed, and survivors that nobody has given a reason for."""

import sys
import tomllib
from collections import Counter

import pytest

from common.declarations import catalogue
from common.paths import ROOT
from tests import mutants
from tests.common.conftest import commit, git
from tests.mutants import (
    KNOWN,
    UNTRIED,
    Mutant,
    changed_lines,
    function_of,
    functions,
    kind_of,
    known_survivors,
    verdict,
)

KILLED = [Mutant("common.files.locked", "", "killed")] * 17 + [Mutant("common.files.locked", "", "timeout")] * 2


def of_status(status):
    return Mutant("common.files.locked", "number", status, "-a[:1]\n+a[:2]")


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


LISTED = known_survivors({"It is as good.": {"common.files.locked": ["number"]}})


@pytest.mark.parametrize(
    ("killed", "statuses", "known", "is_good", "said"),
    [
        (
            19,
            ["survived"],
            LISTED,
            True,
            ["20 of 20 mutants tried: 17 killed, 1 survived, 2 timeout; 95.0 % killed, 90"],
        ),
        (19, ["survived"] * 2, LISTED, False, ["More survive than mutants.toml lists: 1. Test them, or say there why"]),
        (18, ["survived"] * 2, LISTED + LISTED, True, ["90.0 % killed, 90 % wanted."]),
        (17, ["survived"] * 2, LISTED + LISTED, False, ["89.5 % killed, 90 % wanted."]),
        (
            19,
            [UNTRIED],
            LISTED,
            True,
            ["untried for want of time: 1 of common.files.locked", "19 of 20 mutants tried: 17"],
        ),
        (0, [UNTRIED], Counter(), False, ["0 of 1 mutants tried"]),
    ],
)
def test_survivors_that_are_not_listed_and_too_few_killed_fail(killed, statuses, known, is_good, said):
    lines, holds = verdict([*KILLED[:killed], *map(of_status, statuses)], known, 0.9)
    assert holds == is_good
    assert all(any(each in line for line in lines) for each in said), lines
    assert (len(lines) == len(said)) or not is_good


@pytest.mark.parametrize("status", ["survived", "no tests", "segfault"])
@pytest.mark.parametrize("listed", [("common.files.locked", "text"), ("common.files.other", "number")])
def test_a_mutant_of_another_function_or_kind_than_is_listed_is_shown_and_what_is_listed_is_named(status, listed):
    made = [*KILLED, of_status(status), Mutant("common.files.other", "", "killed")]
    lines, is_good = verdict(made, Counter([listed]), 0.9)
    assert not is_good
    assert f"{status}: common.files.locked: number\n-a[:1]\n+a[:2]" in lines
    assert f"listed, but no survivor: 1 of {listed[0]}: {listed[1]}" in lines


def test_lines_have_changed_that_were_added_reworded_or_stood_below_what_is_left(tmp_path, monkeypatch):
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {"a.py": "1\n2\n3\n4\n5\n6\n"})
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
    monkeypatch.setattr(mutants, "tried", lambda: [Mutant(f"common.{each}.f", "", "killed") for each in "ab"])
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
