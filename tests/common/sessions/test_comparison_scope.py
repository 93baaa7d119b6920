"""common/sessions/comparison_scope.py: a round has what is asked for, once each, in an order that a seed decides."""

import dataclasses
import itertools
import random
import re

import pytest

from common.contract.task import PRESETS
from common.declarations import catalogue
from common.declarations.strategy import has_exchange, label
from common.errors import UserError
from common.launching.planned import Hosts, Size
from common.measurement import limits
from common.records.metrics import ring_bound
from common.sessions import comparison_scope
from common.sessions.comparison_scope import Scope, not_made, whole_round, worlds


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr(limits, "usable_cores", lambda: 2)


QUICK = {"one_alone", "one_threads", "two_alone", "two_replicas", "two_servers"}
ALONE = {"one_alone", "two_alone"}


def launches_of(scope, repetition=1, seed=0):
    return whole_round(scope, repetition, random.Random(seed)).launches


# The worlds


def test_what_is_quick_where_it_is_made_is_left_out_with_the_remedy_elsewhere(
    strategies_of_each_kind, declare, catalogue_of
):
    family = dataclasses.replace(declare().family, environment="elsewhere", imports="no_such_module")
    made = declare("three_made", base="one_alone", quick_where_made=True)
    unmade = declare("three_unmade", base="one_alone", quick_where_made=True, family=family)
    catalogue_of(*strategies_of_each_kind.values(), made, unmade)
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
def test_the_main_world_is_the_largest_with_a_core_for_each_process(
    strategies_of_each_kind, monkeypatch, count, scope, workers
):
    monkeypatch.setattr(limits, "usable_cores", lambda: count)
    assert {name: size.workers for name, size in comparison_scope.main_worlds(Scope(**scope)).items()} == workers


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
def test_more_threads_than_cores_are_oversubscribed(
    strategies_of_each_kind, monkeypatch, name, spread, fitting, oversubscribed
):
    monkeypatch.setattr(limits, "usable_cores", lambda: 4)
    scope = Scope(spread=spread)
    assert not comparison_scope.is_oversubscribed(scope, strategies_of_each_kind[name], fitting)
    assert comparison_scope.is_oversubscribed(scope, strategies_of_each_kind[name], oversubscribed)


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
def test_over_hosts_workers_are_placed_evenly_on_as_many_as_have_the_slots(strategies_of_each_kind, hosts, placements):
    scope = Scope(strategies=("one_threads",), workers=(1, 2, 4), spread=Hosts(cores=2, **hosts))
    assert [size for _, size in worlds(scope)] == [Size(*each) for each in placements]


@pytest.mark.parametrize(("bits", "seconds"), [(1e6, 8 * 13.4), (1e7, 20), (1e8, 20), (1e9, None), (None, None)])
def test_where_the_link_is_slow_a_launch_has_as_few_steps_as_fill_its_time(bits, seconds):
    task = dataclasses.replace(PRESETS["pathway"], workers=2)
    fitted = comparison_scope.with_steps_for(task, Size(2, 2, bits))
    if seconds is None:
        assert fitted == task
        return
    measured = fitted.steps - fitted.warmup_steps
    assert measured == 8 * fitted.window_steps
    lasting = measured * ring_bound(1_605_632, 2, bits)
    assert seconds <= lasting <= 1.4 * seconds


# The launches


LINKS = Hosts(count=2, slots=2, cores=2, bandwidths_bits_per_second=(1e7, None))
BY_SRUN = Hosts(count=2, slots=1, cores=1, srun_starts_mpi=True)


def expanded(text):
    """Words of which each stands for several, as a shell has it: `a-{1,2}` is a-1 and a-2."""
    pieces = [[piece.split(",") for piece in re.split("[{}]", word)] for word in text.split()]
    return ["".join(each) for of_word in pieces for each in itertools.product(*of_word)]


