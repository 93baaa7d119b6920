"""common/declarations/strategy.py: what a declaration says of a strategy's options, launches, traffic and names."""

import os
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.command_line import option_name
from common.contract.task import Task
from common.contract.work import Work
from common.declarations.strategy import (
    PROCESS,
    ExchangeOptions,
    Launch,
    Options,
    ReplicaOptions,
    Traffic,
    halved,
    has_exchange,
    label,
    mpirun,
    name_of,
    nothing_sent,
    option,
    other_maths,
    ring_all_reduce,
)

INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


# Options


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"prefetch": -1}, "--prefetch -1: give 0 or more."),
        ({"piece_megabytes": 0.0}, "--piece-megabytes 0.0: give a number above 0."),
        ({"piece_megabytes": -1.0}, "--piece-megabytes -1.0: give a number above 0."),
        ({"piece_megabytes": INFINITE}, "--piece-megabytes inf: give a number above 0."),
        ({"piece_megabytes": NOT_A_NUMBER}, "--piece-megabytes nan: give a number above 0."),
        ({"codec": "int8"}, "--codec int8: choose one of none, fp16."),
        (
            {"check_replicas": True, "exchange": False},
            "--check-replicas with --no-exchange: replicas that don't exchange differ; leave one out.",
        ),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_what_to_give_instead(declare, refusal, values, said):
    assert refusal(lambda: declare().options(**values)) == said


@dataclass(frozen=True, kw_only=True)
class Bounded(Options):
    pause_seconds: float | None = option(None, at_least=0.5)


@pytest.mark.parametrize("value", [0.499, INFINITE, -INFINITE, NOT_A_NUMBER])
def test_a_bound_may_be_a_fraction_and_excludes_what_is_no_number(refusal, value):
    assert refusal(lambda: Bounded(pause_seconds=value)).endswith("give 0.5 or more.")


def test_values_at_their_bounds_and_none_are_accepted(declare):
    assert Bounded(pause_seconds=0.5).pause_seconds == 0.5
    assert Bounded().pause_seconds is None
    options = declare().options(prefetch=0, piece_megabytes=1e-9, check_replicas=True)
    assert (options.prefetch, options.piece_megabytes) == (0, 1e-9)


def test_a_field_is_an_option_with_hyphens():
    assert option_name("batch") == "--batch"
    assert option_name("piece_megabytes") == "--piece-megabytes"


def test_gradients_are_exchanged_unless_an_option_says_otherwise():
    assert has_exchange(Options())
    assert has_exchange(ExchangeOptions())
    assert not has_exchange(ReplicaOptions(exchange=False))


# Labels and names


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ""),
        ({"exchange": False}, ""),
        ({"check_replicas": True}, "check_replicas"),
        ({"packed": False, "prefetch": 2}, "no packed, 2 prefetch"),
        ({"piece_megabytes": 0.5}, "0.5 piece megabytes"),
        ({"codec": "fp16"}, "fp16 codec, other maths"),
        ({"codec": "fp16", "prefetch": 1, "exchange": False}, "1 prefetch, fp16 codec, other maths"),
    ],
)
def test_options_that_differ_from_their_default_stand_in_the_label_in_words(declare, values, words):
    assert label(declare().options(**values)) == words


def test_a_strategy_without_options_has_no_label():
    assert label(Options()) == ""


VALUES = st.fixed_dictionaries(
    {
        "packed": st.booleans(),
        "prefetch": st.integers(0, 3),
        "piece_megabytes": st.none() | st.sampled_from([0.5, 1.0]),
        "codec": st.sampled_from(["none", "fp16"]),
    }
)


@given(VALUES, VALUES)
def test_launches_of_other_options_never_have_the_same_label(declare, one, other):
    options = declare().options
    assert (label(options(**one)) == label(options(**other))) == (one == other)


def test_launches_are_called_by_the_strategy_and_the_label():
    assert name_of("numpy_threads", "") == "numpy_threads"
    assert name_of("numpy_threads", "no packed, 2 prefetch") == "numpy_threads, no packed, 2 prefetch"


def test_options_that_change_the_maths_are_named_where_they_are_not_at_their_default(declare):
    options = declare().options
    assert other_maths(options()) == other_maths(options(packed=False, exchange=False)) == []
    assert other_maths(options(codec="fp16", packed=False)) == ["codec"]


# Declarations


