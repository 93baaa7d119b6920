"""A plan covers what its options ask for, each cell once per round, in an order that a seed decides."""

import random
from itertools import pairwise

import pytest

from common.errors import UserError
from common.launch import UNDISTRIBUTED, strategies
from common.plan import QUICK_CORE, Options, kink_free_seeds, plan_round, plan_table

SEEDS = {"digits": 3, "pathway": 0}


def cells_of(options, repetition=1, seed=0):
    return plan_round(options, repetition, random.Random(seed), SEEDS)


def test_the_quick_profile_measures_its_core_on_pathway_and_certifies_it_on_digits():
    cells = cells_of(Options())
    throughput = {
        (cell.strategy, cell.workers) for cell in cells if cell.purpose == "throughput" and cell.config.exchange
    }
    certified = {(cell.strategy, cell.workers) for cell in cells if cell.purpose == "certificate"}
    core = [name for name in QUICK_CORE if name in strategies()]
    worlds = {(name, workers) for name in core for workers in ((1,) if name in UNDISTRIBUTED else (1, 2, 4))}
    assert throughput == certified == worlds
    assert {cell.config.preset for cell in cells if cell.purpose == "throughput"} == {"pathway"}
    assert {cell.config.scaling for cell in cells if cell.purpose == "throughput"} == {"weak"}


def test_a_later_round_has_no_certificate():
    assert {cell.purpose for cell in cells_of(Options(), repetition=2)} == {"throughput"}


def test_the_full_profile_covers_every_strategy_both_scalings_and_three_regimes():
    throughput = [cell for cell in cells_of(Options(profile="full")) if cell.purpose == "throughput"]
    assert {cell.strategy for cell in throughput} == set(strategies())
    assert {(cell.config.preset, cell.config.scaling) for cell in throughput} == {
        (preset, scaling) for preset in ("digits", "pathway", "wide") for scaling in ("weak", "strong")
    }


def test_no_cell_is_planned_twice_and_every_round_has_the_same_throughput_cells():
    cells = [cell for repetition in (1, 2, 3) for cell in cells_of(Options(profile="full"), repetition)]
    assert len({cell.name for cell in cells}) == len(cells)
    rounds = [
        sorted(cell.name[:-3] for cell in cells if cell.repetition == number and cell.purpose == "throughput")
        for number in (1, 2, 3)
    ]
    assert rounds[0] == rounds[1] == rounds[2]


def test_the_seed_decides_the_order_and_nothing_else():
    first, again, other = (cells_of(Options(), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {cell.name for cell in first} == {cell.name for cell in other}


def test_frameworks_are_mixed_within_a_round():
    order = [cell.strategy.partition("_")[0] for cell in cells_of(Options())]
    changes = sum(before != after for before, after in pairwise(order))
    assert changes > 3


def test_options_narrow_the_plan():
    cells = cells_of(Options(strategies=("torch_ddp",), workers=(2,), preset=("wide",)))
    assert {cell.strategy for cell in cells} == {"torch_ddp"}
    assert {cell.workers for cell in cells} == {2}
    assert {cell.config.preset for cell in cells if cell.purpose == "throughput"} == {"wide"}


@pytest.mark.parametrize(
    "values", [{"strategies": ("torch_dpd",)}, {"preset": ("imagenet",)}, {"workers": (0,)}, {"repetitions": 0}]
)
def test_options_that_mean_nothing_are_refused(values):
    with pytest.raises(UserError):
        Options(**values)


def test_the_certificate_trains_with_a_seed_without_a_kink():
    assert kink_free_seeds(Options()) == {"digits": SEEDS["digits"]}


def test_the_table_has_a_row_per_launch_in_order():
    cells = cells_of(Options())
    table = plan_table(cells, order_seed=7)
    assert list(table["cell"]) == [cell.name for cell in cells]
    assert list(table["position"]) == list(range(1, len(cells) + 1))
    assert set(table["order_seed"]) == {7}
