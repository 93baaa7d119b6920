"""The PyTorch tracer: what it makes of the profiler's events, and what of them is refused."""

from dataclasses import replace

import pytest

from common.errors import UserError
from common.records.trace import Message
from pytorch_impl.tracer import BETWEEN_STEPS, Event, trace_of


def call(name, begin, shape=(256, 16), kind="float", lasts=10):
    """A call of the profiler's, at so many nanoseconds."""
    return Event(name, begin, begin + lasts, [list(shape)], [kind])


def steps(*several, since=0):
    """The events of so many steps, in each of which the calls begin at nanoseconds since its own start."""
    events = []
    for start, calls in enumerate(several, start=1):
        start = since + 1000 * start
        events += [replace(each, begin_ns=start + each.begin_ns, end_ns=start + each.end_ns) for each in calls]
        events.append(Event(BETWEEN_STEPS, start + 900, start + 1000))
    return events


def messages_of(*calls, workers=2, backend="gloo"):
    return trace_of("torch_ddp", workers, backend, steps(calls, calls)).messages


def test_a_step_has_the_messages_that_began_between_two_marks_in_their_order():
    calls = [call("gloo:broadcast", 500, (8, 4)), call("gloo:all_reduce", 100), call("aten::add", 50)]
    between = call("gloo:all_gather", 950)
    trace = trace_of("torch_ddp", 2, "gloo", [*steps(calls, calls), Event(between.name, 1950, 1960, [[1]], ["float"])])
    assert trace.messages == [
        Message(collective="all_reduce", size_bytes=16384),
        Message(collective="broadcast", size_bytes=128),
    ]
    assert (trace.library, trace.data_type, trace.workers) == ("gloo", "float32", 2)


def test_what_one_call_puts_in_is_one_message_of_all_ranks_for_a_gather():
    [gathered] = messages_of(call("gloo:all_gather", 0, (100,)), workers=4)
    [scattered] = messages_of(call("nccl:_reduce_scatter_base", 0, (100,)), workers=4, backend="nccl")
    assert (gathered.size_bytes, scattered.size_bytes) == (1600, 400)
    assert scattered.collective == "reduce_scatter"
    [message] = messages_of(Event("gloo:all_reduce", 0, 10, [[100], [3, 4]], ["double", "double"]))
    assert message.size_bytes == 896
    forward, back = messages_of(call("nccl:send 0->1", 0), call("nccl:recv 0<-1", 20), backend="nccl")
    assert (forward.collective, forward.backwards) == ("send_receive", False)
    assert (back.collective, back.backwards) == ("send_receive", True)


def test_a_barrier_is_an_empty_message_and_a_call_with_empty_tensors_is_none():
    barriers = [Event("gloo:barrier", 0, 10), call("nccl:all_reduce_barrier", 0, (1,))]
    work = call("gloo:all_reduce", 20)
    assert [each.size_bytes for each in messages_of(barriers[0], work)] == [0, 16384]
    assert messages_of(call("gloo:all_reduce", 0, (0,)), work) == messages_of(work)
    [over_nccl, _] = messages_of(barriers[1], call("nccl:all_reduce", 20), backend="nccl")
    assert over_nccl == Message(collective="barrier", size_bytes=0)


def test_time_under_way_counts_once_and_over_nccl_is_not_told():
    calls = [call("gloo:all_reduce", 0, lasts=30), call("gloo:broadcast", 20, lasts=30), call("gloo:broadcast", 80)]
    events = steps(calls, calls, since=1_800_000_000_000_000_000)
    assert trace_of("torch_ddp", 2, "gloo", events).under_way_seconds == pytest.approx([60e-9, 60e-9], rel=1e-6)
    calls = [call("nccl:all_reduce", 0)]
    assert trace_of("torch_ddp", 2, "nccl", steps(calls)).under_way_seconds == []


def test_messages_have_their_most_frequent_order_and_the_type_of_what_is_added_up():
    usual = [call("gloo:broadcast", 0, (1,)), call("gloo:broadcast", 1, (2,))]
    swapped = [call("gloo:broadcast", 0, (2,)), call("gloo:broadcast", 1, (1,))]
    trace = trace_of("torch_zero", 2, "gloo", steps(swapped, usual, usual))
    assert [each.size_bytes for each in trace.messages] == [4, 8]
    flag, gradients = call("gloo:broadcast", 0, (1,), "long int"), call("gloo:all_reduce", 20, (100,), "c10::Half")
    trace = trace_of("torch_lightning_ddp", 2, "gloo", steps([flag, gradients]))
    assert (trace.data_type, [each.size_bytes for each in trace.messages]) == ("float16", [8, 200])


REDUCE, HALF = call("gloo:all_reduce", 0), call("gloo:all_reduce", 20, kind="c10::Half")


@pytest.mark.parametrize(
    ("several", "backend", "workers", "cause"),
    [
        ([[REDUCE, HALF]], "gloo", 2, "c10::Half and float"),
        ([[call("gloo:all_reduce", 0, kind="c10::BFloat16")]], "gloo", 2, "c10::BFloat16"),
        ([[call("gloo:scatter", 0)]], "gloo", 2, "gloo:scatter"),
        ([[call("nccl:coalesced", 0)]], "nccl", 2, "nccl:coalesced"),
        ([[REDUCE], [REDUCE, call("gloo:broadcast", 20)]], "gloo", 2, "other messages in some steps"),
        ([[REDUCE], []], "gloo", 2, "other messages in some steps"),
        ([[], []], "gloo", 2, "sent nothing"),
        ([[Event("gloo:barrier", 0, 10)]], "gloo", 2, "sent nothing"),
        ([[call("gloo:send", 0)]], "gloo", 3, "with 2 workers"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_a_sentence_that_names_why(several, backend, workers, cause):
    with pytest.raises(UserError, match=cause):
        trace_of("torch_ddp", workers, backend, steps(*several))
