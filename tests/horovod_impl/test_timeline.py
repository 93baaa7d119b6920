"""Horovod's timeline is summed up by what its events say, overlapping ones counted once."""

import json

import pytest

from horovod_impl.timeline import Exchange, exchanges, summarise


def begin(tensor, name, microseconds):
    return {"ph": "B", "name": name, "ts": microseconds, "pid": tensor}


def end(tensor, microseconds):
    return {"ph": "E", "ts": microseconds, "pid": tensor}


def exchanged(tensor, shift=0, operation="GLOO_ALLREDUCE", shape="[2, 5]", data_type="float32"):
    """A gradient's way through Horovod: 100 us negotiated, 30 queued, 20 copied in, 40 reduced, 10 copied out."""
    events = [begin(tensor, "NEGOTIATE_ALLREDUCE", 0), end(tensor, 100)]
    events += [begin(tensor, "ALLREDUCE", 110)]
    events += [begin(tensor, "MEMCPY_IN_FUSION_BUFFER", 130), end(tensor, 150)]
    events += [begin(tensor, operation, 150), end(tensor, 190)]
    events += [begin(tensor, "MEMCPY_OUT_FUSION_BUFFER", 190), end(tensor, 200)]
    events += [end(tensor, 205) | {"args": {"dtype": data_type, "shape": shape}}]
    return [event | {"ts": event["ts"] + shift} for event in events]


@pytest.fixture
def exchanges_of(tmp_path):
    """A function that reads a timeline of these events, or of this text."""

    def read(events, text=None, by=exchanges):
        path = tmp_path / "run.trace"
        path.write_text(json.dumps(events) if text is None else text, encoding="utf-8")
        return by(path)

    return read


ONE = {"negotiation": 100e-6, "queueing": 30e-6, "copying": 30e-6, "all-reduce": 40e-6}
OTHER = [
    {"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "run.sz"}},
    *(begin(7, "NEGOTIATE_ALLGATHER", 0), end(7, 900), begin(7, "ALLGATHER", 900), end(7, 950)),
]
"""Another collective than those of gradients."""


@pytest.mark.parametrize(
    ("events", "times"),
    [
        *((exchanged(1, operation=f"{name}_ALLREDUCE"), 1) for name in ("GLOO", "MPI", "NCCL")),
        (exchanged(1) + exchanged(2), 1),
        (exchanged(1) + exchanged(2, shift=1000), 2),
        (OTHER + exchanged(1), 1),
        ([], 0),
    ],
    ids=["Gloo", "MPI", "NCCL", "together", "one after the other", "beside another collective", "none"],
)
def test_each_phase_of_gradients_is_told_apart_and_counts_once(exchanges_of, events, times):
    # A file that was cut short is read as far as it goes.
    for text in (None, "[\n" + "".join(json.dumps(event) + "," for event in events)):
        phases = exchanges_of(events, text, by=summarise)
        assert {phase.name: phase.seconds for phase in phases} == pytest.approx(
            {name: times * seconds for name, seconds in ONE.items()}
        )
        assert all(" " in phase.meaning for phase in phases)


@pytest.mark.parametrize("operation", ["GLOO_ALLREDUCE", "MPI_ALLREDUCE"])
def test_an_exchange_has_the_bytes_of_its_gradient_and_lasts_until_that_is_back(exchanges_of, operation):
    [exchange] = exchanges_of(OTHER + exchanged(1, operation=operation))
    assert exchange == Exchange(pytest.approx((0.0, 205e-6)), 2 * 5 * 4, "float32", step=1)


def test_gradients_are_one_message_unless_one_begins_when_the_other_ends(exchanges_of):
    [exchange] = exchanges_of(exchanged(1, data_type="float16") + exchanged(2, 1, shape="[7]", data_type="float16"))
    # From when the second was ready until the second was back.
    assert exchange == Exchange(pytest.approx((1e-6, 206e-6)), 2 * (2 * 5 + 7), "float16", step=1)
    found = exchanges_of(exchanged(2, shift=40, shape="[]") + exchanged(1))
    assert [(exchange.size_bytes, exchange.step) for exchange in found] == [(40, 1), (4, 1)]


def test_each_exchange_of_the_same_gradient_belongs_to_the_next_step_unless_its_end_was_cut_off(exchanges_of):
    found = exchanges_of(exchanged(1) + exchanged(2, shift=50) + exchanged(2, shift=1000) + exchanged(1, shift=1001))
    assert [(exchange.size_bytes, exchange.step) for exchange in found] == [(40, 1), (40, 1), (80, 2)]
    events = exchanged(1) + exchanged(1, shift=1000)[:-1]
    text = "[\n" + "".join(json.dumps(event) + "," for event in events)
    assert [exchange.step for exchange in exchanges_of(None, text=text)] == [1]
