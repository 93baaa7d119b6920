"""tests/mutants.py: the share of mutants killed, and survivors that nobody has given a reason for."""

import subprocess
import sys
import tomllib

import pytest

from common.paths import ROOT
from tests import mutants
from tests.mutants import KNOWN, Mutant, changed_lines, function_of, functions, known_survivors, verdict

SURVIVOR = Mutant("common.files.locked", "survived", "-a[:1]\n+a[:2]")
KILLED = [Mutant("common.files.locked", "killed")] * 17 + [Mutant("common.files.locked", "timeout")] * 2
OTHER = Mutant("common.files.other", "killed")


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


def of_status(status):
    return Mutant(SURVIVOR.function, status, SURVIVOR.difference)


@pytest.mark.parametrize(
    ("mutants", "known", "is_good", "lines"),
    [
        (
            [*KILLED, SURVIVOR],
            1,
            True,
            ["20 of 20 mutants tried: 17 killed, 1 survived, 2 timeout; 95.0 % killed, 90 % wanted."],
        ),
        *(
            (
                [*KILLED, of_status(status), OTHER],
                0,
                False,
                [
                    f"{status}: common.files.locked\n-a[:1]\n+a[:2]",
                    "More survive than mutants.toml lists: 1. Test them, or say there why not.",
                    "21 of 21 mutants tried: ",
                ],
            )
            for status in ("survived", "no tests", "segfault")
        ),
        (KILLED, 1, True, ["listed, but no survivor: 1 of common.files.locked", "100.0 % killed, 90 % wanted."]),
        ([*KILLED[:18], SURVIVOR, SURVIVOR], 2, True, ["90.0 % killed, 90 % wanted."]),
        ([*KILLED[:17], SURVIVOR, SURVIVOR], 2, False, ["89.5 % killed, 90 % wanted."]),
        (
            [*KILLED, of_status("not checked")],
            1,
            True,
            [
                "untried for want of time: 1 of common.files.locked",
                "19 of 20 mutants tried: 17 killed, 2 timeout; 100.0",
            ],
        ),
        ([of_status("not checked")], 0, False, ["untried for want of time", "0 of 1 mutants tried"]),
    ],
)
def test_survivors_that_are_not_listed_and_too_few_killed_fail(mutants, known, is_good, lines):
    listed = known_survivors({"It is as good.": {SURVIVOR.function: known}, "That too.": {OTHER.function: 0}})
    found, holds = verdict(mutants, listed, 0.9)
    assert holds == is_good
    assert len(found) == len(lines)
    assert all(line in each for line, each in zip(lines, found, strict=True)), found


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
    monkeypatch.setattr(mutants, "tried", lambda: [Mutant("common.a.f", "killed"), Mutant("common.b.f", "killed")])
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
    assert {path.rpartition("/test_")[2] for path in tests} == {path.rpartition("/")[2] for path in mutated}
    assert {"common/records/certificate.py", "common/sessions/regression.py", "reports/tables/ranking.py"} <= {*mutated}
