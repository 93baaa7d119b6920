"""common/startup.py: how long ago a process started, and when its imports were done."""

import subprocess
import sys
import time

from common.catalogue import ROOT

PROGRAM = """
import time
from common import startup
from common.errors import exit_with_one_line
assert startup.imports_seconds() == 0
time.sleep(0.2)
exit_with_one_line(lambda: print(startup.imports_seconds(), startup.seconds_since_start(), time.time()))
"""


def test_the_time_since_the_start_is_right_to_a_few_hundredths_and_imports_are_a_part_of_it():
    before = time.time()
    result = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60)
    imports, since_start, now = map(float, result.stdout.split())
    started = now - since_start
    # The kernel counts in hundredths; psutil's creation time was off by up to a second.
    assert before - 0.02 <= started <= now - 0.2
    assert 0.2 <= imports <= since_start
