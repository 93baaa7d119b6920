"""common/sessions/comparison_scope.py: a round has what is asked for, once each, in an order that a seed decides."""

import dataclasses
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
        monkeypatch.setattr(limits, "usable_cores", lambda: count)

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


QUICK = {"one_alone", "one_threads", "two_alone", "two_replicas", "two_servers"}
ALONE = {"one_alone", "two_alone"}


def launches_of(scope, repetition=1, seed=0, purpose=None):
    launches = whole_round(scope, repetition, random.Random(seed)).launches
    return [launch for launch in launches if purpose in (None, launch.purpose)]


def worlds_of(launches):
    return {(launch.strategy.name, launch.workers) for launch in launches}


# The worlds


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


@pytest.mark.parametrize(
    ("count", "scope", "workers"),
    [
        (1, {}, dict.fromkeys(QUICK - {"two_servers"}, 1)),
        (2, {}, {"one_alone": 1, "one_threads": 2, "two_alone": 1, "two_replicas": 2}),
        (4, {}, dict.fromkeys(QUICK, 4) | dict.fromkeys(ALONE, 1) | {"two_servers": 2}),
        # Where everything is oversubscribed, the smallest world of each.
        (2, {"strategies": ("two_servers",)}, {"two_servers": 1}),
        (2, {"strategies": ("one_threads", "two_servers"), "workers": (8, 4)}, {"one_threads": 4, "two_servers": 4}),
    ],
)
def test_the_main_world_is_the_largest_with_a_core_for_each_process(known, cores, count, scope, workers):
    cores(count)
    assert {name: size.workers for name, size in main_worlds(Scope(**scope)).items()} == workers


VIRTUAL, REAL = (Hosts(count=4, slots=2, cores=1, cores_together=cores) for cores in (2, None))


@pytest.mark.parametrize(
    ("name", "spread", "fitting", "oversubscribed"),
    [
        ("one_threads", None, Size(4), Size(5)),
        ("two_servers", None, Size(2), Size(3)),
        ("one_threads", VIRTUAL, Size(2, 2), Size(4, 4)),
        ("one_threads", REAL, Size(4, 4), Size(4, 2)),
    ],
    ids=["threads of workers", "processes beside them", "virtual hosts share cores", "real ones have their own"],
)
def test_more_threads_than_cores_are_oversubscribed(known, cores, name, spread, fitting, oversubscribed):
    cores(4)
    found = [is_oversubscribed(Scope(spread=spread), known[name], size) for size in (fitting, oversubscribed)]
    assert found == [False, True]


@pytest.mark.parametrize(
    ("hosts", "placements"),
    [
        ({"count": 4, "slots": 1}, [(1, 1), (2, 2), (4, 4)]),
        ({"count": 2, "slots": 2}, [(1, 1), (2, 1), (2, 2), (4, 2)]),
        ({"count": 3, "slots": 4}, [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)]),
        (
            # In a sweep over one host and as many as can be, which alone have a link.
            {"count": 4, "slots": 4, "bandwidths_bits_per_second": (1e7, None)},
            [(1, 1), (2, 1), (2, 2, 1e7), (2, 2), (4, 1), (4, 4, 1e7), (4, 4)],
        ),
    ],
)
def test_over_hosts_workers_are_placed_evenly_on_as_many_as_have_the_slots(known, hosts, placements):
    scope = Scope(strategies=("one_threads",), workers=(1, 2, 4), spread=Hosts(cores=2, **hosts))
    assert [size for _, size in worlds(scope)] == [Size(*each) for each in placements]


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


# The launches


def test_the_quick_profile_measures_its_strategies_on_pathway_and_certifies_them_on_digits(known):
    throughput, certified = (launches_of(Scope(), purpose=purpose) for purpose in ("throughput", "certificate"))
    worlds = {(name, workers) for name in QUICK for workers in ((1,) if name in ALONE else (1, 2, 4))}
    assert worlds_of(each for each in throughput if has_exchange(each.options)) == worlds_of(certified) == worlds
    assert {(each.task.preset, each.task.scaling, label(each.options)) for each in throughput} == {
        ("pathway", "weak", "")
    }
    assert {launch.task.preset for launch in certified} == {"digits"}


@pytest.mark.parametrize(
    ("profile", "without"),
    [
        ("quick", {(name, 4) for name in QUICK - ALONE}),
        ("full", {(name, workers) for name in QUICK - ALONE | {"one_hand"} for workers in (2, 4)}),
    ],
    ids=["in their main worlds", "in every world of several workers"],
)
def test_exchange_is_left_out_of_strategies_that_have_an_option_for_it(known, cores, profile, without):
    cores(8)
    launches = launches_of(Scope(profile=profile))
    assert worlds_of(launch for launch in launches if not has_exchange(launch.options)) == without


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
    scope = Scope(profile="full", strategies=("met",), workers=(workers,), spread=spread)
    labels = {label(each.options) for each in launches_of(scope, purpose="certificate")}
    by_srun = {"mpi backend, srun mpi starter"} if srun_starts_mpi and workers > 1 else set()
    assert labels == {"", "mpi backend", *by_srun}


