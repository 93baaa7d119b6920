"""tf_central_storage with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.controls.broken_tensorflow import break_maths
from tf_impl import central_storage

break_maths(os.environ["LOCKSTEP_CONTROL"])
central_storage.main()
