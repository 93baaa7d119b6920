"""The whole report, which is expensive and the same for every test, and reports without their figures."""

import pytest

from reports import document
from reports.render import web_page
from reports.render.shell import draw_all
from tests.reports.pieces import blanks_for_all
from tests.reports.whole_report import Whole, whole_in


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Whole:
    material = whole_in(tmp_path_factory.mktemp("whole"))
    content, drawings = document.compose(material)
    images = draw_all(drawings)
    return Whole(material, content, drawings, images, web_page.build(content, images).decode())


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Leaves the figures out of every document, since to draw them takes longer than the test of its words."""
    monkeypatch.setattr("reports.render.shell.draw_all", blanks_for_all)
