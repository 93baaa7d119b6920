"""What `nox -s mutants` runs: whether the tests notice enough of mutmut's mutants, and all others may be missed.

`mutants.toml` lists those that survive: below each reason, by function, the kinds of change, as `strict=True ->
strict=False`. A kind has no more of a line than what differs, so that a line can be reworded.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

LEAST_KILLED = 0.9
KILLED = ("killed", "timeout")
_TOKEN = re.compile(r"\w+|[<>=!]=|\*\*|//|\s+|.")
KNOWN = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Mutant:
    """A mutant and what became of it."""

    function: str
    """With its module, such as `common.contract.model.train`."""
    change: str
    status: str
    """In mutmut's words."""


def tried() -> list[Mutant]:
    """Every mutant of the last run."""
    # In an environment of its own, which the test of this module does without.
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    found = []
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        for name, exit_code in data.exit_code_by_key.items():
            status = status_by_exit_code[exit_code]
            change = "" if status in KILLED else change_of(get_diff_for_mutant(name, path=path))
            found.append(Mutant(function_of(name), change, status))
    return found


def function_of(name: str) -> str:
    """The function that a mutant's name, such as `common.files.x_locked__mutmut_3`, stands for."""
    module, _, mangled = name.partition("__mutmut_")[0].rpartition(".")
    return f"{module}.{mangled.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"


def change_of(difference: str) -> str:
    """What differs in a unified difference, as `before -> after`: words and signs, with the keyword before them."""
    lines = [line for line in difference.splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        _TOKEN.findall(" ".join(line[1:].strip() for line in lines if line.startswith(sign))) for sign in "-+"
    )
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    if start > 1 and before[start - 1] == "=":
        start -= 2
    parts = ("".join(each[start : len(each) - end]).strip() for each in (before, after))
    return " -> ".join(parts).rstrip()


def _alike(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words both begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def known_survivors(listed: dict[str, dict[str, list[str]]]) -> set[tuple[str, str]]:
    """Function and kind of change of each mutant that `mutants.toml` lists."""
    return {(name, change) for by_name in listed.values() for name, changes in by_name.items() for change in changes}


def verdict(made: Sequence[Mutant], known: set[tuple[str, str]]) -> tuple[list[str], bool]:
    """What is to be said of the mutants, line by line, and whether they are killed or known as they should be."""
    mutants = [mutant for mutant in made if mutant.status != "not checked"]
    counts = Counter(mutant.status for mutant in mutants)
    share = sum(counts[status] for status in KILLED) / len(mutants) if mutants else 0.0
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    survivors = [mutant for mutant in mutants if mutant.status not in KILLED]
    unknown = [mutant for mutant in survivors if (mutant.function, mutant.change) not in known]
    lines = [f"{mutant.status}: {mutant.function}: {mutant.change}" for mutant in unknown]
    if unknown:
        lines.append(f"Neither killed nor listed in {KNOWN.name}: {len(unknown)}. Test them, or say there why not.")
    gone = known - {(mutant.function, mutant.change) for mutant in survivors} if len(mutants) == len(made) else ()
    lines += [f"listed, but no survivor: {name}: {change}" for name, change in sorted(gone)]
    lines.append(f"{len(mutants)} mutants: {said}; {100 * share:.1f} % killed, {100 * LEAST_KILLED:.0f} % wanted.")
    return lines, share >= LEAST_KILLED and not unknown


def main() -> int:
    """Run mutmut, on the mutants that are named or on all, and say what became of them."""
    if not sys.argv[1:]:
        # What it found with other tests mutmut would still believe.
        shutil.rmtree("mutants", ignore_errors=True)
    command = [str(Path(sys.executable).with_name("mutmut")), "run", *sys.argv[1:]]
    status = subprocess.run(command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}).returncode
    if status:
        return status
    lines, is_good = verdict(tried(), known_survivors(tomllib.loads(KNOWN.read_text())))
    print("\n".join(lines))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
