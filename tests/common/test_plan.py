"""common/plan.py: a plan covers what is asked for, each launch once per round, in an order that a seed decides."""

import dataclasses
import os
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import pytest

from common import catalogue
from common.contract.task import PRESETS
from common.errors import UserError
from common.plan import QUICK_SECONDS, Scope, has_another_round, kink_free_seeds, plan_round, plan_table
from common.strategy import ExchangeOptions, Options, Work, has_exchange, label, option

SEEDS = {"digits": 3, "pathway": 0}


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ExchangeOptions):
    """The options of a made-up strategy that is asynchronous unless told otherwise."""

    updates: Literal["asynchronous", "synchronous"] = option("asynchronous")


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    """A machine of two cores; calling it gives the machine another number of them."""

    def have(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))

    have(2)
    return have


@pytest.fixture
def known(declare, catalogue_of):
    """One strategy of each kind, by name, which are all that the catalogue has."""
    other = dataclasses.replace(declare().family, title="Other")
    declared = [
        declare("one_alone", work=Work.UNDISTRIBUTED, options=Options, quick=True),
        declare("one_threads", base="one_alone", quick=True, variants=({"prefetch": 1}, {"codec": "fp16"})),
        declare("one_hand", base="one_alone"),
        declare("one_pieces", base="one_alone", work=Work.PARTS_OF_ONE_MODEL, options=Options),
        declare("two_alone", family=other, work=Work.UNDISTRIBUTED, options=Options, quick=True),
        declare("two_replicas", family=other, base="two_alone", work=Work.REPLICAS_IN_ONE_PROCESS, quick=True),
        declare(
            "two_servers",
            family=other,
            base="two_alone",
            work=Work.COORDINATED,
            options=ServerOptions,
            synchronous_with={"updates": "synchronous"},
            quick=True,
        ),
    ]
    catalogue_of(*declared)
    return {strategy.name: strategy for strategy in declared}


QUICK = {"one_alone", "one_threads", "two_alone", "two_replicas", "two_servers"}
ALONE = {"one_alone", "two_alone"}


def launches_of(scope, repetition=1, seed=0):
    return plan_round(scope, repetition, random.Random(seed), SEEDS)


def world_of(launch):
    return launch.strategy.name, launch.workers, has_exchange(launch.options)


def launches_in_six_rounds(scope):
    """How many throughput launches each strategy, number of workers and exchange gets."""
    counts = {}
    for repetition in range(1, 7):
        for launch in launches_of(scope, repetition):
            if launch.purpose == "throughput":
                counts[world_of(launch)] = counts.get(world_of(launch), 0) + 1
    return counts


def test_the_quick_profile_measures_its_strategies_on_pathway_and_certifies_them_on_digits(known):
    launches = launches_of(Scope())
    throughput = [launch for launch in launches if launch.purpose == "throughput"]
    certified = {(launch.strategy.name, launch.workers) for launch in launches if launch.purpose == "certificate"}
    worlds = {(name, workers) for name in QUICK for workers in ((1,) if name in ALONE else (1, 2, 4))}
    assert {world_of(launch)[:2] for launch in throughput if has_exchange(launch.options)} == certified == worlds
    assert {launch.task.preset for launch in throughput} == {"pathway"}
    assert {launch.task.scaling for launch in throughput} == {"weak"}
    assert {label(launch.options) for launch in throughput} == {""}
    assert {launch.task.preset for launch in launches if launch.purpose == "certificate"} == {"digits"}


def test_a_later_round_has_no_certificate(known):
    assert {launch.purpose for launch in launches_of(Scope(), repetition=2)} == {"throughput"}


def test_six_quick_rounds_repeat_most_what_fills_the_machine(known):
    counts = launches_in_six_rounds(Scope())
    assert {counts[name, 1, True] for name in ALONE} == {6}
    for name in QUICK - ALONE:
        worlds = [(1, True), (2, True), (2, False), (4, True)]
        assert [counts[name, *world] for world in worlds] == [2, 6, 1, 1]
        assert (name, 4, False) not in counts


def test_with_more_cores_it_is_the_larger_world_that_is_repeated(known, cores):
    cores(8)
    counts = launches_in_six_rounds(Scope(strategies=("one_threads",)))
    assert counts == {
        ("one_threads", 1, True): 2,
        ("one_threads", 2, True): 2,
        ("one_threads", 4, True): 6,
        ("one_threads", 4, False): 1,
    }


