"""common/declarations/strategy.py: what a declaration says of a strategy's options, launches, traffic and names."""

import os

import pytest

from common.declarations import strategy
from common.declarations.strategy import ExchangeOptions, Options, ReplicaOptions, label, other_maths


def test_a_choice_that_cannot_be_meant_is_refused(declare, refusal):
    options = declare().options
    assert refusal(lambda: options(codec="int8")) == "--codec int8: choose one of none, fp16."
    said = "--check-replicas with --no-exchange: replicas that don't exchange differ; leave one out."
    assert refusal(lambda: options(check_replicas=True, exchange=False)) == said


def test_options_say_whether_gradients_are_exchanged_and_the_maths_changed(declare):
    assert strategy.has_exchange(Options())
    assert strategy.has_exchange(ExchangeOptions())
    assert not strategy.has_exchange(ReplicaOptions(exchange=False))
    options = declare().options
    assert other_maths(options()) == other_maths(options(packed=False, exchange=False)) == []
    assert other_maths(options(codec="fp16", packed=False)) == ["codec"]
    assert declare().traffic(1000, 4, Options()) == strategy.Traffic(None, "no formula is declared")


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


def test_a_strategy_is_synchronous_with_all_values_that_it_declares(declare):
    declared = declare(synchronous_with={"packed": True, "codec": "none"})
    chosen = ({}, {"packed": False}, {"codec": "fp16"})
    assert [declared.is_synchronous(declared.options(**each)) for each in chosen] == [True, False, False]


def test_in_a_ring_all_reduce_each_worker_sends_twice_the_gradients_but_for_one_share():
    for workers, sent in ((1, 0), (2, 2000), (4, 6000), (5, 8000)):
        traffic = strategy.ring_all_reduce(1000, workers, Options())
        assert traffic.bytes_per_step == sent == pytest.approx(workers * 2 * (workers - 1) / workers * 1000)
    assert "2 (N - 1)" in traffic.formula
    assert "Patarasuk & Yuan" in traffic.source
    # From host to host.
    assert [strategy.ring_all_reduce(1000, 4, Options(), hosts).bytes_per_step for hosts in (2, 4)] == [3000, 6000]


def test_mpirun_is_the_environments_own_or_else_the_systems_and_root_has_to_say_that_it_may(
    tmp_path, monkeypatch, refusal
):
    python = tmp_path / "numpy-alone" / "bin" / "python"
    launch = strategy.Launch(python, ["numpy_impl/threads.py"], 4, 29500, Options())
    own, systems = (tmp_path / folder / "mpirun" for folder in ("numpy-alone/bin", "system"))
    monkeypatch.setenv("PATH", str(systems.parent))
    said = refusal(lambda: strategy.mpirun(launch))
    assert said == "There is no mpirun: run `nox -s numpy-alone` once, or install Open MPI."
    for path in (systems, own):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
        assert strategy.mpirun(launch)[0] == str(path)
    for user, is_told in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert ("--allow-run-as-root" in strategy.mpirun(launch)) is is_told
