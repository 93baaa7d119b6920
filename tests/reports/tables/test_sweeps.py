"""Over which links, and for which networks, it pays: against numbers worked out by hand."""

import dataclasses

import pandas as pd
import pytest

from common.contract import model
from common.contract.task import PRESETS
from common.declarations.strategy import ring_all_reduce
from common.records.training import Record
from reports.tables import sweeps
from reports.words import sweeps as words
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.pieces import items
from tests.reports.records import MadeUpOptions, make_record, over_hosts, task_of

MEGABITS = (10.0, 100.0, 1000.0)


def rounds(times: dict[float, float], n: int = 6, **facts: object) -> list[Record]:
    """Launches of n rounds over links of so many Mbit/s, which take so many milliseconds and 1 % more in each round."""
    return [
        over_hosts(milliseconds=(time * (1 + number / 100),) * 3, megabits=megabits, **facts)
        for megabits, time in times.items()
        for number in range(n)
    ]


def alone(milliseconds: float = 4.0, n: int = 6) -> list[Record]:
    return [over_hosts("amber_single", 1, 1, (milliseconds * (1 + number / 100),) * 3) for number in range(n)]


def table(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    material = material_of(*records, plan=plan)
    return sweeps.bandwidths(material.configurations, material.launches, material.results.records)


def said(*records: Record) -> list[str]:
    """From which bandwidth on each strategy pays."""
    return items(words.bandwidths(material_of(*records)))


def test_two_bandwidths_are_no_sweep_and_three_are():
    assert table(*rounds(dict.fromkeys(MEGABITS[:2], 5.0)), *alone()).empty
    found = table(*rounds(dict.fromkeys(MEGABITS, 5.0)), *alone())
    assert found["bandwidth_bits_per_second"].tolist() == [1e7, 1e8, 1e9]
    assert set(found["own"]) == {"amber_ring"}
    assert found["is_chosen"].all()


def test_one_host_and_launches_without_exchange_make_no_sweep():
    silent = {"options": MadeUpOptions(exchange=False)}
    assert table(*rounds(dict.fromkeys(MEGABITS, 5.0), **silent), *alone()).empty
    assert table(*(over_hosts("amber_single", 1, 1, megabits=each) for each in MEGABITS)).empty


def test_a_step_of_asynchronous_workers_is_one_workers_beside_the_base():
    [together, alone_each] = (
        table(*rounds(dict.fromkeys(MEGABITS, 5.0), n=1, synchronous=flag), *alone(n=1))["base_seconds"].tolist()
        for flag in (True, False)
    )
    # The base has 64 rows in 4 ms; a step of two synchronous workers has 128, 64 each.
    assert together == pytest.approx([0.004] * 3)
    assert alone_each == pytest.approx([0.008] * 3)


def test_each_number_of_hosts_needs_three_bandwidths_of_its_own():
    two, four = rounds(dict.fromkeys(MEGABITS, 5.0)), rounds(dict.fromkeys(MEGABITS[:2], 5.0), workers=4, hosts=4)
    assert set(table(*two, *four, *alone())["hosts"]) == {2}


def test_a_row_has_its_bound_and_one_host_alone_for_the_rows_of_one_worker():
    found = table(*rounds({10.0: 90.0, 100.0: 9.0, 1000.0: 4.0}), *alone()).set_index("bandwidth_bits_per_second")
    # The base's six steps of 64 rows take 4.00 to 4.20 ms, so 4.10.
    assert found["base_seconds"].tolist() == pytest.approx([0.0041] * 3)
    assert found["base_samples_per_second"].tolist() == pytest.approx([64 / 0.0041] * 3)
    task = dataclasses.replace(PRESETS["digits"])
    gradient_bytes = ring_all_reduce(68_904, 2, MadeUpOptions()).bytes_per_step / 2
    assert gradient_bytes == 4 * sum(a * b + b for a, b in zip(task.dimensions, task.dimensions[1:], strict=False))
    assert found["bound_seconds"][1e8] == pytest.approx(gradient_bytes * 8 / 1e8 * 1514 / 1448)
    # Twice the rows: of equal times, twice the rate, in each of six rounds.
    assert found["ratio"][1e9] == pytest.approx(2 * 4 / 4)
    assert found.loc[1e9, ["ratio_low", "ratio_high", "ratio_n"]].tolist() == pytest.approx([2, 2, 6])


def test_a_bandwidth_that_nobody_chose_is_what_calibration_found_on_the_wire():
    records = rounds({10.0: 9.0, 100.0: 8.0}) + [over_hosts(milliseconds=(4.0,) * 3, megabits=None) for _ in range(6)]
    found = table(*records, *alone())
    # What carries 8 Gbit/s of Ethernet carries that much.
    assert found["bandwidth_bits_per_second"].tolist() == pytest.approx([1e7, 1e8, 8e9])
    assert found["is_chosen"].tolist() == [True, True, False]


def test_it_pays_from_the_smallest_bandwidth_above_which_all_do():
    # One host alone has 64 rows in 4 ms, so two pay below 8.
    cases = {
        "a": ((90.0, 7.0, 5.0), "from 100 Mbit/s"),
        "b": ((7.0, 6.0, 5.0), "from 10 Mbit/s"),
        "c": ((90.0, 20.0, 5.0), "from 1 Gbit/s"),
        "d": ((90.0, 20.0, 9.0), "not up to 1 Gbit/s"),
        # What pays only over a slower link than one at which it doesn't, doesn't pay from there on.
        "e": ((7.0, 20.0, 5.0), "from 1 Gbit/s"),
    }
    swept = [rounds(dict(zip(MEGABITS, times, strict=True)), name=name) for name, (times, _) in cases.items()]
    found = said(*(record for own in swept for record in own), *alone())
    assert [sentence.partition(";")[0] for sentence in found] == [
        f"{name}, 2 hosts, 2 workers: pays {where}" for name, (_, where) in cases.items()
    ]


def test_a_sentence_has_the_ratio_over_the_fastest_link_or_says_why_nothing_tells():
    sweep = rounds({10.0: 80.0, 100.0: 8.0, 1000.0: 4.0}, oversubscribed=True)
    begins = "amber_ring, 2 hosts, 2† workers: "
    assert said(*sweep, *alone()) == [
        f"{begins}pays from 1 Gbit/s; at 1 Gbit/s 2.00 times one host's rate (2.00 to 2.00)."
    ]
    assert said(*sweep) == [f"{begins}its base wasn't measured."]
    few = rounds(dict.fromkeys(MEGABITS, 5.0), n=5)
    assert said(*few, *alone(n=5)) == ["amber_ring, 2 hosts, 2 workers: too few rounds (n = 5)."]


def test_a_sweep_with_more_workers_on_each_host_is_in_the_sentences_alone():
    records = [*rounds(dict.fromkeys(MEGABITS, 5.0)), *rounds(dict.fromkeys(MEGABITS, 5.0), workers=4), *alone()]
    blocks = words.bandwidths(material_of(*records))
    assert len(items(blocks)) == 2
    [figure] = [block for block in blocks if block["kind"] == "figure"]
    assert figure["caption"].endswith("With more workers on each host: in the sentences.")
    assert set(figure["draw"].args[0].medians["workers"]) == {2}


# Networks

PAYS_FROM, CONTENTION = 200.0, 1.2
"""Operations per byte from which on the made-up strategy pays, and how many times as long its workers compute."""


def launches(preset: str, step: float, name: str = "amber_ring") -> list[Record]:
    """Six rounds of one worker of the base, whose step takes 10 ms, and of two workers that take `step` ms.

    They tell no losses, since to train all of these takes longer than the test.
    """
    return [
        changed(
            make_record(which, workers, (milliseconds,) * 4),
            task=task_of(workers, preset),
            examples_per_step=workers * PRESETS[preset].batch,
            reading=None,
            losses=[],
            shard_losses=[],
        )
        for _ in range(6)
        for which, workers, milliseconds in (("amber_single", 1, 10.0), (name, 2, step))
    ]


def on_the_line(preset: str, pays_from: float = PAYS_FROM) -> float:
    """Milliseconds of two workers' step that is c + k / x times the base's 10 ms, with c = CONTENTION."""
    task = PRESETS[preset]
    operations = model.operations(task) * task.batch / model.parameter_bytes(task)
    return 10 * (CONTENTION + (2 - CONTENTION) * pays_from / operations)


def test_a_strategy_on_a_line_pays_from_where_the_line_says_and_the_sentence_names_what_for():
    presets = ("pathway", "mnist_cnn", "mnist_lenet")
    material = material_of(*(each for preset in presets for each in launches(preset, on_the_line(preset))))
    rows = material.networks
    assert [*rows["network"]] == ["pathway", "mnist_cnn", "mnist_lenet"]
    assert [*rows["operations_per_byte"]] == pytest.approx([96, 282.15, 648.0], rel=1e-3)
    # Two workers take c + k / x times as long and do twice as much.
    speed_ups = [20 / on_the_line(preset) for preset in presets]
    assert [*rows["speed_up"]] == pytest.approx(speed_ups)
    assert [*rows["line"]] == pytest.approx(speed_ups)
    assert [*rows["pays_from"]] == pytest.approx([PAYS_FROM] * 3)
    assert [*rows["n"]] == [6] * 3
    [sentence] = words.networks(material)[2]["items"]
    assert sentence == (
        "amber_ring with 2 workers pays for mnist_cnn and mnist_lenet, doesn't for pathway; by its line from 200 "
        "operations per byte on."
    )


def test_a_strategy_that_is_never_faster_never_pays_one_that_always_is_always_and_two_networks_make_no_line():
    presets = ("pathway", "mnist_cnn", "mnist_lenet")
    slow = [each for preset in presets for each in launches(preset, 10 + 2 * on_the_line(preset))]
    fast = [each for preset in presets for each in launches(preset, on_the_line(preset, -9.0), "amber_threads")]
    few = [each for preset in presets[:2] for each in launches(preset, 15.0, "amber_library")]
    rows = material_of(*slow, *fast, *few).networks.set_index("strategy")
    assert rows.loc["amber_ring", "line"].notna().all()
    assert rows.loc["amber_ring", "pays_from"].isna().all()
    assert rows.loc["amber_threads", "pays_from"].tolist() == [0.0] * 3
    assert rows.loc["amber_library", ["line", "pays_from"]].isna().all(axis=None)


def test_networks_of_one_kind_make_no_chapter_and_of_two_kinds_do():
    for other, many in (("mnist", 0), ("mnist_cnn", 3)):
        records = [each for preset in ("digits", "pathway", other) for each in launches(preset, on_the_line(preset))]
        assert len(material_of(*records).networks) == many


@pytest.mark.parametrize(
    "fields", [{"synchronous": False}, {"other_maths": ["rounding"]}, {"scaling": "strong"}], ids=str
)
def test_what_is_asynchronous_of_other_maths_or_under_strong_scaling_stands_on_no_line(fields):
    presets = ("pathway", "mnist_cnn", "mnist_lenet")
    records = [each for preset in presets for each in launches(preset, on_the_line(preset))]
    others = [changed(record, **fields) if record.world_size > 1 else record for record in records]
    assert material_of(*others).networks.empty


def test_with_two_networks_there_is_no_chapter():
    material = material_of(*launches("pathway", 12.0), *launches("mnist_lenet", 12.0))
    assert material.networks.empty
    assert words.networks(material) == []
