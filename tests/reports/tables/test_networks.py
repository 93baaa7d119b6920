"""For which network it pays, against speed-ups and lines worked out by hand."""

import dataclasses
import math

import pytest

from common.contract import model
from common.contract.task import PRESETS
from common.records.training import Record
from reports.words import sweeps
from tests.reports.materials import material_of
from tests.reports.records import make_record

PAYS_FROM = 200.0
"""Operations per byte from which on the made-up strategy pays, with a contention of 1."""


def launches(preset: str, step: float, name: str = "amber_ring") -> list[Record]:
    """Six rounds of one worker of the base, whose step takes 10 ms, and of two workers that take `step` ms."""
    lengths = {"steps": 6, "warmup_steps": 2, "window_steps": 1}
    task = dataclasses.replace(PRESETS[preset], scaling="weak", **lengths)
    each = [(("amber_single"), 1, 10.0), (name, 2, step)]
    return [
        make_record(which, workers, (milliseconds,) * 4, task=dataclasses.replace(task, workers=workers))
        for _ in range(6)
        for which, workers, milliseconds in each
    ]


def on_the_line(preset: str) -> float:
    """Milliseconds of two workers' step that is c + k / x times the base's 10 ms, with c = 1 and k = PAYS_FROM."""
    task = PRESETS[preset]
    return 10 * (1 + PAYS_FROM / (model.operations(task) * task.batch / model.parameter_bytes(task)))


def test_a_strategy_on_a_line_pays_from_where_the_line_says_and_the_sentence_names_what_for():
    presets = ("pathway", "mnist_cnn", "mnist_lenet")
    material = material_of(*(each for preset in presets for each in launches(preset, on_the_line(preset))))
    rows = material.networks
    assert [*rows["network"]] == ["pathway", "mnist_cnn", "mnist_lenet"]
    assert [*rows["operations_per_byte"]] == pytest.approx([96, 282.15, 648.0], rel=1e-3)
    # Two workers take c + k / x times as long and do twice as much.
    assert [*rows["speed_up"]] == pytest.approx([2 / (1 + PAYS_FROM / x) for x in rows["operations_per_byte"]])
    assert [*rows["line"]] == pytest.approx([*rows["speed_up"]])
    assert [*rows["pays_from"]] == pytest.approx([PAYS_FROM] * 3)
    assert [*rows["n"]] == [6] * 3
    [sentence] = sweeps.networks(material)[2]["items"]
    assert sentence == (
        "amber_ring with 2 workers pays for mnist_cnn and mnist_lenet, doesn't for pathway; by its line from 200 "
        "operations per byte on."
    )


def test_a_strategy_that_is_never_faster_never_pays_and_two_networks_make_no_line():
    presets = ("pathway", "mnist_cnn", "mnist_lenet")
    slow = [each for preset in presets for each in launches(preset, 10 + 2 * on_the_line(preset))]
    few = [each for preset in presets[:2] for each in launches(preset, 15.0, "amber_library")]
    rows = material_of(*slow, *few).networks.set_index("strategy")
    assert rows.loc["amber_ring", "line"].notna().all()
    assert rows.loc["amber_ring", "pays_from"].isna().all()
    assert rows.loc["amber_library", "line"].isna().all()
    assert math.isnan(rows.loc["amber_library", "pays_from"].iloc[0])


def test_with_two_networks_there_is_no_chapter():
    material = material_of(*launches("pathway", 12.0), *launches("mnist_lenet", 12.0))
    assert material.networks.empty
    assert sweeps.networks(material) == []
