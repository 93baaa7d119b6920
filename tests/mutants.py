"""What `nox -s mutants` runs: whether the tests notice enough of mutmut's mutants, and all others may be missed.

`mutants.toml` lists those that survive: below each reason, by function, the kinds of change that `kind_of` names, each
as often as it survives. It quotes no line, so that any can be reworded.
"""

import argparse
import ast
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.paths import ROOT

LEAST_KILLED = 0.95
KILLED = ("killed", "timeout")
UNTRIED = "not checked"
KNOWN = Path(__file__).with_suffix(".toml")
_KINDS: dict[str, tuple[type[ast.AST], ...]] = {
    "boolean": (ast.boolop, ast.BoolOp, ast.Not, ast.Invert),
    "comparison": (ast.cmpop,),
    "arithmetic": (ast.operator, ast.unaryop, ast.BinOp, ast.UnaryOp),
    "assignment": (ast.AugAssign,),
    "argument left out": (ast.Call,),
    "name": (ast.Attribute, ast.Name, ast.keyword),
    "jump": (ast.Break, ast.Continue),
    "case": (ast.Match,),
}
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A mutant and what became of it."""

    function: str
    """With its module, such as `common.contract.model.train`."""
    kind: str
    status: str
    """In mutmut's words."""
    difference: str = ""


def pytest_runtest_setup() -> None:
    """Empty the caches of functions before each test, since what they keep was computed without the mutant."""
    modules = [module for name, module in sys.modules.items() if name.startswith(("common.", "reports.", "tests."))]
    for value in [value for module in modules for value in vars(module).values()]:
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def functions() -> dict[str, tuple[str, range]]:
    """File and lines of each function that is mutated, by mutmut's name for it, such as `common.files.x_locked`."""
    found = {}
    for path in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]["only_mutate"]:
        for node in ast.parse((ROOT / path).read_text()).body:
            prefix = path.removesuffix(".py").replace("/", ".")
            prefix += f".xǁ{node.name}ǁ" if isinstance(node, ast.ClassDef) else ".x_"
            for each in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(each, ast.FunctionDef):
                    found[prefix + each.name] = path, range(each.lineno, (each.end_lineno or each.lineno) + 1)
    return found


def changed_lines(path: str, commit: str) -> set[int]:
    """The lines of a file that differ from those of a commit; of lines that are gone, the one above.

    Raises CalledProcessError if git knows no such commit.
    """
    command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", path]
    difference = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    hunks = [(int(line), int(count or 1)) for line, count in _HUNK.findall(difference)]
    return {each for line, count in hunks for each in range(line, line + max(count, 1))}


def tried() -> list[Mutant]:
    """Every mutant of the last run."""
    # In an environment of its own, which the test of this module does without.
    import libcst
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import read_functions_from_index
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    found = []
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        for name, exit_code in data.exit_code_by_key.items():
            status = status_by_exit_code[exit_code]
            kind = difference = ""
            if status not in (*KILLED, UNTRIED):
                before, after = (libcst.Module([each]).code for each in read_functions_from_index(name, path) or ())
                kind = kind_of(before, after)
                unified = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0)
                difference = "\n".join(line for line in unified if not line.startswith(("---", "+++", "@@")))
            found.append(Mutant(function_of(name), kind, status, difference))
    return found


def function_of(name: str) -> str:
    """The function that a mutant's name, such as `common.files.x_locked__mutmut_3`, stands for."""
    module, _, mangled = name.partition("__mutmut_")[0].rpartition(".")
    return f"{module}.{mangled.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"


def kind_of(before: str, after: str) -> str:
    """The kind of change between two texts of a function, by the smallest parts of their syntax that differ."""
    parts: tuple[ast.AST, ast.AST] = (ast.parse(before), ast.parse(after))
    differing = [parts]
    while len(differing) == 1:
        parts = differing[0]
        children = [list(ast.iter_child_nodes(each)) for each in parts]
        is_alike = type(parts[0]) is type(parts[1]) and len(children[0]) == len(children[1])
        pairs = zip(*children, strict=True) if is_alike else ()
        differing = [pair for pair in pairs if ast.dump(pair[0]) != ast.dump(pair[1])]
    constants = [each.value for each in parts if isinstance(each, ast.Constant)]
    if None in constants:
        return "None"
    if isinstance(parts[1], ast.BoolOp):
        return "boolean"
    if len(constants) == 2:
        return {bool: "boolean", str: "text"}.get(type(constants[0]), "number")
    # What a sign or `not` is taken from is told by that sign.
    first = parts[0].op if isinstance(parts[0], ast.UnaryOp) else parts[0]
    return next((kind for kind, types in _KINDS.items() if isinstance(first, types)), "other")