@pytest.mark.parametrize(
    ("profile", "presets", "asynchronous"),
    [("quick", {"digits": 300}, (1, 2)), ("full", {"digits": 300, "pathway": 120}, (1, 2, 4))],
)
def test_what_is_asynchronous_is_certified_in_both_ways_and_clocked_in_its_own(known, profile, presets, asynchronous):
    launches = launches_of(Scope(profile=profile, strategies=("two_servers",)))
    certified, expected = {}, {}
    for preset, steps in presets.items():
        expected |= {(preset, workers, "synchronous"): steps for workers in (1, 2, 4)}
        # With one worker it follows the oracle over as many steps; with more it says how well it trained.
        expected |= {(preset, workers, "asynchronous"): steps if workers == 1 else 1000 for workers in asynchronous}
    for launch in launches:
        task, updates = launch.task, launch.options.updates
        if launch.purpose == "certificate":
            certified[task.preset, launch.workers, updates] = task.steps
        else:
            assert updates == "asynchronous"
            assert task.window_steps == 4 * PRESETS[task.preset].window_steps
            assert task.steps == task.warmup_steps + 3 * task.window_steps
    assert certified == expected


@pytest.mark.parametrize("scope", [{"repetitions": 7}, {"profile": "full"}])
def test_every_round_has_the_same_launches_once_and_the_first_the_certificates(known, scope):
    rounds = [launches_of(Scope(**scope), repetition) for repetition in (1, 2, 3)]
    names = [launch.name for launches in rounds for launch in launches]
    assert len(set(names)) == len(names)
    clocked = [{each.name[:-3] for each in launches if each.purpose == "throughput"} for launches in rounds]
    assert clocked[0] == clocked[1] == clocked[2]
    assert [{each.purpose for each in launches} >= {"certificate"} for launches in rounds] == [True, False, False]


def test_the_seed_decides_the_order_in_which_families_are_mixed_and_nothing_else(known):
    first, again, other = (launches_of(Scope(), seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {launch.name for launch in first} == {launch.name for launch in other}
    titles = [launch.strategy.family.title for launch in first]
    assert sum(before != after for before, after in pairwise(titles)) > 3


@pytest.mark.parametrize(
    ("scope", "throughput", "certified"),
    [
        ({"preset": ("wide",)}, {"wide"}, {"digits": 300}),
        (
            {"models": ("mlp", "lenet", "mnist_cnn", "gpt")},
            {"pathway", "mnist_lenet", "mnist_cnn", "text_gpt"},
            {"pathway": 120, "mnist_lenet": 300, "mnist_cnn": 60, "text_gpt": 150},
        ),
        ({"preset": ("mnist", "mnist_5k", "wide")}, {"mnist_5k", "wide"}, {"mnist_5k": 300}),
        ({"preset": ("mnist",), "profile": "full"}, {"mnist_5k"}, {"mnist_5k": 300, "pathway": 120}),
    ],
    ids=[
        "a preset is clocked",
        "a network is clocked and certified on its own preset",
        "where MNIST is clocked it is certified",
        "in the full profile beside pathway",
    ],
)
def test_a_scope_narrows_the_plan(known, scope, throughput, certified):
    launches = launches_of(Scope(strategies=("one_threads",), workers=(2,), **scope))
    assert worlds_of(launches) == {("one_threads", 2)}
    assert {launch.task.preset for launch in launches if launch.purpose == "throughput"} == throughput
    steps = {launch.task.preset: launch.task.steps for launch in launches if launch.purpose == "certificate"}
    assert steps == certified


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"strategies": ("one_thraeds",)}, "no strategy named 'one_thraeds': choose one of one_alone, one_threads"),
        ({"preset": ("imagenet",)}, "no preset named 'imagenet'"),
        ({"models": ("vgg",)}, "There is no network named 'vgg': choose some of mlp, "),
        ({"models": ("lenet",), "preset": ("wide",)}, "leave --preset out"),
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
    columns = ["position", "launch", "strategy", "label", "workers", "exchange", "repetition", "purpose"]
    assert table[columns].to_numpy().tolist() == [
        [
            *(position, launch.name, launch.strategy.name, label(launch.options), launch.workers),
            *(has_exchange(launch.options), launch.repetition, launch.purpose),
        ]
        for position, launch in enumerate(launches, start=1)
    ]
    assert {*table["label"]} == {"", "synchronous updates"}
    assert [{*table[name]} for name in ("order_seed", "margin", "stage", "hosts")] == [{7}, {0.02}, {"round"}, {1}]


# The strategies that there are


def test_the_full_profile_has_every_strategy_both_scalings_three_presets_and_a_name_for_every_launch():
    launches = launches_of(Scope(profile="full"))
    assert len({launch.name for launch in launches}) == len(launches)
    clocked = [launch for launch in launches if launch.purpose == "throughput"]
    assert {launch.strategy.name for launch in clocked} == set(catalogue.strategies())
    assert {(launch.task.preset, launch.task.scaling) for launch in clocked} == {
        (preset, scaling) for preset in ("digits", "pathway", "wide") for scaling in ("weak", "strong")
    }


def test_a_strategy_of_the_quick_profile_has_its_baseline_there():
    known = catalogue.strategies()
    assert any(strategy.quick_where_made for strategy in known.values())
    for strategy in known.values():
        base = known[strategy.base or strategy.name]
        assert base.quick or not strategy.quick
        assert base.quick_where_made or base.quick or not strategy.quick_where_made
