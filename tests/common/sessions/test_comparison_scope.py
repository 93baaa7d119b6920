"""common/sessions/comparison_scope.py: a round has what is asked for, once each, in an order that a seed decides."""

import dataclasses
import os
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import pytest

from common.contract.task import PRESETS
from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import ExchangeOptions, MpiOptions, Options, has_exchange, label, option
from common.errors import UserError
from common.launching.planned import Hosts, Size
from common.measurement import limits
from common.records.metrics import ring_bound
from common.sessions.comparison_scope import (
    Scope,
    certified_presets,
    is_oversubscribed,
    main_worlds,
    not_made,
    plan_table,
    whole_round,
    with_steps_for,
    worlds,
)


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
            processes_beside=lambda options: 2,
            quick=True,
        ),
    ]
    catalogue_of(*declared)
    return {strategy.name: strategy for strategy in declared}


def test_a_quota_of_one_core_on_two_oversubscribes_two_workers(known, monkeypatch):
    scope, strategy = Scope(), known["one_threads"]
    assert not is_oversubscribed(scope, strategy, Size(2))
    monkeypatch.setattr(limits, "of_this_process", lambda: limits.Limits(cores=1.0))
    assert is_oversubscribed(scope, strategy, Size(2))
    assert not is_oversubscribed(scope, strategy, Size(1))


QUICK = {"one_alone", "one_threads", "two_alone", "two_replicas", "two_servers"}
ALONE = {"one_alone", "two_alone"}


def launches_of(scope, repetition=1, seed=0):
    return whole_round(scope, repetition, random.Random(seed)).launches


def world_of(launch):
    return launch.strategy.name, launch.workers, has_exchange(launch.options)


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


def test_what_is_quick_where_it_is_made_is_left_out_with_the_remedy_elsewhere(known, declare, catalogue_of):
    family = dataclasses.replace(declare().family, environment="elsewhere", imports="no_such_module")
    made = declare("three_made", base="one_alone", quick_where_made=True)
    unmade = declare("three_unmade", base="one_alone", quick_where_made=True, family=family)
    catalogue_of(*known.values(), made, unmade)
    assert {strategy.name for strategy, _ in worlds(Scope())} == QUICK | {"three_made"}
    remedy = "elsewhere isn't installed: run `nox -s elsewhere` once, which makes its environment."
    assert not_made(Scope()) == {"three_unmade": remedy}
    for asked_for in (Scope(strategies=("three_unmade",)), Scope(profile="full")):
        assert unmade in [strategy for strategy, _ in worlds(asked_for)]
        assert not not_made(asked_for)


def test_a_later_round_has_no_certificate(known):
    assert {launch.purpose for launch in launches_of(Scope(), repetition=2)} == {"throughput"}


def main_workers(scope):
    """By strategy the workers of the world that every round has."""
    return {name: size.workers for name, size in main_worlds(scope).items()}


def test_the_main_world_is_the_largest_with_a_core_for_each_process(known, cores):
    assert main_workers(Scope()) == {"one_alone": 1, "one_threads": 2, "two_alone": 1, "two_replicas": 2}
    cores(4)
    assert main_workers(Scope()) == dict.fromkeys(QUICK, 4) | dict.fromkeys(ALONE, 1) | {"two_servers": 2}
    cores(1)
    assert main_workers(Scope()) == dict.fromkeys(QUICK - {"two_servers"}, 1)


@pytest.mark.parametrize("workers", [(4, 8), (8, 4)])
def test_where_everything_is_oversubscribed_the_smallest_world_of_each_is_the_main_one(known, workers):
    named = ("one_threads", "two_servers")
    assert main_workers(Scope(strategies=named, workers=workers)) == dict.fromkeys(named, 4)
    assert main_workers(Scope(strategies=("two_servers",))) == {"two_servers": 1}


def test_processes_beside_the_workers_take_cores_as_workers_do(known, cores):
    cores(4)
    sizes = [Size(workers) for workers in (2, 3, 4, 5)]
    oversubscribed = [
        is_oversubscribed(Scope(), known[name], size) for name in ("one_threads", "two_servers") for size in sizes
    ]
    assert oversubscribed == [False, False, False, True, False, True, True, True]


def test_over_hosts_workers_are_placed_evenly_on_as_many_as_have_the_slots(known):
    def placements(**about):
        scope = Scope(strategies=("one_threads",), workers=(1, 2, 4), spread=Hosts(cores=2, **about))
        return [size[:2] for _, size in worlds(scope)]

    assert placements(count=4, slots=1) == [(1, 1), (2, 2), (4, 4)]
    assert placements(count=2, slots=2) == [(1, 1), (2, 1), (2, 2), (4, 2)]
    assert placements(count=3, slots=4) == [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)]
    # In a sweep over one host and as many as can be.
    bandwidths = {"bandwidths_bits_per_second": (1e7, None)}
    sweep = [(1, 1), (2, 1), (2, 2), (2, 2), (4, 1), (4, 4), (4, 4)]
    assert placements(count=4, slots=4, **bandwidths) == sweep


