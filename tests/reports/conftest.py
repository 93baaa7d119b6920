"""What is expensive and the same for every test, and the program as a user calls it."""

import sys
from collections.abc import Callable

import pytest

from common.errors import exit_with_one_line
from reports import document
from reports.__main__ import main
from reports.render import web_page
from reports.render.shell import draw_all
from reports.tables.material import Material
from tests.reports.pieces import blanks_for_all
from tests.reports.whole_report import Whole, results_in


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Whole:
    material = Material(results_in(tmp_path_factory.mktemp("whole")))
    content, drawings = document.compose(material)
    images = draw_all(drawings)
    return Whole(material, content, drawings, images, web_page.build(content, images).decode())


@pytest.fixture
def called(monkeypatch, capsys) -> Callable[..., tuple[int, str]]:
    """Calls the program, in this process; gives its exit status and what it printed."""

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["reports", *map(str, arguments)])
        try:
            exit_with_one_line(main)
        except SystemExit as ending:
            return ending.code, capsys.readouterr().err
        return 0, capsys.readouterr().out

    return call


@pytest.fixture
def refused(called) -> Callable[..., str]:
    """Calls the program with what has to be refused; gives the one line with which it exits with status 2."""

    def call(*arguments: object) -> str:
        status, text = called(*arguments)
        [line] = text.splitlines()
        assert status == 2
        assert line.startswith("lockstep: ")
        assert line.endswith(".")
        return line

    return call


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Leaves the figures out of every document, since to draw them takes longer than the test of its words."""
    monkeypatch.setattr("reports.render.shell.draw_all", blanks_for_all)
