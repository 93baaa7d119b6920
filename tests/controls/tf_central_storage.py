"""tf_central_storage, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.controls.broken_tensorflow import break_gradients
from tf_impl import central_storage

CONTROLS = ("sum", "float16")

break_gradients(os.environ["LOCKSTEP_CONTROL"])
central_storage.main()
