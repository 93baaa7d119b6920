"""Figures drawn once: the same bytes in one process as in two."""

import multiprocessing
import os
import signal
import time
from functools import partial

import pandas as pd
import psutil

from reports.charts import deviation
from reports.render import drawing
from tests.launching import wait_for


def residuals(name: str) -> partial:
    rows = pd.DataFrame([{"strategy": name, "other": "base", "rounds": [1, 2, 3], "logs": [0.0, 0.1, 0.0]}])
    return partial(deviation.residuals, rows)


def process(_: str) -> bytes:
    return str(os.getpid()).encode()


def test_two_processes_draw_the_same_as_one(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    drawings = {f"{name}.svg": residuals(name) for name in "abcd"}
    assert drawing.draw_all(drawings) == {name: draw() for name, draw in drawings.items()}


def test_many_figures_are_drawn_elsewhere_and_few_or_on_one_core_here(monkeypatch):
    here, many = str(os.getpid()).encode(), {str(index): partial(process, "") for index in range(8)}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert here not in drawing.draw_all(many).values()
    assert {*drawing.draw_all(dict([*many.items()][:2])).values()} == {here}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert {*drawing.draw_all(many).values()} == {here}


def draw_as_a_program_does(drawings: dict[str, partial]) -> None:
    # Other tests may have left a handler, which a fork inherits.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    drawing.draw_all(drawings)


def test_those_that_draw_end_with_a_report_that_is_killed(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    endless = {str(index): partial(time.sleep, 600) for index in range(4)}
    report = multiprocessing.get_context("fork").Process(target=draw_as_a_program_does, args=(endless,))
    report.start()
    try:
        started = wait_for(lambda: len(drawers := psutil.Process(report.pid).children()) == 2 and drawers)
    finally:
        report.kill()
    _, left = psutil.wait_procs(started, timeout=10)
    for process in left:
        process.kill()
    assert not left
