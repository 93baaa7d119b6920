"""common/laboratory/predict.py: what it reads, what it holds out, and what it refuses."""

import dataclasses
import importlib.util
import subprocess
from functools import partial

import pytest
from msgspec import structs

from common.errors import UserError
from common.laboratory import predict
from common.laboratory.predict import EXPERIMENT, HELD, SWEEPS, Scope, drawn, fitted_to, launch_of, stages
from common.launching.planned import Hosts
from common.measurement import machine
from common.prediction import forecast
from common.prediction.measured import Scenario, measured
from common.records.files import read_record, write_record
from common.records.prediction import Predictions, predictions_path
from common.sessions import experiment
from common.sessions.folder import FINISHED
from tests.common.laboratory import collective_records
from tests.common.laboratory.collective_records import taking
from tests.launching import left_by

PREDICTION = partial(experiment.run, EXPERIMENT)


def record_of(workers, exchange=True, **changes):
    launch = launch_of(Scenario("torch_ddp", "pathway", 64, workers, workers), 1)
    launch = dataclasses.replace(launch, options=dataclasses.replace(launch.options, exchange=exchange))
    return left_by(launch, **{"host": machine.host_facts(), "git_commit": machine.git_commit()} | changes)


def write_comparison(results, **changes):
    """A comparison of one strategy with one worker and two, and its library's all-reduces, as newest sessions."""
    comparison, collectives = results / "20260101T000000-quick", results / "20260101T000001-collectives"
    for folder in (comparison, collectives):
        folder.mkdir(parents=True)
        (folder / FINISHED).touch()
    for number, (workers, exchange) in enumerate(((1, True), (2, True), (2, False))):
        write_record(comparison / f"{number}.json", record_of(workers, exchange, **changes))
    cells = [taking(0.001 + size * 1e-9, size) for size in (8, 4096, 2**20)]
    write_record(collectives / "gloo.json", collective_records.record(*cells, library="gloo"))
    return comparison


def test_the_newest_comparison_becomes_predictions_and_a_report(run_here, tmp_path, capsys):
    write_comparison(tmp_path)
    asked = ["--workers", "8", "64", "--over-hosts", "1", "8", "--bandwidth", "25Gbit", "--latency", "10us"]
    assert run_here(PREDICTION, tmp_path, *asked) == 0
    [folder] = tmp_path.glob("*-prediction")
    predictions = read_record(predictions_path(folder), Predictions)
    assert [(each.workers, each.hosts) for each in predictions.predicted] == [(8, 1), (64, 8)]
    links = [(each.bandwidth_bits_per_second, each.latency_seconds) for each in predictions.predicted]
    assert links == [(None, 0.0), (25e9, pytest.approx(1e-5))]
    assert predictions.sources == ["20260101T000000-quick", "20260101T000001-collectives"]
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    assert "torch_ddp" in capsys.readouterr().out


def test_the_plan_says_what_is_there_and_runs_nothing(run_here, tmp_path, capsys):
    write_comparison(tmp_path)
    run_here(PREDICTION, tmp_path, "--plan")
    said = capsys.readouterr().out
    assert "20260101T000000-quick" in said
    assert not [*tmp_path.glob("*-prediction")]
    run_here(PREDICTION, tmp_path / "elsewhere", "--plan")
    assert capsys.readouterr().out.count("none yet, so it is made first") == 2


def test_what_is_missing_is_made_first_by_the_session_that_measures_it(monkeypatch, run_here, tmp_path):
    write_comparison(tmp_path / "made")
    asked, start = [], subprocess.run

    def make(command, **given):
        if "-m" not in command:
            return start(command, **given)
        asked.append(command[2])
        assert importlib.util.find_spec(command[2])
        (tmp_path / "results").mkdir(exist_ok=True)
        kind = "collectives" if "collectives" in command[2] else "quick"
        [source] = (tmp_path / "made").glob(f"*-{kind}")
        return source.rename(tmp_path / "results" / source.name)

    monkeypatch.setattr(predict.subprocess, "run", make)
    monkeypatch.setattr(experiment, "report", lambda *_: 0)
    assert run_here(PREDICTION, tmp_path / "results", "--workers", "8") == 0
    assert asked == ["common.sessions.compare", "common.laboratory.collectives"]
    assert len([*(tmp_path / "results").glob("*-prediction")]) == 1


