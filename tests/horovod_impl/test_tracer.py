"""The messages of Horovod's strategies: the all-reduces that its timeline has in the traced steps."""

from types import SimpleNamespace

import pytest

from common.errors import UserError
from common.records.trace import FIRST_STEP, STEPS
from horovod_impl.strategies import TORCH, HorovodTorchOptions
from horovod_impl.timeline import Exchange
from horovod_impl.tracer import check, trace_of


def step(number, *sizes, seconds=0.001):
    """The exchanges of a step, one after another, each as long."""
    spans = [(number + part * seconds, number + (part + 1) * seconds) for part in range(len(sizes))]
    return [Exchange(span, size, "float32", number) for span, size in zip(spans, sizes, strict=True)]


def traced(*steps):
    exchanges = [exchange for each in steps for exchange in each]
    return trace_of(exchanges, strategy="horovod_torch", workers=2, library="horovod_gloo")


def run_of(backend="gloo", size=2, **options):
    return SimpleNamespace(options=HorovodTorchOptions(**options), world=SimpleNamespace(backend=backend, size=size))


def test_the_messages_are_those_that_most_of_the_traced_steps_have():
    trace = traced(step(FIRST_STEP, 8, 32), step(FIRST_STEP + 1, 40), step(FIRST_STEP + 2, 40))
    assert [(message.collective, message.size_bytes) for message in trace.messages] == [("all_reduce", 40)]
    assert "2 of 3 steps" in trace.source


def test_only_the_messages_of_the_traced_steps_count_with_their_time_under_way():
    before = [step(number, 1) for number in range(1, FIRST_STEP)]
    after = [step(FIRST_STEP + STEPS + number, 2) for number in range(20)]
    trace = traced(*before, *(step(FIRST_STEP + number, 8, 32, seconds=0.002) for number in range(STEPS)), *after)
    assert [message.size_bytes for message in trace.messages] == [8, 32]
    assert trace.under_way_seconds == pytest.approx([0.004] * STEPS)
    with pytest.raises(UserError, match="train more steps"):
        traced(step(1, 40))


@pytest.mark.parametrize(
    ("run", "remedy"),
    [
        (run_of(trace=False), "add --trace"),
        (run_of(trace=True, exchange=False), "One worker, or --no-exchange"),
        (run_of(trace=True, size=1), "One worker, or --no-exchange"),
        (run_of(trace=True, adasum=True, backend="mpi"), "--adasum"),
        (run_of(trace=True, backend="nccl, gloo controller"), "add --device cpu"),
    ],
)
def test_a_run_without_messages_to_replay_is_refused(run, remedy):
    check(run_of(**TORCH.family.traced_with))
    with pytest.raises(UserError, match=remedy):
        check(run)