def test_a_strategy_is_synchronous_with_the_values_that_it_declares(declare):
    always, sometimes = declare(), declare(synchronous_with={"packed": True, "codec": "none"})
    options = always.options
    assert always.is_synchronous(options(packed=False))
    assert sometimes.is_synchronous(options())
    assert not sometimes.is_synchronous(options(packed=False))
    assert not sometimes.is_synchronous(options(codec="fp16"))


@pytest.mark.parametrize("work", Work)
def test_only_what_distributes_nothing_is_bound_to_a_number_of_workers(declare, work):
    assert declare(work=work).most_workers == (1 if work is Work.UNDISTRIBUTED else None)


def test_a_declaration_can_be_looked_up_by_whoever_keeps_something_for_it(declare):
    one, other = declare(synchronous_with={"packed": True}), declare(compared_with={"convenience of": "another"})
    assert {one: 1, other: 2}[one] == 1


def test_a_strategy_that_declares_no_check_refuses_nothing(declare):
    strategy = declare()
    strategy.check(Task(), strategy.options(), 1000, 0)


# Traffic


def test_replicas_in_one_process_send_nothing():
    assert nothing_sent(1000, 4, Options()).bytes_per_step == 0


@pytest.mark.parametrize(("workers", "sent"), [(1, 0), (2, 2000), (4, 6000), (5, 8000)])
def test_in_a_ring_all_reduce_all_workers_send_twice_the_gradients_but_for_one_share(workers, sent):
    traffic = ring_all_reduce(1000, workers, Options())
    assert traffic.bytes_per_step == sent
    # Each sends 2 (N - 1) / N times the gradients.
    assert traffic.bytes_per_step / workers == pytest.approx(2 * (workers - 1) / workers * 1000)
    assert "2 (N - 1)" in traffic.formula
    assert "Patarasuk & Yuan" in traffic.source


def test_values_of_16_bits_are_half_of_the_traffic():
    whole = ring_all_reduce(1000, 4, Options())
    half = halved(whole)
    assert half.bytes_per_step == whole.bytes_per_step / 2
    assert half.formula.startswith("half of 2 (N - 1)")
    assert half.source == whole.source


def test_a_strategy_that_declares_no_formula_claims_no_bytes(declare):
    assert declare().traffic(1000, 4, Options()) == Traffic(None, "no formula is declared")


def test_traffic_needs_no_source():
    assert Traffic(None, "none").source == ""


# Launchers


def launch_of(folder, workers=4, script=("numpy_impl/threads.py", "--batch", "32")):
    return Launch(folder / "numpy-alone" / "bin" / "python", list(script), workers, 29500, Options())


def test_a_single_process_is_started_by_hand(tmp_path):
    python = str(tmp_path / "numpy-alone" / "bin" / "python")
    assert PROCESS.command(launch_of(tmp_path)) == [python, "numpy_impl/threads.py", "--batch", "32"]


def test_a_launcher_is_found_beside_the_environments_python(tmp_path):
    assert launch_of(tmp_path).program("torchrun") == str(tmp_path / "numpy-alone" / "bin" / "torchrun")


@pytest.fixture
def environments_mpirun(tmp_path):
    """An mpirun beside the Python of an environment."""
    path = tmp_path / "numpy-alone" / "bin" / "mpirun"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    return path


def test_over_mpi_the_workers_are_started_by_the_environments_mpirun_which_pins_none_of_them(
    tmp_path, environments_mpirun, monkeypatch
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert mpirun(launch_of(tmp_path)) == [
        *(str(environments_mpirun), "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np", "4"),
        *(str(tmp_path / "numpy-alone" / "bin" / "python"), "numpy_impl/threads.py", "--batch", "32"),
    ]


def test_mpirun_is_told_that_root_may_start_it_only_where_root_does(tmp_path, environments_mpirun, monkeypatch):
    for user, is_told in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert ("--allow-run-as-root" in mpirun(launch_of(tmp_path))) is is_told


def test_where_the_environment_has_no_mpirun_the_systems_is_taken(tmp_path, monkeypatch):
    system = tmp_path / "system" / "mpirun"
    system.parent.mkdir()
    system.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(system.parent))
    assert mpirun(launch_of(tmp_path))[0] == str(system)


def test_without_mpirun_mpi_is_refused_with_what_brings_it(tmp_path, monkeypatch, refusal):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(lambda: mpirun(launch_of(tmp_path))) == (
        "There is no mpirun: run `nox -s numpy-alone` once, or install Open MPI."
    )
