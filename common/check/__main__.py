"""Referee trainings of one's own: start each file with several numbers of workers, and read what its updates were.

To start it: `nox -s check -- my_training.py`, or with a folder of files. The exit status is 0 where all are right.
"""

import dataclasses
import itertools
import math
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import tyro

from common.check.marks import Assignment, Mark, mark
from common.check.training_file import files_in
from common.declarations import catalogue
from common.errors import exit_with_one_line
from common.files import ensure_writable, write_atomically
from common.launching.executor import run_planned
from common.launching.planned import PlannedLaunch
from common.observations import table
from common.observations.display import Display, Measure, Observed, Table
from common.observations.numbers import DASH, fixed, number
from common.records import manifest, metrics
from common.sessions.experiment import print_table
from common.sessions.session import console_for, report

MARKS = "marks.csv"

MEANINGS = {
    "shares": "how often each worker's mean gradient counted in worker 0's weights, the median over tensors and steps; "
    "1 over their number is right",
    "residual": "the largest share of an update that the right counts leave",
    "ours": "samples/s of this suite's strategy of the same kind",
    "bytes": "sent by all workers in a step, over 2 (N - 1) times those of the gradients",
}

METHOD = [
    "The file got initial weights, rows and SGD's options by a socket, and reported its weights after each step. From "
    "the weights before and after a step, and each worker's gradient at them in float64, least squares tells how often "
    "each gradient counted.",
    "Read were the first updates, and others that were drawn when training was over. Time and bytes were taken from "
    "outside, one launch each: no interval.",
]


@dataclass(frozen=True)
class Arguments:
    """The command line."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Python files of one's own, or folders of some."""
    assignment: tyro.conf.OmitArgPrefixes[Assignment] = field(default_factory=Assignment)
    beside: bool = True
    """Also measure this suite's strategy of the same kind, once for each number of workers."""
    results: Path = Path("results")
    """Folder for the folder of this check: marks, logs and pages' tables."""
    out: Path = Path("reports/out/check.pdf")
    """The PDF to write; beside it stand its HTML page, and one for each file of a folder."""


def main() -> None:
    """Mark the files that the command line names. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    files, assignment = files_in(arguments.files), arguments.assignment
    assignment.task()
    ensure_writable(arguments.out)
    folder = arguments.results / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-check"
    ensure_writable(folder / MARKS)
    marks: list[Mark] = []
    for path, workers in itertools.product(files, assignment.workers):
        marks.append(mark(path, workers, assignment, folder / f"{path.stem}-{workers}w.log"))
        verdict = " ".join([f"{marks[-1].verdict}.", *marks[-1].sentences])
        print(f"{path.name}, {workers} worker{'s' * (workers > 1)}: {verdict}", flush=True)
    if arguments.beside:
        references = dict.fromkeys((each.like, each.workers) for each in marks if each.verdict == "right")
        rates = {each: _rate(*each, assignment, folder) for each in references}
        marks = [dataclasses.replace(each, beside=rates.get((each.like, each.workers), math.nan)) for each in marks]
    sys.exit(_conclude(folder, marks, arguments.out))


def _rate(like: str, workers: int, assignment: Assignment, folder: Path) -> float:
    """Samples per second of this suite's strategy, in one launch of the same task; NaN where it has none."""
    task, strategy = dataclasses.replace(assignment.task(), workers=workers), catalogue.find(like)
    planned = PlannedLaunch(strategy, workers, "throughput", 1, task, strategy.options())
    record = run_planned(planned, folder)
    manifest.note(folder, manifest.files_of(folder, planned.name))
    return metrics.throughput(record).samples_per_second if record.status == "ok" else math.nan