def test_worlds_that_all_have_more_workers_than_cores_still_repeat_the_smallest(known):
    counts = launches_in_six_rounds(Scope(strategies=("one_threads",), workers=(4, 8)))
    assert (counts["one_threads", 4, True], counts["one_threads", 8, True]) == (6, 1)


def test_whatever_a_round_has_of_a_number_of_workers_it_has_of_every_strategy(known):
    for repetition in range(1, 9):
        by_world = {}
        for launch in launches_of(Scope(), repetition):
            name, workers, exchange = world_of(launch)
            if launch.purpose == "throughput" and name not in ALONE:
                by_world.setdefault((workers, exchange), []).append(name)
        assert all(sorted(members) == sorted(QUICK - ALONE) for members in by_world.values())


@pytest.mark.parametrize("repetition", [1, 2, 5, 7])
def test_a_number_of_repetitions_is_that_of_every_launch_for_the_throughput(known, repetition):
    whole = {world_of(launch) for launch in launches_of(Scope())}
    assert {world_of(launch) for launch in launches_of(Scope(repetitions=7), repetition)} == whole


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_what_is_asynchronous_is_certified_in_both_ways_and_clocked_in_its_own(known, profile):
    launches = launches_of(Scope(profile=profile, strategies=("two_servers",)))
    presets = {"digits"} if profile == "quick" else {"digits", "pathway"}
    certified = {
        (launch.task.preset, launch.workers, launch.options.updates): launch.task.steps
        for launch in launches
        if launch.purpose == "certificate"
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
    throughput = [launch for launch in launches if launch.purpose == "throughput"]
    assert {launch.options.updates for launch in throughput} == {"asynchronous"}
    for task in [launch.task for launch in throughput]:
        assert task.window_steps == 4 * PRESETS[task.preset].window_steps
        assert task.steps == task.warmup_steps + 3 * task.window_steps


def test_the_names_of_synchronous_and_asynchronous_launches_differ(known):
    names = [launch.name for launch in launches_of(Scope(strategies=("two_servers",)))]
    assert len(set(names)) == len(names)
    assert "two_servers-digits-strong-2w-synchronous_updates-certificate" in names
    assert "two_servers-digits-strong-2w-certificate" in names
    assert "two_servers-pathway-weak-2w-no_exchange-01" in names


def test_the_table_has_the_labels(known):
    table = plan_table(launches_of(Scope(strategies=("two_servers",))), order_seed=7)
    synchronous = table[table["label"] == "synchronous updates"]
    assert sorted(synchronous["workers"]) == [1, 2, 4]
    assert set(table["label"]) == {"", "synchronous updates"}


def test_the_full_profile_covers_every_strategy_both_scalings_and_three_regimes(known):
    throughput = [launch for launch in launches_of(Scope(profile="full")) if launch.purpose == "throughput"]
    assert {launch.strategy.name for launch in throughput} == set(known)
    assert {(launch.task.preset, launch.task.scaling) for launch in throughput} == {
        (preset, scaling) for preset in ("digits", "pathway", "wide") for scaling in ("weak", "strong")
    }


def test_the_full_profile_certifies_and_clocks_the_variants_beside_the_defaults(known):
    launches = launches_of(Scope(profile="full", strategies=("one_threads", "one_hand"), workers=(2,)))
    for purpose in ("certificate", "throughput"):
        found = {(each.strategy.name, label(each.options)) for each in launches if each.purpose == purpose}
        variants = {("one_threads", "1 prefetch"), ("one_threads", "fp16 codec, other maths")}
        assert found == {("one_threads", ""), ("one_hand", "")} | variants
    assert {has_exchange(launch.options) for launch in launches if launch.options.prefetch} == {True, False}


def test_the_quick_profile_has_no_variants(known):
    assert {label(each.options) for each in launches_of(Scope(strategies=("one_threads",)))} == {""}


def test_without_an_option_to_leave_it_out_there_is_always_an_exchange(known):
    launches = launches_of(Scope(profile="full", strategies=("one_pieces",)))
    assert {has_exchange(launch.options) for launch in launches} == {True}


def test_one_worker_is_never_launched_without_exchange(known):
    launches = launches_of(Scope(profile="full", workers=(1,)))
    assert {has_exchange(launch.options) for launch in launches} == {True}


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_a_batch_that_the_workers_do_not_divide_is_planned_and_takes_no_longer_than_its_refusal(known, profile):
    scope = Scope(profile=profile, strategies=("one_hand", "one_pieces"), workers=(1, 3))
    launches = [each for each in launches_of(scope) if each.task.scaling == "strong" and each.workers == 3]
    start = {
        name: each.launcher.start_seconds + 3 * each.launcher.start_seconds_per_worker for name, each in known.items()
    }
    refused = {each.strategy.name for each in launches if each.estimated_seconds == start[each.strategy.name]}
    assert {each.strategy.name for each in launches} == {"one_hand", "one_pieces"}
    assert refused == {"one_hand"}


def test_no_launch_is_planned_twice_and_every_full_round_has_the_same(known):
    launches = [launch for repetition in (1, 2, 3) for launch in launches_of(Scope(profile="full"), repetition)]
    assert len({launch.name for launch in launches}) == len(launches)
    rounds = [
        sorted(each.name[:-3] for each in launches if each.repetition == number and each.purpose == "throughput")
        for number in (1, 2, 3)
    ]
    assert rounds[0] == rounds[1] == rounds[2]


def test_the_seed_decides_the_order_and_nothing_else(known):
    first, again, other = (launches_of(Scope(), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {launch.name for launch in first} == {launch.name for launch in other}


def test_families_are_mixed_within_a_round(known):
    order = [launch.strategy.family.title for launch in launches_of(Scope())]
    assert sum(before != after for before, after in pairwise(order)) > 3


def test_a_scope_narrows_the_plan(known):
    launches = launches_of(Scope(strategies=("one_threads",), workers=(2,), preset=("wide",)))
    assert {launch.strategy.name for launch in launches} == {"one_threads"}
    assert {launch.workers for launch in launches} == {2}
    assert {launch.task.preset for launch in launches if launch.purpose == "throughput"} == {"wide"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"strategies": ("one_thraeds",)}, "no strategy named 'one_thraeds': choose one of one_alone, one_threads"),
        ({"preset": ("imagenet",)}, "no preset named 'imagenet'"),
        ({"workers": (0,)}, "above 0"),
        ({"workers": ()}, "above 0"),
        ({"repetitions": 0}, "above 0"),
    ],
)
def test_a_scope_that_means_nothing_is_refused(known, values, words):
    with pytest.raises(UserError, match=words):
        Scope(**values)


