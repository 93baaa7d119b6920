"""The report of predictions: the answer, the parts of a step, and the scores."""

import pytest
from msgspec import structs

from common.errors import UserError
from common.prediction import forecast
from common.prediction.scores import baselines_of, score
from common.records.files import write_record
from common.records.prediction import predictions_path
from reports import blocks, prediction
from reports.charts import prediction as charts
from tests.common.prediction.made_up import configuration, make_measured
from tests.reports.drawings import words
from tests.reports.pieces import blanks_for_all

NAMES = ("torch_ddp", "tf_multi_worker_mirrored", "torch_lightning_ddp")


@pytest.fixture(scope="module")
def predictions():
    asked = [configuration(name, workers) for name in NAMES for workers in (4, 1024)]
    return forecast.predictions(make_measured(), asked, ["somewhere"])


@pytest.fixture(scope="module")
def held(predictions):
    four = [each for each in predictions.predicted if each.workers == 4]
    measured = [structs.replace(each, measured_seconds=[1.1 * each.seconds, each.seconds]) for each in four]
    return structs.replace(predictions, predicted=measured, scores=score(measured, baselines_of(make_measured())))


@pytest.fixture(scope="module")
def drawn(predictions):
    return charts.scaling_out(predictions.predicted).decode()


def blocks_of(content, kind):
    return [each for each in content["blocks"] if each["kind"] == kind]


def test_the_answer_is_one_sentence_that_says_what_is_extrapolated(predictions):
    [sentence] = blocks_of(prediction.compose(predictions)[0], "headline")
    assert sentence["text"].startswith("With 1024 workers ")
    assert sentence["text"].endswith("an extrapolation.")


def test_each_row_has_the_parts_of_the_step(predictions):
    [table] = blocks_of(prediction.compose(predictions)[0], "table")
    assert len(table["rows"]) == len(predictions.predicted)
    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    first = predictions.predicted[0]
    assert float(row["computing"]) == pytest.approx(1e3 * first.computing_seconds, rel=0.01)
    assert float(row["exchange"]) == pytest.approx(1e3 * first.exchange_seconds, rel=0.01)
    assert float(row["rest"]) == pytest.approx(1e3 * first.rest_seconds, rel=0.01)


def test_the_scores_stand_beside_baselines_and_noise(held):
    content, _ = prediction.compose(held)
    scores, *_ = blocks_of(content, "table")
    assert [row[0] for row in scores["rows"]] == [
        "the model",
        "nearest measured",
        "computing plus bytes over bandwidth",
        "Amdahl",
        "noise: one round predicts the other",
    ]
    assert scores["rows"][0][1] == "4.8 %"
    assert scores["rows"][-1][1] == "10.0 %"
    assert "3 configurations, 6 launches" in scores["notes"][0]
    # Launches that take as long as predicted are within, those that take 1.1 times as long aren't. The interval of
    # three of six is in tables.
    assert scores["notes"][1].endswith("95 % bands 3 of 6 (50 %, 12 % to 88 %).")


def test_each_strategy_has_its_errors_and_each_configuration_its_link(held):
    slower = structs.replace(held.predicted[0], measured_seconds=[2 * held.predicted[0].seconds], latency_seconds=0.002)
    shaped = structs.replace(held.predicted[1], bandwidth_bits_per_second=25e6, latency_seconds=0.01)
    changed = structs.replace(held, predicted=[slower, shaped, *held.predicted[2:]])
    _, by_strategy, listed = blocks_of(prediction.compose(changed)[0], "table")
    assert by_strategy["rows"][0] == ["torch_ddp", "1", "50.0 %", "50.0 %", "\N{MINUS SIGN}50.0 %"]
    assert len(by_strategy["rows"]) == 3
    assert [row[4] for row in listed["rows"]] == ["2 ms delay", "25 Mbit/s, 10 ms delay", "no limit"]


def test_assumptions_and_the_digest_of_the_models_are_listed(predictions):
    [listed] = blocks_of(prediction.compose(predictions)[0], "items")
    assert any("NVLink" in each for each in listed["items"])
    assert any(predictions.digest[:16] in each for each in listed["items"])


def test_figures_have_every_strategy(drawn, held):
    for svg in (drawn, charts.held_out(held.predicted).decode()):
        assert {*NAMES} <= {*words(svg)}


def test_the_panels_have_the_step_the_rate_and_the_efficiency_of_each_prediction(predictions, drawn):
    for each in predictions.predicted:
        shown = {
            "milliseconds of a step": 1e3 * each.seconds,
            "samples per second": each.samples_per_second,
            "a worker's rate, in % of one alone": 100 * each.efficiency,
        }
        for title, value in shown.items():
            assert f"workers: {each.workers}&#10;{title}: {blocks.number(value)}" in drawn


def test_pdf_and_page_are_written_from_the_folder(tmp_path, held, monkeypatch):
    monkeypatch.setattr("reports.render.shell.draw_all", blanks_for_all)
    write_record(predictions_path(tmp_path), held)
    prediction.write_report(tmp_path, tmp_path / "out" / "prediction.pdf")
    assert (tmp_path / "out" / "prediction.pdf").read_bytes().startswith(b"%PDF")
    assert "Predictions held to launches" in (tmp_path / "out" / "prediction.html").read_text()


def test_a_folder_without_predictions_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no predictions"):
        prediction.write_report(tmp_path, tmp_path / "prediction.pdf")
