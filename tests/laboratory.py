"""A launch of the laboratory, as a session makes it, for the tests of every library."""

import sys
from pathlib import Path

from common.contract.collective_meanings import Collective
from common.declarations.library import Library
from common.launching.launch import python_for
from common.records.collective_times import Cell, cells_path, read_lines
from common.records.files import from_json
from tests.conftest import run_command

CALLS = 3


def measured(
    library: Library, folder: Path, sizes: tuple[str, ...], workers: int = 2
) -> tuple[dict[str, object], list[Cell]]:
    """What a launch told of itself, and measured of every collective there is at these sizes, in `CALLS` calls."""
    python_for(library)
    record = folder / f"{library.name}.json"
    sweep = ["--sizes", *sizes, "--iterations", str(CALLS), "--warmup-iterations", "1", "--collectives", *Collective]
    command = [
        sys.executable,
        "-m",
        "common.launching.launch",
        library.name,
        "--workers",
        str(workers),
        *sweep,
    ]
    status, output = run_command([*command, "--record", str(record)])
    assert status == 0, output
    about, *lines = read_lines(cells_path(record))
    return about, [from_json(line, Cell) for line in lines if "collective" in line]
