"""Horovod's timeline is summed up by what its events say, overlapping ones counted once."""

import json

import pytest

from horovod_impl.timeline import Exchange, exchanges, summarise


def begin(tensor, name, microseconds):
    return {"ph": "B", "name": name, "ts": microseconds, "pid": tensor}


def end(tensor, microseconds):
    return {"ph": "E", "ts": microseconds, "pid": tensor}


def exchanged(tensor, shift=0, shape="[2, 5]", data_type="float32", operation="GLOO_ALLREDUCE"):
    """A gradient's way through Horovod: 100 us negotiated, 30 queued, 20 copied in, 40 reduced, 10 copied out."""
    events = [begin(tensor, "NEGOTIATE_ALLREDUCE", 0), end(tensor, 100)]
    events += [begin(tensor, "ALLREDUCE", 110)]
    events += [begin(tensor, "MEMCPY_IN_FUSION_BUFFER", 130), end(tensor, 150)]
    events += [begin(tensor, operation, 150), end(tensor, 190)]
    events += [begin(tensor, "MEMCPY_OUT_FUSION_BUFFER", 190), end(tensor, 200)]
    events += [end(tensor, 205) | {"args": {"dtype": data_type, "shape": shape}}]
    return [event | {"ts": event["ts"] + shift} for event in events]


ONE = {"negotiation": 100e-6, "queueing": 30e-6, "copying": 30e-6, "all-reduce": 40e-6}
OTHER = [
    {"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "run.sz"}},
    *(begin(7, "NEGOTIATE_ALLGATHER", 0), end(7, 900), begin(7, "ALLGATHER", 900), end(7, 950)),
]
"""Another collective than those of gradients."""


@pytest.fixture
def path_of(tmp_path):
    """A function that writes a timeline of these events, which may be cut short."""

    def write(events, is_whole=True):
        path, text = tmp_path / "run.trace", json.dumps(events)
        path.write_text(text if is_whole else text.replace("[{", "[\n{").removesuffix("]") + ",", encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "cut short"])
@pytest.mark.parametrize(
    ("events", "times"),
    [
        (exchanged(1) + exchanged(2), 1),
        (exchanged(1) + exchanged(2, shift=1000), 2),
        (OTHER + exchanged(1, operation="MPI_ALLREDUCE"), 1),
        ([], 0),
    ],
    ids=["together", "one after the other", "beside another collective", "none"],
)
def test_each_phase_of_gradients_is_told_apart_and_counts_once(path_of, events, times, is_whole):
    phases = {phase.name: phase.seconds for phase in summarise(path_of(events, is_whole))}
    assert phases == pytest.approx({name: times * seconds for name, seconds in ONE.items()})


def test_an_exchange_lasts_until_its_gradient_is_back_and_those_that_overlap_are_one(path_of):
    [exchange] = exchanges(path_of(OTHER + exchanged(1, operation="MPI_ALLREDUCE")))
    assert exchange == Exchange(pytest.approx((0.0, 205e-6)), 2 * 5 * 4, "float32", step=1)
    together = exchanged(1, data_type="float16") + exchanged(2, 1, shape="[7]", data_type="float16")
    [exchange] = exchanges(path_of(together))
    # From when the second was ready until the second was back.
    assert exchange == Exchange(pytest.approx((1e-6, 206e-6)), 2 * (2 * 5 + 7), "float16", step=1)
    found = exchanges(path_of(exchanged(2, shift=40, shape="[]") + exchanged(1)))
    assert [(exchange.size_bytes, exchange.step) for exchange in found] == [(40, 1), (4, 1)]


def test_each_exchange_of_the_same_gradient_belongs_to_the_next_step_unless_its_end_was_cut_off(path_of):
    events = exchanged(1) + exchanged(2, shift=50) + exchanged(2, shift=1000) + exchanged(1, shift=1001)
    found = exchanges(path_of(events))
    assert [(exchange.size_bytes, exchange.step) for exchange in found] == [(40, 1), (40, 1), (80, 2)]
    [first] = exchanges(path_of(exchanged(1) + exchanged(1, shift=1000)[:-1], is_whole=False))
    assert first.step == 1
