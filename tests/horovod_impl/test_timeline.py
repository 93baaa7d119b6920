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
def timeline(tmp_path):
    """A function that writes a timeline, and returns its path."""

    def write(events, text=None):
        path = tmp_path / "run.trace"
        path.write_text(json.dumps(events) if text is None else text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def phases_of(timeline):
    return lambda *given, **named: summarise(timeline(*given, **named))


@pytest.fixture
def exchanges_of(timeline):
    return lambda *given, **named: exchanges(timeline(*given, **named))


@pytest.fixture
def summary_of(phases_of):
    """A function that gives the seconds of each phase, by name."""
    return lambda *given, **named: {phase.name: phase.seconds for phase in phases_of(*given, **named)}


ONE = {"negotiation": 100e-6, "queueing": 30e-6, "copying": 30e-6, "all-reduce": 40e-6}


@pytest.mark.parametrize("operation", ["GLOO_ALLREDUCE", "MPI_ALLREDUCE", "NCCL_ALLREDUCE"])
def test_each_phase_of_a_gradient_is_told_apart(summary_of, operation):
    assert summary_of(exchanged(1, operation=operation)) == pytest.approx(ONE)


def test_each_phase_says_what_it_means(phases_of):
    assert all(" " in phase.meaning for phase in phases_of(exchanged(1)))


def test_gradients_that_are_exchanged_together_are_counted_once(summary_of):
    assert summary_of(exchanged(1) + exchanged(2)) == pytest.approx(ONE)


def test_gradients_that_are_exchanged_one_after_the_other_add_up(summary_of):
    summary = summary_of(exchanged(1) + exchanged(2, shift=1000))
    assert summary == pytest.approx({name: 2 * seconds for name, seconds in ONE.items()})


def test_other_collectives_than_those_of_gradients_are_left_out(summary_of):
    other = [begin(7, "NEGOTIATE_ALLGATHER", 0), end(7, 900), begin(7, "ALLGATHER", 900), end(7, 950)]
    names = [{"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "run.sz"}}]
    assert summary_of(names + other + exchanged(1)) == pytest.approx(ONE)


def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes(summary_of):
    text = "[\n" + "".join(json.dumps(event) + "," for event in exchanged(1))
    assert summary_of(None, text=text) == pytest.approx(ONE)


@pytest.mark.parametrize("text", ["", "[\n"])
def test_without_any_exchange_no_time_was_spent(summary_of, text):
    assert summary_of(None, text=text) == dict.fromkeys(ONE, 0)


@pytest.mark.parametrize("operation", ["GLOO_ALLREDUCE", "MPI_ALLREDUCE"])
def test_an_exchange_has_the_bytes_of_its_gradient_and_lasts_until_that_is_back(exchanges_of, operation):
    [exchange] = exchanges_of(exchanged(1, operation=operation))
    assert exchange == Exchange(pytest.approx((0.0, 205e-6)), 2 * 5 * 4, "float32", step=1)


def test_gradients_that_are_exchanged_together_are_one_message(exchanges_of):
    [exchange] = exchanges_of(exchanged(1, data_type="float16") + exchanged(2, 1, shape="[7]", data_type="float16"))
    # From when the second was ready until the second was back.
    assert exchange == Exchange(pytest.approx((1e-6, 206e-6)), 2 * (2 * 5 + 7), "float16", step=1)


def test_gradients_are_several_messages_where_one_begins_when_the_other_ends(exchanges_of):
    found = exchanges_of(exchanged(2, shift=40, shape="[]") + exchanged(1))
    assert [(exchange.size_bytes, exchange.step) for exchange in found] == [(40, 1), (4, 1)]


def test_each_exchange_of_the_same_gradient_belongs_to_the_next_step(exchanges_of):
    found = exchanges_of(exchanged(1) + exchanged(2, shift=50) + exchanged(2, shift=1000) + exchanged(1, shift=1001))
    assert [(exchange.size_bytes, exchange.step) for exchange in found] == [(40, 1), (40, 1), (80, 2)]


def test_other_collectives_are_no_exchange_of_gradients(exchanges_of):
    other = [begin(7, "NEGOTIATE_ALLGATHER", 0), end(7, 900), begin(7, "ALLGATHER", 900), end(7, 950)]
    assert len(exchanges_of(other + exchanged(1))) == 1


def test_an_exchange_whose_end_was_cut_off_is_left_out(exchanges_of):
    events = exchanged(1) + exchanged(1, shift=1000)[:-1]
    text = "[\n" + "".join(json.dumps(event) + "," for event in events)
    assert [exchange.step for exchange in exchanges_of(None, text=text)] == [1]