def test_the_certificate_trains_with_a_seed_without_a_kink():
    assert kink_free_seeds(Scope()) == {"digits": SEEDS["digits"]}


def test_the_table_has_a_row_per_launch_in_order(known):
    launches = launches_of(Scope())
    table = plan_table(launches, order_seed=7)
    assert list(table["launch"]) == [launch.name for launch in launches]
    assert list(table["strategy"]) == [launch.strategy.name for launch in launches]
    assert list(table["exchange"]) == [has_exchange(launch.options) for launch in launches]
    assert list(table["position"]) == list(range(1, len(launches) + 1))
    assert set(table["order_seed"]) == {7}


# The strategies that there are


def test_the_quick_profile_is_laid_out_for_less_than_nine_minutes():
    order = random.Random(0)
    launches = [launch for number in range(1, 7) for launch in plan_round(Scope(), number, order, SEEDS)]
    assert sum(launch.estimated_seconds for launch in launches) <= 510


def test_the_full_profile_has_every_strategy_and_a_name_of_its_own_for_every_launch():
    launches = launches_of(Scope(profile="full"))
    assert {launch.strategy.name for launch in launches} == set(catalogue.strategies())
    assert len({launch.name for launch in launches}) == len(launches)


def test_a_quick_comparison_starts_a_round_only_where_its_time_is_left():
    scope = Scope()
    assert has_another_round(scope, 1, 0.0, 10_000.0)
    assert has_another_round(scope, 6, QUICK_SECONDS - 50, 40.0)
    assert not has_another_round(scope, 6, QUICK_SECONDS - 50, 60.0)
    asked = Scope(repetitions=2)
    assert has_another_round(asked, 2, 10_000.0, 10_000.0)
    assert not has_another_round(asked, 3, 0.0, 1.0)
