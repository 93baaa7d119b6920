"""The edits of Horovod 0.28.1: to build today, keep strangers out, keep secrets, and give reasons for failures."""

from horovod_impl.building.edits.compiling import COMPILING
from horovod_impl.building.edits.disclosure import DISCLOSURE
from horovod_impl.building.edits.failures import FAILURES
from horovod_impl.building.edits.keras_support import KERAS
from horovod_impl.building.edits.strangers import STRANGERS

EDITS = (*COMPILING, *STRANGERS, *DISCLOSURE, *FAILURES, *KERAS)
"""All edits in their order: some change the text of others."""

ADDITIONS = {
    "cmake/FindMPI.cmake": "cmake/lockstep/FindMPI.cmake",
    "cmake/FindPytorch.cmake": "cmake/lockstep/FindPytorch.cmake",
    "cmake/FindTensorflow.cmake": "cmake/lockstep/FindTensorflow.cmake",
    "request_signature.py": "horovod/runner/common/util/request_signature.py",
    "request_signature.h": "third_party/HTTPRequest/include/request_signature.h",
}
"""Files of the folder above, and their paths in Horovod's source."""
