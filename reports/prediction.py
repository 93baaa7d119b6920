"""Make a PDF and an HTML page of a session's predictions: `python -m reports.prediction --results FOLDER`."""

from functools import partial
from pathlib import Path

import tyro

from common.errors import UserError, exit_with_one_line
from common.records.files import read_record
from common.records.prediction import Predictions, predictions_path
from reports.blocks import Drawings
from reports.render import shell
from reports.words import prediction


def compose(predictions: Predictions) -> tuple[dict[str, object], Drawings]:
    """What the document says, in blocks, and how its figures are drawn."""
    is_held = predictions.scores or predictions.oversubscribed_scores
    own = prediction.verification(predictions) if is_held else prediction.answers(predictions)
    parts = [prediction.headline(predictions), *own, *prediction.assumptions(predictions)]
    return shell.compose("Before you scale out", [predictions.predicted_at], parts)


def write_report(results: Path, out: Path = Path("reports/out/prediction.pdf")) -> None:
    """Make a typeset PDF of a session's predictions, and beside it an HTML page.

    Args:
        results: Folder of the session.
        out: The PDF to write.
    """
    path = predictions_path(results)
    if not path.exists():
        raise UserError(f"{results} has no predictions: name another --results.")
    predictions = read_record(path, Predictions)
    shell.ensure_ready(out)
    shell.write(out, [predictions.predicted_at], *compose(predictions))
    print(f"{out} and {shell.page_beside(out)}: {len(predictions.predicted)} predictions")


if __name__ == "__main__":
    exit_with_one_line(partial(tyro.cli, write_report, description=__doc__))
