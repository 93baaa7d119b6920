"""The launches of a session of collectives; and one as a user starts it: over a slow link, and among four ranks."""

import sys

import pytest

from common.declarations import catalogue
from common.laboratory import collectives
from common.laboratory.collectives import EXPERIMENT, Scope, launches
from common.launching.launch import python_for
from common.launching.planned import Hosts
from common.records.collective_times import CollectivesRecord
from common.records.files import read_records
from common.sessions.experiment import observed_of
from tests.conftest import run_command
from tests.hosts import cluster_of, require_ssh
from tests.launching import require_private_networks

WITH_FORMULA = [
    library
    for library in catalogue.libraries().values()
    if not library.needs_gpus
    and not library.one_process
    and (algorithm := library.algorithm("all_reduce", 2**20))
    and algorithm.sent_bytes
    # Of the algorithms by hand the one with a formula of its own.
    and (library.by_default or library.name == "recursive_doubling")
]


[IN_ONE_PROCESS, *_] = [name for name, library in catalogue.libraries().items() if library.one_process]

LINKS = Hosts(2, slots=2, cores=1, bandwidths_bits_per_second=(1e8, None))


@pytest.mark.parametrize(
    ("libraries", "gpus", "spread", "rounds"),
    [
        ("gloo mpi", 0, None, ["2w 4w", "2w 4w"]),
        # What joins GPUs is launched once where there are too few.
        ("nccl", 4, None, ["2w 4w", "2w 4w"]),
        ("nccl", 3, None, ["2w 4w", "2w"]),
        # Every placement and link is a launch of its own.
        ("gloo mpi", 0, LINKS, ["2w-1h 2w-2h 2w-2h-100Mbit 4w-2h 4w-2h-100Mbit"] * 2),
        # One process is launched once over several hosts.
        (IN_ONE_PROCESS, 0, Hosts(2, slots=4, cores=1), ["2w-1h 2w-2h 4w-1h 4w-2h", "2w-1h 4w-1h"]),
    ],
)
def test_a_round_has_every_launch_that_can_be_once(monkeypatch, libraries, gpus, spread, rounds):
    monkeypatch.setattr(collectives.machine, "gpu_names", lambda: ["a GPU"] * gpus)
    scope = Scope(libraries=tuple(libraries.split()), workers=(2, 4), spread=spread)
    for number, names in enumerate(rounds, start=1):
        found = sorted(launch.name for launch in launches(scope, number))
        assert found == [f"{library}-{name}-{number:02d}" for library in scope.libraries for name in names.split()]


def test_an_algorithm_by_hand_is_launched_only_where_it_is_named():
    by_default = {library.name for library in catalogue.libraries().values() if library.by_default}
    assert {library.name for library in Scope().chosen} == by_default
    assert [library.name for library in Scope(libraries=("ring",)).chosen] == ["ring"]


@pytest.mark.parametrize(
    ("scope", "ranks", "sizes"),
    [
        (Scope(), (2,), [8, 4096, 262_144, 4_194_304]),
        (Scope(profile="full"), (2, 4), [2**power for power in range(3, 27)]),
        (Scope(min_bytes="1K", max_bytes="4K"), (2,), [1024, 2048, 4096]),
        (Scope(sizes=("8", "1M"), workers=(4,)), (4,), [8, 2**20]),
    ],
)
def test_ranks_and_sizes_are_the_profiles_or_a_series_or_those_that_are_named(scope, ranks, sizes):
    assert (scope.ranks, scope.sweep(2).size_bytes) == (ranks, sizes)


def session(folder, *options):
    where = ["--results", str(folder), "--out", str(folder / "report.pdf")]
    few = ["--repetitions", "1", "--collectives", "all_reduce", "--warmup-iterations", "1", *options]
    command = [sys.executable, "-m", "common.laboratory.collectives", *where, *few]
    status, output = run_command(command, deadline_seconds=900)
    assert status == 0, output
    [results] = folder.glob("*-collectives")
    return read_records(results, CollectivesRecord)


def by_series(records, measure):
    """By library the number of this measure."""
    observed = observed_of(EXPERIMENT, records).observed
    own = observed[observed["measure"] == measure]
    return dict(zip(own["series"], own["value"], strict=True))


@pytest.mark.grid
def test_four_ranks_send_what_the_formula_says(tmp_path):
    for library in WITH_FORMULA:
        python_for(library)
    require_private_networks()
    names = [library.name for library in WITH_FORMULA]
    records = session(tmp_path, "--libraries", *names, "--workers", "4", "--sizes", "1M", "-n", "3")
    sent, formula = (by_series(records, measure) for measure in ("sent_bytes_per_rank", "formula_bytes_per_rank"))
    assert sent.keys() == {*names}
    assert sent == pytest.approx(formula, rel=0.03)


@pytest.mark.hosts
def test_a_shaped_link_shows_as_its_rate(tmp_path):
    require_ssh()
    with cluster_of(2):
        python_for(WITH_FORMULA[0])
    hosts = ["--virtual-hosts", "2", "--bandwidth", "100mbit"]
    records = session(tmp_path, "--libraries", WITH_FORMULA[0].name, *hosts, "--sizes", "4M", "-n", "5")
    [record] = [record for record in records.values() if len(record.hosts) == 2]
    [formula], [seconds] = (by_series({"": record}, each).values() for each in ("formula_bytes_per_rank", "seconds"))
    assert formula / seconds == pytest.approx(100e6 / 8 * 1448 / 1514, rel=0.1)
    assert record.link.bytes_per_second == pytest.approx(100e6 / 8 * 1448 / 1514, rel=0.1)
    assert {*observed_of(EXPERIMENT, {"": record}).observed["world"]} == {"2 ranks, 2 hosts, 100 Mbit/s, cpu, float32"}
