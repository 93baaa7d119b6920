"""A plan covers what its options ask for, each cell once per round, in an order that a seed decides."""

import os
import random
from itertools import pairwise

import pytest

from common.config import PRESETS
from common.errors import UserError
from common.launch import UNDISTRIBUTED, strategies
from common.plan import QUICK_CORE, Options, kink_free_seeds, plan_round, plan_table

SEEDS = {"digits": 3, "pathway": 0}
SERVERS = Options(strategies=("tf_parameter_server",))


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    """A machine of two cores; calling it gives the machine another number of them."""

    def have(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))

    have(2)
    return have


def cells_of(options, repetition=1, seed=0):
    return plan_round(options, repetition, random.Random(seed), SEEDS)


def launches_in_six_rounds(options):
    """How many throughput launches each strategy, number of workers and exchange gets."""
    counts = {}
    for repetition in range(1, 7):
        for cell in cells_of(options, repetition):
            if cell.purpose == "throughput":
                key = (cell.strategy, cell.workers, cell.config.exchange)
                counts[key] = counts.get(key, 0) + 1
    return counts


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


def test_six_quick_rounds_repeat_most_what_fills_the_machine():
    counts = launches_in_six_rounds(Options())
    assert {counts[name, 1, True] for name in UNDISTRIBUTED} == {6}
    for strategy in ("torch_ddp", "tf_mirrored", "tf_multi_worker_mirrored", "tf_parameter_server", "horovod_torch"):
        worlds = [(1, True), (2, True), (2, False), (4, True)]
        assert [counts[strategy, *world] for world in worlds] == [2, 6, 1, 1]
        assert (strategy, 4, False) not in counts


def test_with_more_cores_it_is_the_larger_world_that_is_repeated(cores):
    cores(8)
    counts = launches_in_six_rounds(Options(strategies=("torch_ddp",)))
    assert counts == {
        ("torch_ddp", 1, True): 2,
        ("torch_ddp", 2, True): 2,
        ("torch_ddp", 4, True): 6,
        ("torch_ddp", 4, False): 1,
    }


def test_worlds_that_all_have_more_workers_than_cores_still_repeat_the_smallest():
    counts = launches_in_six_rounds(Options(strategies=("torch_ddp",), workers=(4, 8)))
    assert (counts["torch_ddp", 4, True], counts["torch_ddp", 8, True]) == (6, 1)


def test_whatever_a_round_has_of_a_number_of_workers_it_has_of_every_strategy():
    for repetition in range(1, 9):
        by_world = {}
        for cell in cells_of(Options(), repetition):
            if cell.purpose == "throughput" and cell.strategy not in UNDISTRIBUTED:
                by_world.setdefault((cell.workers, cell.config.exchange), []).append(cell.strategy)
        distributed = sorted(name for name in QUICK_CORE if name in strategies() and name not in UNDISTRIBUTED)
        assert all(sorted(members) == distributed for members in by_world.values())


@pytest.mark.parametrize("repetition", [1, 2, 5, 7])
def test_a_number_of_repetitions_is_that_of_every_cell(repetition):
    whole = {(cell.strategy, cell.workers, cell.config.exchange) for cell in cells_of(Options())}
    cells = cells_of(Options(repetitions=7), repetition)
    assert {(cell.strategy, cell.workers, cell.config.exchange) for cell in cells} == whole


def test_the_quick_profile_is_laid_out_for_less_than_nine_minutes():
    order = random.Random(0)
    cells = [cell for number in range(1, 7) for cell in plan_round(Options(), number, order, SEEDS)]
    assert sum(cell.estimated_seconds for cell in cells) <= 510


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_parameter_servers_are_certified_in_both_ways_and_clocked_in_the_asynchronous_one(profile):
    cells = cells_of(Options(profile=profile, strategies=("tf_parameter_server",)))
    presets = {"digits"} if profile == "quick" else {"digits", "pathway"}
    certified = {
        (cell.config.preset, cell.workers, cell.config.updates): cell.config.steps
        for cell in cells
        if cell.purpose == "certificate"
    }
    follows = {"digits": 300, "pathway": 120}
    for preset in presets:
        for workers in (1, 2, 4):
            assert certified.pop((preset, workers, "synchronous")) == follows[preset]
            # With one worker it follows the oracle over as many steps; with more it says how well it trained.
            if profile == "full" or workers <= 2:
                expected = follows[preset] if workers == 1 else 1000
                assert certified.pop((preset, workers, "asynchronous")) == expected
    assert not certified
    throughput = [cell.config for cell in cells if cell.purpose == "throughput"]
    assert {config.updates for config in throughput} == {"asynchronous"}
    for config in throughput:
        assert config.window_steps == 4 * PRESETS[config.preset].window_steps
        assert config.steps == config.warmup_steps + 3 * config.window_steps


def test_the_names_of_synchronous_and_asynchronous_cells_differ():
    names = [cell.name for cell in cells_of(SERVERS)]
    assert len(set(names)) == len(names)
    assert "tf_parameter_server-digits-strong-2w-synchronous_updates-certificate" in names
    assert "tf_parameter_server-digits-strong-2w-certificate" in names


def test_the_table_says_which_cells_are_variants_of_their_strategy():
    table = plan_table(cells_of(SERVERS), order_seed=7)
    synchronous = table[table["variant"] == "synchronous updates"]
    assert sorted(synchronous["workers"]) == [1, 2, 4]
    assert set(table["variant"]) == {"", "synchronous updates"}


def test_the_full_profile_covers_every_strategy_both_scalings_and_three_regimes():
    throughput = [cell for cell in cells_of(Options(profile="full")) if cell.purpose == "throughput"]
    assert {cell.strategy for cell in throughput} == set(strategies())
    assert {(cell.config.preset, cell.config.scaling) for cell in throughput} == {
        (preset, scaling) for preset in ("digits", "pathway", "wide") for scaling in ("weak", "strong")
    }


def test_the_full_profile_certifies_and_clocks_mpi_and_a_loader_beside_the_defaults():
    cells = cells_of(Options(profile="full", strategies=("torch_sync_sgd", "torch_ddp"), workers=(2,)))
    for purpose in ("certificate", "throughput"):
        configs = [cell.config for cell in cells if cell.purpose == purpose]
        variants = {(config.backend, config.loader_workers) for config in configs}
        assert variants == {("auto", 0), ("mpi", 0), ("auto", 1)}
    assert {cell.config.exchange for cell in cells if cell.config.backend == "mpi"} == {True, False}


def test_the_full_profile_has_horovod_over_both_controllers_at_its_own_and_the_best_setting_and_with_a_timeline():
    names = ("horovod_torch", "horovod_tensorflow", "horovod_keras")
    cells = cells_of(Options(profile="full", strategies=names, workers=(2,), preset=("pathway",)))
    for name in names:
        backends = {cell.config.backend for cell in cells if cell.strategy == name}
        assert backends == {"auto", "mpi"}
    for name in names[:2]:
        own = [cell.config for cell in cells if cell.strategy == name and cell.purpose == "throughput"]
        settings = {(config.backend, config.cycle_milliseconds, config.trace) for config in own}
        for backend in ("auto", "mpi"):
            assert {(backend, None, False), (backend, 0.1, False), (backend, None, True)} <= settings


def test_parts_of_one_model_are_never_launched_without_exchange():
    cells = cells_of(Options(profile="full", strategies=("torch_model_parallel", "torch_tensor_parallel")))
    assert {cell.config.exchange for cell in cells} == {True}


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
