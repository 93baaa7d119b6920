"""common/measurement/startup.py: how long ago a process started, what it computed since, and when its imports were
done."""

import subprocess
import sys
import time

from common.paths import ROOT

PROGRAM = """
import time
from datetime import datetime
from common.measurement import startup
from common.errors import exit_with_one_line
assert startup.imports() == (0, 0)
time.sleep(0.2)
while time.process_time() < 0.3: pass
started = lambda: datetime.fromisoformat(startup.started_at()).timestamp()
exit_with_one_line(lambda: print(*startup.imports(), *startup.moment(), time.time(), started()))
"""


def test_the_time_since_the_start_is_right_to_a_few_hundredths_and_imports_are_a_part_of_it():
    before = time.time()
    result = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60)
    imports, imports_computed, since_start, computed, now, started_at = map(float, result.stdout.split())
    started = now - since_start
    # The kernel counts in hundredths; psutil's creation time was off by up to a second.
    assert before - 0.02 <= started <= now - 0.2
    assert abs(started_at - started) < 0.02
    assert 0.2 <= imports <= since_start
    # Sleeping is no computing.
    assert 0.3 <= imports_computed <= computed < since_start - 0.18
