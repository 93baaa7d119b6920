"""common/launching/traced_launch.py: which tracer a strategy is started with, and what is refused."""

import dataclasses
import sys

import pytest

from common.launching import launch, traced_launch
from tests.common.conftest import NUMPY


@pytest.fixture
def start(monkeypatch):
    """A function that starts the program with these arguments."""

    def started(*arguments):
        monkeypatch.setattr(sys, "argv", ["trace", *arguments])
        traced_launch.main()

    return started


def test_a_strategy_is_started_with_the_tracer_of_its_family(start, catalogue_of, declare, monkeypatch):
    runners = []
    monkeypatch.setattr(launch, "main", lambda runner: runners.append(runner))
    catalogue_of(declare(family=dataclasses.replace(NUMPY, tracer="numpy_impl.tracer")))
    start("numpy_threads", "--workers", "2")
    assert runners == ["numpy_impl.tracer"]


def test_a_strategy_whose_family_has_no_tracer_is_refused(start, catalogue_of, declare, refusal):
    catalogue_of(declare())
    said = refusal(lambda: start("numpy_threads", "--workers", "2"))
    assert said == "NumPy declares no tracer, so what numpy_threads sends isn't known."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["numpy_thread"], "There is no strategy named 'numpy_thread': choose one of numpy_threads."),
        ([], "Name a strategy first: one of numpy_threads."),
        (["--workers", "2"], "Name a strategy first: one of numpy_threads."),
    ],
)
def test_without_a_strategy_that_there_is_the_launcher_says_so(start, catalogue_of, declare, refusal, arguments, said):
    catalogue_of(declare())
    assert refusal(lambda: start(*arguments)) == said
