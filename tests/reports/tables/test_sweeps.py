"""Over which links, and for which networks, it pays: against numbers worked out by hand."""

import pandas as pd
import pytest

from common.contract import model
from common.contract.task import PRESETS
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


def alone(n: int = 6) -> list[Record]:
    return [over_hosts("amber_single", 1, 1, (4.0 * (1 + number / 100),) * 3) for number in range(n)]


def table(*records: Record) -> pd.DataFrame:
    material = material_of(*records)
    return sweeps.bandwidths(material.configurations, material.launches, material.results.records)


def said(*records: Record) -> list[str]:
    """From which bandwidth on each strategy pays."""
    return items(words.bandwidths(material_of(*records)))


def test_three_bandwidths_of_one_number_of_hosts_make_a_sweep_and_launches_without_exchange_or_on_one_host_none():
    sweep = [*rounds(dict.fromkeys(MEGABITS[:2], 5.0), n=1), over_hosts(milliseconds=(4.0,) * 3, megabits=None)]
    four = rounds(dict.fromkeys(MEGABITS[:2], 5.0), n=1, workers=4, hosts=4)
    silent = rounds(dict.fromkeys(MEGABITS, 5.0), n=1, options=MadeUpOptions(exchange=False), name="amber_library")
    single = [over_hosts("amber_single", 1, 1, megabits=each) for each in MEGABITS]
    found = table(*sweep, *four, *silent, *single)
    assert found[["own", "hosts"]].to_numpy().tolist() == [["amber_ring", 2]] * 3
    # Where nobody chose a bandwidth it is what was measured: what carries 8 Gbit/s of Ethernet carries that much.
    assert found["bandwidth_bits_per_second"].tolist() == pytest.approx([1e7, 1e8, 8e9])
    assert found["is_chosen"].tolist() == [True, True, False]


def test_a_step_of_asynchronous_workers_is_one_workers_beside_the_base():
    # The base has 64 rows in 4 ms, and the record 128 in each step.
    found = table(*rounds(dict.fromkeys(MEGABITS, 5.0), n=1, synchronous=False), *alone(n=1))
    assert found["base_seconds"].tolist() == pytest.approx([0.008] * 3)


def test_a_row_has_its_bound_and_one_host_alone_for_the_rows_of_one_worker():
    found = table(*rounds({10.0: 90.0, 100.0: 9.0, 1000.0: 4.0}), *alone()).set_index("bandwidth_bits_per_second")
    # The base's six steps of 64 rows take 4.00 to 4.20 ms, so 4.10.
    assert found["base_seconds"].tolist() == pytest.approx([0.0041] * 3)
    assert found["base_samples_per_second"].tolist() == pytest.approx([64 / 0.0041] * 3)
    # 17,226 parameters of four bytes, which a ring of two sends once.
    gradient_bytes = 68_904
    assert found["bound_seconds"][1e8] == pytest.approx(gradient_bytes * 8 / 1e8 * 1514 / 1448)
    # Twice the rows: of equal times, twice the rate, in each of six rounds.
    assert found["ratio"][1e9] == pytest.approx(2 * 4 / 4)
    assert found.loc[1e9, ["ratio_low", "ratio_high", "ratio_n"]].tolist() == pytest.approx([2, 2, 6])


def test_a_sentence_says_from_which_bandwidth_on_it_pays_with_the_ratio_over_the_fastest_link_or_why_nothing_tells():
    # One host alone has 64 rows in 4 ms, so two pay below 8: over the slowest link, not over the next, then again.
    sweep = rounds({10.0: 7.0, 100.0: 8.0, 1000.0: 4.0}, oversubscribed=True)
    never = rounds({10.0: 80.0, 100.0: 20.0, 1000.0: 10.0}, name="slow")
    begins = "amber_ring, 2 hosts, 2† workers: "
    assert said(*sweep, *never, *alone()) == [
        f"{begins}pays from 1 Gbit/s; at 1 Gbit/s 2.00 times one host's rate (2.00 to 2.00).",
        "slow, 2 hosts, 2 workers: pays not up to 1 Gbit/s; at 1 Gbit/s 0.80 times one host's rate (0.80 to 0.80).",
    ]
    assert said(*sweep) == [f"{begins}its base wasn't measured."]
    few = rounds(dict.fromkeys(MEGABITS, 5.0), n=5)
    assert said(*few, *alone(n=5)) == ["amber_ring, 2 hosts, 2 workers: too few rounds (n = 5)."]


PRESETS_OF_TWO_KINDS = ("pathway", "mnist_cnn", "mnist_lenet")
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
    presets = PRESETS_OF_TWO_KINDS
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
    presets = ("digits", "pathway", "mnist_lenet")
    slow = [each for preset in presets for each in launches(preset, 10 + 2 * on_the_line(preset))]
    fast = [each for preset in presets for each in launches(preset, on_the_line(preset, -9.0), "amber_threads")]
    few = [each for preset in presets[:2] for each in launches(preset, 15.0, "amber_library")]
    rows = material_of(*slow, *fast, *few).networks.set_index("strategy")
    assert rows.loc["amber_ring", "line"].notna().all()
    assert rows.loc["amber_ring", "pays_from"].isna().all()
    assert rows.loc["amber_threads", "pays_from"].tolist() == [0.0] * 3
    assert rows.loc["amber_library", ["line", "pays_from"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("presets", "fields"),
    [
        (PRESETS_OF_TWO_KINDS[1:], {}),
        (("digits", "pathway", "mnist"), {}),
        (PRESETS_OF_TWO_KINDS, {"synchronous": False}),
        (PRESETS_OF_TWO_KINDS, {"other_maths": ["rounding"]}),
        (PRESETS_OF_TWO_KINDS, {"scaling": "strong"}),
    ],
    ids=["two networks", "networks of one kind", "asynchronous", "other maths", "strong scaling"],
)
def test_what_makes_no_line_makes_no_chapter(presets, fields):
    records = [each for preset in presets for each in launches(preset, on_the_line(preset))]
    material = material_of(*[changed(record, **fields) if record.world_size > 1 else record for record in records])
    assert material.networks.empty
    assert words.networks(material) == []
