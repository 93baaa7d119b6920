"""tf_parameter_server, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.controls.broken_tensorflow import break_gradients
from tf_impl import cluster, parameter_server
from tf_impl.strategies import PARAMETER_SERVER

CONTROLS = ("sum", "float16")

cluster.start_unless_given(PARAMETER_SERVER, __doc__)
break_gradients(os.environ["LOCKSTEP_CONTROL"])
parameter_server.main()