def test_placements_over_several_hosts_are_measured_with_each_bandwidth(known):
    hosts = Hosts(count=2, slots=2, cores=2, bandwidths_bits_per_second=(1e7, 1e8))
    scope = Scope(strategies=("one_threads",), workers=(2,), spread=hosts)
    assert [size for _, size in worlds(scope)] == [Size(2), Size(2, 2, 1e7), Size(2, 2, 1e8)]
    names = {launch.name for launch in launches_of(scope) if launch.purpose == "throughput"}
    assert {"one_threads-pathway-weak-2w-2h-10Mbit-01", "one_threads-pathway-weak-2w-1h-01"} <= names


def test_what_does_not_depend_on_the_bandwidth_is_launched_over_the_first_link_alone(known):
    hosts = Hosts(count=2, slots=2, cores=2, bandwidths_bits_per_second=(1e7, None))
    launches = launches_of(Scope(strategies=("one_threads",), workers=(2,), repetitions=1, spread=hosts))
    over_both = [launch for launch in launches if launch.hosts == 2]
    plain = [launch for launch in over_both if launch.purpose == "throughput" and has_exchange(launch.options)]
    assert {launch.bandwidth_bits_per_second for launch in plain} == {1e7, None}
    others = [launch for launch in over_both if launch not in plain]
    assert {launch.purpose for launch in others} == {"certificate", "throughput"}
    assert {launch.bandwidth_bits_per_second for launch in others} == {1e7}


@pytest.mark.parametrize(("bits", "seconds"), [(1e6, 8 * 13.4), (1e7, 20), (1e8, 20), (1e9, None), (None, None)])
def test_where_the_link_is_slow_a_launch_has_as_few_steps_as_fill_its_time(bits, seconds):
    task = dataclasses.replace(PRESETS["pathway"], workers=2)
    fitted = with_steps_for(task, Size(2, 2, bits))
    if seconds is None:
        assert fitted == task
        return
    measured = fitted.steps - fitted.warmup_steps
    assert measured == 8 * fitted.window_steps
    lasting = measured * ring_bound(1_605_632, 2, bits)
    assert seconds <= lasting <= 1.4 * seconds


def test_virtual_hosts_share_cores_and_real_ones_have_their_own(known):
    for together, oversubscribed in ((2, [False, True]), (None, [False, False])):
        scope = Scope(spread=Hosts(count=4, slots=2, cores=1, cores_together=together))
        assert [
            is_oversubscribed(scope, known["one_threads"], Size(count, count)) for count in (2, 4)
        ] == oversubscribed


def test_the_quick_profile_leaves_exchange_out_in_the_main_worlds_alone(known, cores):
    cores(8)
    without = {world_of(launch)[:2] for launch in launches_of(Scope()) if not has_exchange(launch.options)}
    assert without == {(name, 4) for name in QUICK - ALONE}


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
    assert "two_servers-pathway-weak-1w-01" in names


def test_the_table_has_the_labels(known):
    table = plan_table([whole_round(Scope(strategies=("two_servers",)), 1, random.Random(0))], 7, 0.05)
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


@pytest.mark.parametrize(("srun_starts_mpi", "workers"), [(True, 2), (True, 1), (False, 2)])
def test_over_nodes_where_srun_starts_mpi_the_full_profile_has_that_beside_mpirun(
    srun_starts_mpi, workers, declare, catalogue_of
):
    alone = declare("alone", work=Work.UNDISTRIBUTED, options=Options)
    catalogue_of(alone, declare("met", base="alone", options=MpiOptions, variants=({"backend": "mpi"},)))
    spread = Hosts(count=2, slots=1, cores=1, srun_starts_mpi=srun_starts_mpi)
    launches = launches_of(Scope(profile="full", strategies=("met",), workers=(workers,), spread=spread))
    labels = {label(each.options) for each in launches if each.purpose == "certificate"}
    by_srun = {"mpi backend, srun mpi starter"} if srun_starts_mpi and workers > 1 else set()
    assert labels == {"", "mpi backend", *by_srun}


def test_the_quick_profile_has_no_variants(known):
    assert {label(each.options) for each in launches_of(Scope(strategies=("one_threads",)))} == {""}


def test_without_an_option_to_leave_it_out_there_is_always_an_exchange(known):
    launches = launches_of(Scope(profile="full", strategies=("one_pieces",)))
    assert {has_exchange(launch.options) for launch in launches} == {True}


