"""common/launching/attempts.py: what is said of a launch that suffered a fault, or was started again."""

import pytest
from msgspec import structs

from common.launching.attempts import in_words
from common.records.recovery import Recovery
from tests.common.records.recoveries import RESTARTED, attempt


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (RESTARTED, "rank 1 killed at step 160, noticed after 0.5 s, next step after 5.0 s, 10 steps computed twice"),
        (
            structs.replace(RESTARTED, attempts=RESTARTED.attempts[:1], moments=RESTARTED.moments[:7]),
            "rank 1 killed at step 160, noticed after 0.5 s, no step after it, 0 steps computed twice",
        ),
        (
            Recovery(fault="kill:rank=1,step=160", attempts=[attempt(0, 1, 1, 1)]),
            "rank 1 killed at step 160, which it never came to, 0 steps computed twice",
        ),
        (
            Recovery(
                fault="slow:rank=1,factor=3", reached_factor=2.84, attempts=[attempt(0, 1, 1)], injected_seconds=0.5
            ),
            "rank 1 slowed down 3 times, 2.8 times in fact, no step after it, 0 steps computed twice",
        ),
        (Recovery(attempts=[attempt(0, 1, 1)]), "no fault, 0 steps computed twice"),
    ],
)
def test_an_account_in_words(account, words):
    assert in_words(account) == words