def known_survivors(listed: dict[str, dict[str, list[str]]]) -> Counter[tuple[str, str]]:
    """How many mutants of each function and kind `mutants.toml` lists."""
    return Counter((name, kind) for by_name in listed.values() for name, kinds in by_name.items() for kind in kinds)


def verdict(made: Sequence[Mutant], known: Counter[tuple[str, str]], least: float) -> tuple[list[str], bool]:
    """What is to be said of the mutants, line by line, and whether they are killed or known as they should be."""
    mutants = [mutant for mutant in made if mutant.status != UNTRIED]
    untried = Counter(mutant.function for mutant in made if mutant.status == UNTRIED)
    counts = Counter(mutant.status for mutant in mutants)
    share = sum(counts[status] for status in KILLED) / len(mutants) if mutants else 0.0
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    survivors = [mutant for mutant in mutants if mutant.status not in KILLED]
    survived = Counter((mutant.function, mutant.kind) for mutant in survivors)
    unknown = survived - known
    lines = [
        f"{each.status}: {each.function}: {each.kind}\n{each.difference}"
        for each in survivors
        if (each.function, each.kind) in unknown
    ]
    if unknown:
        lines.append(f"More survive than {KNOWN.name} lists: {unknown.total()}. Test them, or say there why not.")
    names = {mutant.function for mutant in mutants} - {*untried}
    gone = Counter({key: count for key, count in known.items() if key[0] in names}) - survived
    lines += [f"listed, but no survivor: {count} of {name}: {kind}" for (name, kind), count in sorted(gone.items())]
    lines += [f"untried for want of time: {count} of {name}" for name, count in sorted(untried.items())]
    lines.append(
        f"{len(mutants)} of {len(made)} mutants tried: {said}; {100 * share:.1f} % killed, {100 * least:.0f} % wanted."
    )
    return lines, share >= least and not unknown


def run_mutmut(chosen: Sequence[str], minutes: float | None) -> int:
    """Try the mutants of the chosen functions, or of all; return mutmut's exit status, and 0 once time is over."""
    # What it found with other tests mutmut would still believe.
    shutil.rmtree("mutants", ignore_errors=True)
    # By the second pattern mutmut finds the tests of a function, without which it would run all once more.
    patterns = [pattern for name in chosen for pattern in (f"{name}__mutmut_*", f"*{name}")]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([Path(sys.executable).with_name("mutmut"), "run", *patterns], env=environment) as process:
        try:
            return process.wait(None if minutes is None else 60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return 0


def command_line() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = argparse.ArgumentParser("nox -s mutants --", description=main.__doc__)
    parser.add_argument("names", nargs="*", help="functions, modules or packages, such as common.statistics; else all")
    help_since = "only functions with lines that differ from this commit's (HEAD~1), in files that git knows"
    parser.add_argument("--since", metavar="COMMIT", nargs="?", const="HEAD~1", help=help_since)
    help_minutes = "stop after so many, and name what is left untried (10 with --since, else none)"
    parser.add_argument("--minutes", type=float, help=help_minutes)
    return parser


def main() -> int:
    """Change functions, see which changes the tests notice, and fail for those that neither notice nor are listed."""
    options = command_line().parse_args()
    places = functions()
    names = tuple(f"{name}." for name in options.names) or ("",)
    chosen = [mangled for mangled in places if f"{function_of(mangled)}.".startswith(names)]
    if options.since:
        try:
            lines = {path: changed_lines(path, options.since) for path in {places[each][0] for each in chosen}}
        except subprocess.CalledProcessError:
            command_line().error(f"git knows no commit {options.since}")
        chosen = [each for each in chosen if not lines[places[each][0]].isdisjoint(places[each][1])]
    if not chosen:
        print("No function that is mutated has such a name, or has changed.")
        return 0
    is_part = len(chosen) < len(places)
    status = run_mutmut(chosen if is_part else (), options.minutes or (10 if options.since else None))
    made = tried()
    asked_for = [mutant for mutant in made if mutant.function in {function_of(each) for each in chosen}]
    if made and not asked_for:
        print("mutmut makes no mutants of the functions that were named or have changed.")
        return 0
    if status:
        return status
    least = 0 if is_part else LEAST_KILLED
    lines, is_good = verdict(asked_for, known_survivors(tomllib.loads(KNOWN.read_text())), least)
    print("\n".join(lines))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