def _conclude(folder: Path, marks: list[Mark], out: Path) -> int:
    """Print the table of marks, keep it, and write the pages; returns the exit status."""
    rows = pd.DataFrame([_row(each) for each in marks])
    write_atomically(folder / MARKS, rows.to_csv(index=False).encode())
    by_file = {name: [each for each in marks if each.file == name] for name in dict.fromkeys(rows["file"])}
    answers = {name: _answer(name, own) for name, own in by_file.items()}
    right = sum(all(each.verdict == "right" for each in own) for own in by_file.values())
    answer = f"{right} of {len(by_file)} files are right." if len(by_file) > 1 else answers[marks[0].file]
    _keep(folder, "Trainings, refereed", answer, marks)
    if len(by_file) > 1:
        for name, own in by_file.items():
            _keep(folder / Path(name).stem, name, answers[name], own)
    console = console_for(200)
    print_table(console, _marks(marks))
    console.print(answer, highlight=False)
    return report("reports.experiment", folder, out) or int(right < len(by_file))


def _answer(name: str, marks: list[Mark]) -> str:
    """What came of a file, with the first mistake."""
    wrong = [each for each in marks if each.verdict != "right"]
    worlds = [str(each.workers) for each in wrong or marks]
    mistake = f": {wrong[0].sentences[0]}" if wrong else "."
    workers = f"{' and '.join(worlds)} worker{'s' * (worlds != ['1'])}"
    return f"{name} is {'not ' * bool(wrong)}right with {workers}{mistake}"


def _keep(folder: Path, title: str, answer: str, marks: list[Mark]) -> None:
    """Keep in the folder what a page shows of these marks."""
    rows = [[each.file, str(each.workers), sentence] for each in marks for sentence in each.sentences]
    mistakes = [Table(title="What is wrong", columns=["file", "workers", "mistake"], rows=rows)] if rows else []
    display = Display(
        title=title,
        made_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        answer=answer,
        contender="file",
        series=[],
        measures=[Measure(name="none", label="none")],
        method=METHOD,
        tables=[_marks(marks), *mistakes, _tensors(marks)],
    )
    observed, missing = table.tables(())
    Observed(observed, missing, display).write(folder)


def _row(mark: Mark) -> dict[str, object]:
    """A row of the CSV file."""
    return {
        "file": mark.file,
        "workers": mark.workers,
        "mark": mark.verdict,
        "shares": " ".join(f"{share:.4f}" for share in mark.shares),
        **{name: getattr(mark, name) for name in ("velocity", "decay", "residual", "samples_per_second", "beside")},
        **{name: getattr(mark, name) for name in ("bytes_per_step", "formula_bytes_per_step")},
        "sentences": " ".join(mark.sentences),
    }


def _marks(marks: list[Mark]) -> Table:
    """The table of marks: a row for each launch."""
    rows = [
        [each.file, str(each.workers), each.verdict, " ".join(fixed(share, 4) for share in each.shares) or DASH]
        + [DASH if math.isnan(value) else fixed(value, 4) for value in (each.velocity, each.decay)]
        + [DASH if math.isnan(each.residual) else f"{each.residual:.0e}"]
        + [number(each.samples_per_second), number(each.beside)]
        + [number(each.bytes_per_step / each.formula_bytes_per_step if each.formula_bytes_per_step else math.nan)]
        for each in marks
    ]
    columns = ["file", "workers", "mark", "shares", "velocity", "decay", "residual", "samples/s", "ours", "bytes"]
    return Table(title="Marks", columns=columns, rows=rows, meanings=MEANINGS, is_printed=True, kept_in=MARKS)


def _tensors(marks: list[Mark]) -> Table:
    """Every tensor whose update was read."""
    rows = [
        [mark.file, str(mark.workers), str(step.step), str(step.replica), name]
        + [" ".join(f"{share.value:.4f}" if share else DASH for share in tensor.shares)]
        + [DASH if each is None else f"{each.value:.4f}" for each in (tensor.velocity, tensor.decay)]
        + [f"{tensor.declared:.1e}", f"{tensor.residual:.1e}", f"{tensor.floor:.1e}"]
        for mark in marks
        if mark.reading
        for step in mark.reading.steps
        for name, tensor in step.tensors.items()
    ]
    columns = ["file", "workers", "step", "replica", "tensor", "shares", "velocity", "decay"]
    columns += ["residual", "unexplained", "by rounding"]
    meanings = {"unexplained": "what no sum of the gradients explains", "by rounding": "what rounding explains of that"}
    return Table(title="Every update that was read", columns=columns, rows=rows, meanings=meanings)


if __name__ == "__main__":
    exit_with_one_line(main)
