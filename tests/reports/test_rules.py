"""Hoefler and Belli's twelve rules: the test that the README of the reports names for each is there."""

import re

from common.paths import ROOT


def test_the_readme_names_the_test_that_holds_each_of_the_twelve_rules():
    readme = (ROOT / "reports" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+)\. .*\| (.+) \|$", readme, re.M)
    assert [number for number, _ in rows] == [str(number) for number in range(1, 13)]
    for name in [name.strip("`") for number, name in rows if number != "8"]:
        path, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name
