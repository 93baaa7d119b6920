"""The launches of a session: rounds of every library, shuffled, and what each measures."""

import pytest

from common.contract.collectives import Collective
from common.declarations import catalogue
from common.errors import UserError
from common.launching.planned import Hosts
from common.sessions.collectives_plan import Scope, rounds

GPUS = 8


def names(scope, seed=0, gpus=GPUS):
    return [[launch.name for launch in launches] for launches in rounds(scope, seed, gpus)]


def test_every_round_has_every_library_with_every_number_of_ranks_once():
    scope = Scope(libraries=("gloo", "mpi"), workers=(2, 4), repetitions=3)
    for number, launches in enumerate(names(scope), start=1):
        assert sorted(launches) == sorted(
            f"{library}-{workers}w-{number:02d}" for library in ("gloo", "mpi") for workers in (2, 4)
        )


def test_the_seed_decides_the_order_and_rounds_differ_in_it():
    scope = Scope(workers=(2, 3, 4, 5), repetitions=4)
    assert names(scope, seed=1) == names(scope, seed=1) != names(scope, seed=2)
    orders = [[name.rsplit("-", 1)[0] for name in launches] for launches in names(scope)]
    assert len({tuple(order) for order in orders}) > 1


def test_a_library_that_joins_gpus_is_launched_once_where_there_are_none():
    scope = Scope(libraries=("nccl",), repetitions=3)
    assert list(map(len, rounds(scope, 0, gpus=0))) == [1, 0, 0]
    assert list(map(len, rounds(scope, 0, gpus=2))) == [1, 1, 1]


def test_quick_and_full_measure_what_they_say():
    quick, full = Scope().sweep(2), Scope(profile="full").sweep(4)
    assert quick.size_bytes == [8, 4096, 262_144, 4_194_304]
    assert [*quick.collectives] == [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.BROADCAST]
    assert (Scope().ranks, Scope().rounds) == ((2,), 6)
    assert (full.size_bytes[0], full.size_bytes[-1], len(full.size_bytes)) == (8, 2**26, 24)
    assert [*full.collectives] == [*Collective]
    assert (Scope(profile="full").ranks, Scope(profile="full").rounds) == ((2, 4), 10)


def test_a_series_of_sizes_takes_the_place_of_the_profiles():
    assert Scope(min_bytes="1K", max_bytes="4K").sweep(2).size_bytes == [1024, 2048, 4096]
    assert Scope(sizes=("8", "1M")).sweep(2).size_bytes == [8, 2**20]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"libraries": ("glue",)}, "no library of collectives named 'glue'"),
        ({"workers": (1,)}, "two ranks at least"),
        ({"repetitions": 0}, "--repetitions 0"),
        ({"sizes": ("8",), "min_bytes": "8"}, "--sizes and --min-bytes"),
        ({"min_bytes": "eight"}, "isn't a size"),
        ({"min_bytes": "6"}, "aren't a whole number of float32"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(wrong, said):
    with pytest.raises(UserError, match=said):
        Scope(**wrong)


def test_over_hosts_every_placement_and_link_is_a_launch_of_its_own():
    spread = Hosts(2, slots=2, cores=1, bandwidths_bits_per_second=(1e8, None))
    [launches] = names(Scope(libraries=("gloo",), repetitions=1, spread=spread))
    assert sorted(launches) == ["gloo-2w-1h-01", "gloo-2w-2h-01", "gloo-2w-2h-100Mbit-01"]


def test_a_library_within_one_process_is_launched_once_over_several_hosts():
    [alone, *_] = [name for name, library in catalogue.libraries().items() if library.one_process]
    spread = Hosts(2, slots=2, cores=1)
    first, second = names(Scope(libraries=(alone,), repetitions=2, spread=spread))
    assert sorted(first) == [f"{alone}-2w-1h-01", f"{alone}-2w-2h-01"]
    assert second == [f"{alone}-2w-1h-02"]
