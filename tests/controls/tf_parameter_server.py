"""What can go wrong in tf_parameter_server's exchange: the contract tests must catch each."""

from tests.controls.broken_tensorflow import OF_GRADIENTS

CONTROLS = {"sum": OF_GRADIENTS["sum"], "float16": OF_GRADIENTS["float16"]}