def test_one_worker_is_never_launched_without_exchange(known):
    launches = launches_of(Scope(profile="full", workers=(1,)))
    assert {has_exchange(launch.options) for launch in launches} == {True}


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
    assert {launch.task.preset for launch in launches if launch.purpose == "certificate"} == {"digits"}


def test_named_networks_are_clocked_and_certified_each_on_its_preset(known):
    scope = Scope(strategies=("one_threads",), workers=(2,), models=("mlp", "lenet", "mnist_cnn", "gpt"))
    launches = launches_of(scope)
    presets = {"pathway", "mnist_lenet", "mnist_cnn", "text_gpt"}
    for purpose in ("throughput", "certificate"):
        assert {launch.task.preset for launch in launches if launch.purpose == purpose} == presets
    steps = {launch.task.preset: launch.task.steps for launch in launches if launch.purpose == "certificate"}
    assert steps == {"pathway": 120, "mnist_lenet": 300, "mnist_cnn": 60, "text_gpt": 150}
    with pytest.raises(UserError, match="There is no network named 'vgg': choose some of mlp, "):
        Scope(models=("vgg",))
    with pytest.raises(UserError, match="leave --preset out"):
        Scope(models=("lenet",), preset=("wide",))


@pytest.mark.parametrize(("profile", "certified"), [("quick", {"mnist_5k"}), ("full", {"mnist_5k", "pathway"})])
def test_where_mnist_is_asked_for_accuracy_and_certificate_are_of_mnist(known, profile, certified):
    scope = Scope(profile=profile, strategies=("one_threads",), workers=(2,), preset=("mnist", "mnist_5k", "wide"))
    assert certified_presets(scope) == ("mnist_5k", "pathway")[: len(certified)]
    launches = whole_round(scope, 1, random.Random(0)).launches
    assert {launch.task.preset for launch in launches if launch.purpose == "throughput"} == {"mnist_5k", "wide"}
    tasks = [launch.task for launch in launches if launch.purpose == "certificate"]
    assert {task.preset for task in tasks} == certified
    assert {task.steps for task in tasks if task.preset == "mnist_5k"} == {300}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"strategies": ("one_thraeds",)}, "no strategy named 'one_thraeds': choose one of one_alone, one_threads"),
        ({"preset": ("imagenet",)}, "no preset named 'imagenet'"),
        ({"workers": (0,)}, "above 0"),
        ({"workers": ()}, "above 0"),
        ({"repetitions": 0}, "above 0"),
        ({"minutes": 0.0}, "--minutes 0: give a number above 0"),
        ({"minutes": float("nan")}, "--minutes nan"),
        ({"minutes": 5.0, "repetitions": 6}, "--minutes limits the quick profile alone"),
        ({"minutes": 5.0, "profile": "full"}, "--minutes limits the quick profile alone"),
        ({"address": "head:6379"}, "--address takes strategies that can go there"),
        ({"address": "head:6379", "strategies": ("one_threads",)}, "--address takes strategies that can go there"),
        ({"margin": 0.0}, "--margin 0: give a share between 0 and 1"),
        ({"margin": 5.0}, "--margin 5: give a share between 0 and 1"),
    ],
)
def test_a_scope_that_means_nothing_is_refused(known, values, words):
    with pytest.raises(UserError, match=words):
        Scope(**values)


def test_the_table_has_a_row_per_launch_in_order(known):
    rounds = [whole_round(Scope(), repetition, random.Random(0)) for repetition in (1, 2)]
    launches = [launch for each in rounds for launch in each.launches]
    table = plan_table(rounds, order_seed=7, margin=0.02)
    assert list(table["launch"]) == [launch.name for launch in launches]
    assert list(table["strategy"]) == [launch.strategy.name for launch in launches]
    assert list(table["exchange"]) == [has_exchange(launch.options) for launch in launches]
    assert list(table["position"]) == list(range(1, len(launches) + 1))
    assert list(table["repetition"]) == [launch.repetition for launch in launches]
    assert [set(table[name]) for name in ("order_seed", "margin", "stage")] == [{7}, {0.02}, {"round"}]


# The strategies that there are


def test_the_full_profile_has_every_strategy_and_a_name_of_its_own_for_every_launch():
    launches = launches_of(Scope(profile="full"))
    assert {launch.strategy.name for launch in launches} == set(catalogue.strategies())
    assert len({launch.name for launch in launches}) == len(launches)


def test_a_strategy_of_the_quick_profile_has_its_baseline_there():
    known = catalogue.strategies()
    assert any(strategy.quick_where_made for strategy in known.values())
    for strategy in known.values():
        base = known[strategy.base or strategy.name]
        assert base.quick or not strategy.quick
        assert base.quick_where_made or base.quick or not strategy.quick_where_made
