"""The example reports: there, small, and without names or paths of the machine that made them."""

import re

import pytest

from common.paths import ROOT

EXAMPLE = ROOT / "reports" / "example"
NAMES = ("comparison", "collectives", "faults", "prediction")
MOST_BYTES = 3 * 10**6


def test_together_they_are_small():
    assert sum(path.stat().st_size for name in NAMES for path in EXAMPLE.glob(f"{name}.*")) <= MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_a_pdf_and_a_page_are_there_which_name_no_path_outside_the_repository_and_no_address(name):
    assert (EXAMPLE / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
    page = (EXAMPLE / f"{name}.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    text = re.sub("<[^>]+>", " ", page)
    assert re.findall(r"(?<![\w.<])/(?:home|root|tmp|work|usr|opt|var|Users)/\S+", text) == []
    assert re.findall(r"\b(?:10|172|192)\.\d+\.\d+\.\d+\b", text) == []