@pytest.mark.parametrize(
    ("name", "scope", "launches"),
    [
        ("one_alone", {}, "digits-strong-1w-certificate pathway-weak-1w-01"),
        # Without exchange in the largest world that has a core for each process.
        ("one_threads", {}, "digits-strong-{1w,2w,4w}-certificate pathway-weak-{1w,2w,4w,2w-no_exchange}-01"),
        ("one_pieces", {}, "digits-strong-{1w,2w,4w}-certificate pathway-weak-{1w,2w,4w}-01"),
        (
            "two_servers",
            {},
            "digits-strong-{1w,2w}-certificate digits-strong-{1w,2w,4w}-synchronous_updates-certificate "
            "pathway-weak-{1w,2w,4w}-01",
        ),
        (
            "two_servers",
            {"profile": "full", "preset": ("wide",)},
            "{digits,pathway}-strong-{1w,2w,4w}-{,synchronous_updates-}certificate "
            "wide-{weak,strong}-{1w,2w,4w,2w-no_exchange,4w-no_exchange}-01",
        ),
        (
            "one_threads",
            {"profile": "full", "preset": ("wide",), "workers": (2,)},
            "{digits,pathway}-strong-2w-{,1_prefetch-,fp16_codec-other_maths-}certificate "
            "wide-{weak,strong}-2w-{,1_prefetch-,fp16_codec-other_maths-}{,no_exchange-}01",
        ),
        # What doesn't depend on the bandwidth is launched over the first link alone.
        (
            "one_threads",
            {"workers": (2,), "spread": LINKS},
            "digits-strong-2w-{1h,2h-10Mbit}-certificate pathway-weak-2w-{1h,2h,2h-10Mbit,2h-10Mbit-no_exchange}-01",
        ),
        # Where srun starts MPI it does so beside mpirun.
        (
            "one_met",
            {"profile": "full", "preset": ("wide",), "spread": BY_SRUN},
            "{digits,pathway}-strong-{1w-1h,2w-2h}-{,mpi_backend-}certificate "
            "{digits,pathway}-strong-2w-2h-mpi_backend-srun_mpi_starter-certificate "
            "wide-{weak,strong}-1w-1h-{,mpi_backend-}01 "
            "wide-{weak,strong}-2w-2h-{,mpi_backend-,mpi_backend-srun_mpi_starter-}{,no_exchange-}01",
        ),
        (
            "one_met",
            {"profile": "full", "preset": ("wide",), "spread": dataclasses.replace(BY_SRUN, srun_starts_mpi=False)},
            "{digits,pathway}-strong-{1w-1h,2w-2h}-{,mpi_backend-}certificate "
            "wide-{weak,strong}-{1w-1h,2w-2h,2w-2h-no_exchange}-01 "
            "wide-{weak,strong}-{1w-1h-mpi_backend,2w-2h-mpi_backend,2w-2h-mpi_backend-no_exchange}-01",
        ),
        # A network is clocked and certified on its own preset, and MNIST where it is clocked.
        (
            "one_threads",
            {"models": ("mlp", "lenet", "mnist_cnn", "gpt"), "workers": (1,)},
            "{pathway,mnist_lenet,mnist_cnn,text_gpt}-{strong-1w-certificate,weak-1w-01}",
        ),
        (
            "one_threads",
            {"preset": ("mnist", "mnist_5k", "wide"), "workers": (1,)},
            "mnist_5k-strong-1w-certificate {mnist_5k,wide}-weak-1w-01",
        ),
        (
            "one_hand",
            {"profile": "full", "preset": ("mnist",), "workers": (1,)},
            "{mnist_5k,pathway}-strong-1w-certificate mnist_5k-{weak,strong}-1w-01",
        ),
    ],
)
def test_a_scope_has_these_launches_in_its_first_round_and_no_others(strategies_of_each_kind, name, scope, launches):
    found = launches_of(Scope(strategies=(name,), **scope))
    assert sorted(launch.name for launch in found) == sorted(f"{name}-{each}" for each in expanded(launches))


def test_what_is_asynchronous_is_clocked_in_longer_windows_and_certified_over_more_steps(strategies_of_each_kind):
    for launch in launches_of(Scope(profile="full", strategies=("two_servers",))):
        task, updates = launch.task, launch.options.updates
        if launch.purpose == "throughput":
            assert updates == "asynchronous"
            assert task.window_steps == 4 * PRESETS[task.preset].window_steps
            assert task.steps == task.warmup_steps + 3 * task.window_steps
        elif updates == "synchronous" or launch.workers == 1:
            # With one worker it follows the oracle over as many steps; with more it says how well it trained.
            assert task.steps == {"digits": 300, "pathway": 120}[task.preset]
        else:
            assert task.steps == 1000


@pytest.mark.parametrize("scope", [{"repetitions": 7}, {"profile": "full"}])
def test_every_round_has_the_same_launches_once_in_an_order_of_its_seed_and_the_first_the_certificates(
    strategies_of_each_kind, scope
):
    first, second, again, other = (
        launches_of(Scope(**scope), repetition, seed) for repetition, seed in ((1, 1), (2, 1), (2, 1), (2, 2))
    )
    assert second == again != other
    names = {launch.name for launch in second}
    assert names == {launch.name for launch in other}
    assert len(names) == len(second)
    clocked = {launch.name for launch in first if launch.purpose == "throughput"}
    assert names == {f"{name.removesuffix('01')}02" for name in clocked}
    assert {launch.purpose for launch in first} == {"throughput", "certificate"}
    # Families are mixed.
    titles = [launch.strategy.family.title for launch in second]
    assert sum(before != after for before, after in itertools.pairwise(titles)) > 3


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"strategies": ("one_thraeds",)}, "no strategy named 'one_thraeds': choose one of one_alone, one_threads"),
        ({"preset": ("imagenet",)}, "no preset named 'imagenet'"),
        ({"models": ("vgg",)}, "There is no network named 'vgg': choose some of mlp, "),
        ({"models": ("lenet",), "preset": ("wide",)}, "leave --preset out"),
        ({"workers": (0,)}, "above 0"),
        ({"repetitions": 0}, "above 0"),
        ({"minutes": float("nan")}, "--minutes nan"),
        ({"minutes": 5.0, "repetitions": 6}, "--minutes limits the quick profile alone"),
        ({"minutes": 5.0, "profile": "full"}, "--minutes limits the quick profile alone"),
        ({"address": "head:6379"}, "--address takes strategies that can go there"),
        ({"address": "head:6379", "strategies": ("one_threads",)}, "--address takes strategies that can go there"),
        ({"margin": 0.0}, "--margin 0: give a share between 0 and 1"),
    ],
)
def test_a_scope_that_means_nothing_is_refused(strategies_of_each_kind, values, words):
    with pytest.raises(UserError, match=words):
        Scope(**values)


def test_the_table_has_a_row_per_launch_in_order(strategies_of_each_kind):
    rounds = [whole_round(Scope(), repetition, random.Random(0)) for repetition in (1, 2)]
    launches = [launch for each in rounds for launch in each.launches]
    table = comparison_scope.plan_table(rounds, order_seed=7, margin=0.02)
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