@pytest.mark.parametrize(
    ("changes", "strategy", "said"),
    [
        ({"git_commit": "0123456"}, "torch_ddp", "measured at commit 0123456"),
        ({"host": structs.replace(machine.host_facts(), processor="b")}, "torch_ddp", "measured on another machine"),
        ({}, "torch_fsdp", r"torch_fsdp isn't in .* with one worker and with two"),
    ],
)
def test_what_was_not_measured_here_by_this_commit_is_refused(run_here, tmp_path, changes, strategy, said):
    write_comparison(tmp_path, **changes)
    with pytest.raises(UserError, match=said):
        run_here(PREDICTION, tmp_path, "--strategies", strategy)


def test_models_are_fitted_to_one_worker_and_two_at_one_link():
    scope = Scope(strategies=("torch_ddp",))
    launches = [*fitted_to(scope, 1)]
    worlds = {(each.launch.workers, each.launch.bandwidth_bits_per_second) for each in launches if not each.folder}
    assert worlds == {(1, None), (2, None)}
    assert [each.launch.library.name for each in launches if each.folder == SWEEPS] == ["gloo"]


def test_what_is_held_out_is_drawn_from_the_digest():
    spread, names = Hosts(count=4, slots=1, cores=1, cores_together=2), ["torch_ddp", "horovod_torch"]
    scope = Scope(held_out=20, spread=spread)
    first, again, other = (drawn(scope, digest, names) for digest in ("ab", "ab", "cd"))
    assert first == again != other
    assert len(first) == 20
    assert {each.workers for each in first} <= {2, 4}
    assert all(each.oversubscribed == (each.workers == 4) for each in first)
    launches = [launch_of(each, 1) for each in first]
    assert {each.wire.latency_seconds for each in first} == {launch.delay_seconds for launch in launches} > {0.0}
    assert len({launch.name for launch in launches}) == len(first)


def test_predictions_are_kept_before_anything_that_they_hold_out_is_launched(tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "_PRESETS", ("pathway",))
    comparison = write_comparison(tmp_path)
    collectives = next(tmp_path.glob("*-collectives"))
    (comparison / SWEEPS).mkdir()
    (collectives / "gloo.json").rename(comparison / SWEEPS / "gloo.json")
    later = stages(Scope(strategies=("torch_ddp",), verify=True, repetitions=1, held_out=3), 0, comparison)
    assert next(later).name == "round"
    assert not predictions_path(comparison).exists()
    held = next(later)
    kept = read_record(predictions_path(comparison), Predictions)
    assert len(kept.predicted) == len(held.launches) == 3
    assert {each.folder for each in held.launches} == {HELD}
    assert [each.launch.repetition for each in next(later).launches] == [2, 2, 2]
    assert next(later, None) is None


def test_what_was_held_out_and_launched_scores_the_predictions(tmp_path):
    comparison = write_comparison(tmp_path)
    [collectives] = tmp_path.glob("*-collectives")
    collectives.rename(comparison / SWEEPS)
    asked = [Scenario("torch_ddp", "pathway", 64, 2, 1)]
    kept = forecast.predictions(measured(comparison, comparison / SWEEPS), asked, ["somewhere"])
    assert predict.scored(comparison, {}) == {}
    predict.keep(comparison, {predictions_path(comparison).name: kept})
    for number in (1, 2):
        write_record(comparison / HELD / f"{number}.json", record_of(2))
    [scored] = predict.scored(comparison, {}).values()
    [each] = scored.predicted
    # Not the one to which the model was fitted.
    assert len(each.measured_seconds) == scored.scores.launches == 2
    assert scored.oversubscribed_scores is None
