"""Referee trainings of one's own: start each file with several numbers of workers, and read what its updates were.

To start it: `nox -s check -- my_training.py`, or with a folder of files, or with `--evidence` of watched steps. The
exit status is 0 where all are right.
"""

import dataclasses
import itertools
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import tyro

from common.check.marks import Mark, mark, mark_evidence
from common.check.training_file import files_in
from common.check.world import Assignment
from common.declarations import catalogue
from common.errors import UserError, exit_with_one_line
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
    "shares": "how often each batch's mean gradient counted in worker 0's weights, the median over tensors and steps; "
    "1 over their number is right, and of watched batches n/T: their n of all T rows or tokens",
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

METHOD_OF_EVIDENCE = [
    "What the optimizer got stands in its first moment, or in the weights, before and after a step. The gradient of "
    "each batch was taken anew at the weights that were kept, in float64. Least squares tells how often each counted."
]


@dataclass(frozen=True)
class Arguments:
    """The command line."""

    files: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Python files of one's own, or folders of some."""
    evidence: Path | None = None
    """In place of files the folder in which common/check/watch.py kept some steps of a training."""
    model: str = ""
    """Of that training, MODULE:FUNCTION that builds the model, before anything distributed wraps it."""
    loss: str = ""
    """And MODULE:FUNCTION of the model and a batch that returns the mean loss of the batch's rows or tokens."""
    assignment: tyro.conf.OmitArgPrefixes[Assignment] = field(default_factory=Assignment)
    beside: bool = True
    """Also measure this suite's strategy of the same kind, once for each number of workers."""
    results: Path = Path("results")
    """Folder for the folder of this check: marks, logs and pages' tables."""
    out: Path = Path("reports/out/check.pdf")
    """The PDF to write; beside it stand its HTML page, and one for each file of a folder."""
    picture: Path | None = None
    """Also draw what the terminal shows, as SVG, to this file."""


def main() -> None:
    """Mark what the command line names. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    folder = arguments.results / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-check"
    for path in filter(None, (arguments.out, folder / MARKS, arguments.picture)):
        ensure_writable(path)
    console = console_for(200 if arguments.picture is None else 122)
    console.record = arguments.picture is not None
    marks: list[Mark] = []
    for each in _launched(arguments, folder):
        marks.append(each)
        verdict = " ".join([f"{each.verdict}.", *each.sentences])
        workers = f"{each.workers} worker{'s' * (each.workers > 1)}"
        console.print(f"{each.file}, {workers}: {verdict}", highlight=False, soft_wrap=not console.record)
    if arguments.beside:
        references = dict.fromkeys((each.like, each.workers) for each in marks if each.like and each.verdict == "right")
        rates = {each: _rate(*each, arguments.assignment, folder) for each in references}
        marks = [dataclasses.replace(each, beside=rates.get((each.like, each.workers), math.nan)) for each in marks]
    print_table(console, _marks(marks))
    by_file = {name: [each for each in marks if each.file == name] for name in dict.fromkeys(m.file for m in marks)}
    answers = {name: _answer(name, own) for name, own in by_file.items()}
    right = sum(all(each.verdict == "right" for each in own) for own in by_file.values())
    answer = f"{right} of {len(by_file)} files are right." if len(by_file) > 1 else answers[marks[0].file]
    console.print(answer, highlight=False)
    if arguments.picture:
        title = " ".join(["nox -s check --", *map(str, arguments.files)])
        svg = console.export_svg(title=title, unique_id="check")
        # A reader's own monospace font does; rich's would come from the net.
        write_atomically(arguments.picture, re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).encode())
    write_atomically(folder / MARKS, _frame(marks).to_csv(index=False).encode())
    method = METHOD_OF_EVIDENCE if arguments.evidence else METHOD
    _keep(folder, "Trainings, refereed", answer, marks, method)
    for name, own in by_file.items() if len(by_file) > 1 else ():
        _keep(folder / Path(name).stem, name, answers[name], own, method)
    sys.exit(report("reports.experiment", folder, arguments.out) or int(right < len(by_file)))


def _launched(arguments: Arguments, folder: Path) -> Iterator[Mark]:
    """Yield the mark of the evidence, or of each file with each number of workers."""
    if arguments.evidence:
        if arguments.files or not (arguments.model and arguments.loss):
            raise UserError("--evidence goes with --model and --loss, and without files: name all three.")
        yield mark_evidence(arguments.evidence, arguments.model, arguments.loss)
        return
    files, assignment = files_in(arguments.files), arguments.assignment
    assignment.task()
    for path, workers in itertools.product(files, assignment.workers):
        yield mark(path, workers, assignment, folder / f"{path.stem}-{workers}w.log")


def _rate(like: str, workers: int, assignment: Assignment, folder: Path) -> float:
    """Samples per second of this suite's strategy, in one launch of the same task; NaN where it has none."""
    task, strategy = dataclasses.replace(assignment.task(), workers=workers), catalogue.find(like)
    planned = PlannedLaunch(strategy, workers, "throughput", 1, task, strategy.options())
    record = run_planned(planned, folder)
    manifest.note(folder, manifest.files_of(folder, planned.name))
    return metrics.throughput(record).samples_per_second if record.status == "ok" else math.nan


def _answer(name: str, marks: list[Mark]) -> str:
    """What came of a file, with the first mistake."""
    wrong = [each for each in marks if each.verdict != "right"]
    worlds = [str(each.workers) for each in wrong or marks]
    mistake = f": {wrong[0].sentences[0]}" if wrong else "."
    workers = f"{' and '.join(worlds)} worker{'s' * (worlds != ['1'])}"
    return f"{name} is {'not ' * bool(wrong)}right with {workers}{mistake}"


def _keep(folder: Path, title: str, answer: str, marks: list[Mark], method: list[str]) -> None:
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
        method=method,
        tables=[_marks(marks), *mistakes, _tensors(marks)],
    )
    observed, missing = table.tables(())
    Observed(observed, missing, display).write(folder)


def _frame(marks: list[Mark]) -> pd.DataFrame:
    """What the CSV file has: a row for each launch."""
    frame = pd.DataFrame(marks).drop(columns=["like", "reading"]).rename(columns={"verdict": "mark"})
    frame["shares"] = [" ".join(f"{share:.4f}" for share in each.shares) for each in marks]
    frame["sentences"] = [" ".join(each.sentences) for each in marks]
    return frame


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
