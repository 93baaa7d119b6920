"""The example reports: there, small, and without names or paths of the machine that made them."""

import re

import pytest

from common.paths import ROOT

EXAMPLE = ROOT / "reports" / "example"
NAMES = ("comparison", "collectives", "faults", "prediction")
MOST_BYTES = 3 * 10**6


@pytest.mark.parametrize("name", NAMES)
def test_a_pdf_and_a_page_are_there(name):
    assert (EXAMPLE / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
    assert (EXAMPLE / f"{name}.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_together_they_are_small():
    assert sum(path.stat().st_size for name in NAMES for path in EXAMPLE.glob(f"{name}.*")) <= MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_no_page_has_a_path_outside_the_repository_or_an_address(name):
    text = re.sub("<[^>]+>", " ", (EXAMPLE / f"{name}.html").read_text(encoding="utf-8"))
    assert re.findall(r"(?<![\w.<])/(?:home|root|tmp|work|usr|opt|var|Users)/\S+", text) == []
    assert re.findall(r"\b(?:10|172|192)\.\d+\.\d+\.\d+\b", text) == []
