"""common/declarations/strategy.py: what a declaration says of a strategy's options, launches, traffic and names."""

import os
from dataclasses import dataclass

import pytest

from common.declarations.strategy import (
    PROCESS,
    ExchangeOptions,
    Launch,
    Options,
    ReplicaOptions,
    Traffic,
    has_exchange,
    label,
    mpirun,
    option,
    other_maths,
    ring_all_reduce,
)

INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"prefetch": -1}, "--prefetch -1: give 0 or more."),
        ({"piece_megabytes": 0.0}, "--piece-megabytes 0.0: give a number above 0."),
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


def test_a_bound_may_be_a_fraction_and_values_at_bounds_and_none_are_accepted(declare, refusal):
    @dataclass(frozen=True, kw_only=True)
    class Bounded(Options):
        pause_seconds: float | None = option(None, at_least=0.5)

    for value in (0.499, INFINITE, -INFINITE, NOT_A_NUMBER):
        assert refusal(lambda value=value: Bounded(pause_seconds=value)).endswith("give 0.5 or more.")
    assert [Bounded().pause_seconds, Bounded(pause_seconds=0.5).pause_seconds] == [None, 0.5]
    options = declare().options(prefetch=0, piece_megabytes=1e-9, check_replicas=True)
    assert (options.prefetch, options.piece_megabytes) == (0, 1e-9)


def test_options_say_whether_gradients_are_exchanged_and_the_maths_changed(declare):
    assert has_exchange(Options())
    assert has_exchange(ExchangeOptions())
    assert not has_exchange(ReplicaOptions(exchange=False))
    options = declare().options
    assert other_maths(options()) == other_maths(options(packed=False, exchange=False)) == []
    assert other_maths(options(codec="fp16", packed=False)) == ["codec"]
    assert declare().traffic(1000, 4, Options()) == Traffic(None, "no formula is declared")


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


def test_a_strategy_is_synchronous_with_the_values_that_it_declares(declare):
    always, sometimes = declare(), declare(synchronous_with={"packed": True, "codec": "none"})
    options = always.options
    assert always.is_synchronous(options(packed=False))
    assert sometimes.is_synchronous(options())
    assert not sometimes.is_synchronous(options(packed=False))
    assert not sometimes.is_synchronous(options(codec="fp16"))


def test_in_a_ring_all_reduce_each_worker_sends_twice_the_gradients_but_for_one_share():
    for workers, sent in ((1, 0), (2, 2000), (4, 6000), (5, 8000)):
        traffic = ring_all_reduce(1000, workers, Options())
        assert traffic.bytes_per_step == sent == pytest.approx(workers * 2 * (workers - 1) / workers * 1000)
    assert "2 (N - 1)" in traffic.formula
    assert "Patarasuk & Yuan" in traffic.source


def launch_of(folder):
    python = folder / "numpy-alone" / "bin" / "python"
    return Launch(python, ["numpy_impl/threads.py", "--batch", "32"], 4, 29500, Options())


def test_a_single_process_is_started_by_hand(tmp_path):
    python = str(tmp_path / "numpy-alone" / "bin" / "python")
    assert PROCESS.command(launch_of(tmp_path)) == [python, "numpy_impl/threads.py", "--batch", "32"]


def test_mpirun_is_the_environments_own_or_else_the_systems_and_root_has_to_say_that_it_may(
    tmp_path, monkeypatch, refusal
):
    own, systems = (tmp_path / folder / "mpirun" for folder in ("numpy-alone/bin", "system"))
    monkeypatch.setenv("PATH", str(systems.parent))
    said = refusal(lambda: mpirun(launch_of(tmp_path)))
    assert said == "There is no mpirun: run `nox -s numpy-alone` once, or install Open MPI."
    for path in (systems, own):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
        assert mpirun(launch_of(tmp_path))[0] == str(path)
    for user, is_told in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert ("--allow-run-as-root" in mpirun(launch_of(tmp_path))) is is_told
