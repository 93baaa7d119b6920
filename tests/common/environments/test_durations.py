"""common/environments/durations.py: durations as people say them."""

import pytest

from common.environments.durations import in_words, with_parts


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (4000, "66 min 40 s")],
)
def test_durations_are_told_to_what_can_be_told_apart(seconds, words):
    assert in_words(seconds) == words


def test_a_sum_comes_with_its_parts():
    assert with_parts({"downloading": 4.2, "installing": 45.9}) == "50 s: downloading 4.2 s, installing 46 s"
    assert with_parts({}) == "0.0 s"
