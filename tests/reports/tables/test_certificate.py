"""The certificate: what follows the oracle, what doesn't, and what isn't held to it, in tables, words and curves."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from common.contract.oracle import LOSS_FLOOR
from reports.tables import certificate
from reports.words import certificate as words_certificate
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.pieces import cell, first, marks_of
from tests.reports.records import SMOOTH, make_record, mistaken, task_of, varied, write_weights


def test_what_its_updates_were_made_of_and_the_verdict_are_a_settings_row_and_without_exchange_another():
    records = [make_record(workers=2), make_record(workers=2)]
    both = material_of(*records, varied("amber_ring", 2, exchange=False)).certificates
    row, other = both.sort_values("n").to_dict("records")[::-1]
    assert (row["exchange"], row["verdict"], row["n"], row["updates"]) == (True, "follows", 2, 4)
    assert (row["least_share"], row["largest_share"], row["decay"]) == (0.5, 0.5, 0.0)
    assert (row["residual"], row["rounding"]) == (3e-6, pytest.approx(1 / 3))
    assert (other["exchange"], other["verdict"], other["n"]) == (False, "not compared", 1)
    [row] = material_of(records[0], mistaken(records[1])).certificates.to_dict("records")
    assert (row["verdict"], row["note"]) == ("deviates", "Summed, not averaged. Divide.")


def test_asynchronous_launches_show_their_loss_beside_the_oracles_and_their_staleness(tmp_path):
    write_weights(tmp_path / "w.safetensors", seed=3, batch=64, steps=60)
    write_weights(tmp_path / "worse.safetensors", seed=3, batch=64, steps=30)
    facts = {"examples_per_step": 64, "task": task_of(2, scaling="strong"), "staleness": [0, 1, 1, 7]}
    same = make_record("cobalt_servers", 2, checkpoint="w.safetensors", **facts)
    worse = make_record("cobalt_servers", 4, checkpoint="worse.safetensors", **facts)
    table = material_of(same, worse, folder=tmp_path).asynchronous
    assert abs(cell(table, "cobalt_servers", 2)["difference"]) < 1e-5
    assert cell(table, "cobalt_servers", 4)["difference"] > 0.05
    lost = {name: np.full_like(value, math.nan) for name, value in load_file(tmp_path / "w.safetensors").items()}
    save_file(lost, tmp_path / "lost.safetensors")
    [row] = material_of(changed(same, checkpoint="lost.safetensors"), folder=tmp_path).asynchronous.itertuples()
    assert row.difference == math.inf
    losses = table[["loss", "oracle_loss", "difference"]]
    assert losses["difference"].tolist() == (losses["loss"] / losses["oracle_loss"] - 1).tolist()
    alike = {"preset": "digits", "batch": 64, "seed": 3, "strategy": "cobalt_servers", "updates": 60, "note": ""}
    alike |= {"staleness": 1.0, "largest_staleness": 7}
    assert table.drop(columns=[*losses]).to_dict("records") == [alike | {"workers": workers} for workers in (2, 4)]


def test_only_asynchronous_launches_of_several_workers_with_weights_are_asked_how_they_trained(tmp_path):
    write_weights(tmp_path / "w.safetensors", seed=3, batch=64, steps=60)
    records = [
        make_record("cobalt_servers", 1, checkpoint="w.safetensors"),
        make_record("cobalt_servers", 2),
        make_record("amber_ring", 2, checkpoint="w.safetensors"),
        changed(varied("cobalt_servers", 2, exchange=False), checkpoint="w.safetensors"),
        make_record("cobalt_servers", 4, checkpoint="w.safetensors"),
    ]
    assert material_of(*records, folder=tmp_path).asynchronous["workers"].tolist() == [4]


@pytest.mark.filterwarnings("error")
def test_asynchronous_weights_that_are_gone_are_said_to_be(tmp_path):
    gone = make_record("cobalt_servers", 2, checkpoint="gone.safetensors")
    [row] = material_of(gone, folder=tmp_path).asynchronous.to_dict("records")
    assert all(math.isnan(row[name]) for name in ("loss", "staleness", "largest_staleness"))
    assert "gone.safetensors" in row["note"]


def test_a_loss_deviates_relative_to_the_oracles_or_to_a_floor_in_every_step_that_both_have():
    [comparison] = material_of(make_record()).beside_oracle
    losses, expected = np.array([1.5, 0.2 * LOSS_FLOOR, 9.0]), np.array([2.0, 0.1 * LOSS_FLOOR])
    comparison = dataclasses.replace(comparison, losses=losses, oracle_losses=expected)
    assert certificate.step_deviations(comparison) == pytest.approx([0.25, 0.1])


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([], ""),
        (["follows"], "Without exchange 1 of 1 compared settings follow their own recipes."),
        (
            ["follows", "deviates", "not compared"],
            "Without exchange 1 of 2 compared settings follow their own recipes. Not taken as T_comp, since it "
            "computes something else: strategy1 at 1 (digits).",
        ),
    ],
)
def test_what_launches_without_exchange_computed_is_said_in_words(verdicts, text):
    about = {"workers": 1, "preset": "digits", "exchange": False}
    rows = [about | {"strategy": f"strategy{place}", "verdict": verdict} for place, verdict in enumerate(verdicts)]
    summary = pd.DataFrame([*rows, about | {"exchange": True, "verdict": "follows"}])
    assert words_certificate.without_exchange(summary) == text


def test_other_maths_is_told_apart_in_words_with_its_options_and_largest_residual():
    rounded = [mistaken(varied("amber_ring", rounding="fp16")), varied("amber_single", half_precision=True)]
    assert words_certificate.sentence(material_of(make_record(), *rounded).certificates) == (
        "1 of 1 compared settings follow the float64 oracle. Other maths on purpose (half_precision, rounding): 2, "
        "with residuals up to 3.0e-1."
    )


def test_launches_without_exchange_that_compute_something_else_are_no_t_comp():
    with_exchange = [make_record("amber_ring", 2, (3.0 + index / 100,) * 3) for index in range(6)]
    without = [varied("amber_ring", 2, (2.0 + index / 100,) * 3, exchange=False) for index in range(6)]
    without[:3] = [changed(mistaken(record), recipe="OWN_SHARD") for record in without[:3]]
    material = material_of(*with_exchange, *without)
    [row] = material.exposed.to_dict("records")
    assert (row["step_n"], row["compute_n"], row["exposed_seconds_n"]) == (6, 3, 3)
    alone = [each.verdict for each in material.beside_oracle if not each.exchange]
    assert alone == ["deviates"] * 3 + ["not compared"] * 3


def lines(*records) -> list:
    """The courses in the figure; a mark says something."""
    figure = first(words_certificate.section(material_of(*records), 20), "figure")
    return [mark for mark in marks_of(figure["draw"]()) if mark.tip]


def test_of_a_strategy_and_workers_the_launch_that_deviates_most_is_drawn_thinned_to_its_largest_deviation(monkeypatch):
    losses = [*make_record(task=SMOOTH).losses]
    losses[31] *= 1.01
    worst = make_record(task=SMOOTH, losses=losses, shard_losses=[losses])
    records = [worst, make_record(task=SMOOTH), make_record(workers=2, task=SMOOTH)]
    assert [(mark.tip["workers"], len(mark.points)) for mark in lines(*records)] == [("1", 60), ("2", 60)]
    monkeypatch.setattr(words_certificate, "_MOST_STEPS", 20)
    thinned, _ = lines(*records)
    assert len(thinned.points) == 20
    [(step, deviation)] = [point for point in thinned.points if point[1] > 1e-3]
    assert (step, deviation) == (pytest.approx(30, abs=0.2), pytest.approx(0.01, rel=0.05))


def test_what_deviates_stands_first_and_of_many_rows_the_rest_is_in_the_table_of_all():
    good = [make_record(name) for name in ("amber_single", "amber_ring", "amber_library")]
    records = [*good, mistaken(make_record("teal_amber", 2))]
    blocks = words_certificate.section(material_of(*records), 2)
    table = first(blocks, "table")
    assert table["rows"][0][0] == "teal_amber"
    assert table["rows"][0][-1] == "deviates"
    assert table["notes"][0] == "teal_amber at 2: Summed, not averaged. Divide."
    assert table["notes"][-1] == "2 of 4 configurations; the table \u201ccertificates\u201d has all."
