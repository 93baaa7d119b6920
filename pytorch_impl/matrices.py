"""PyTorch's ways to multiply two matrices, in one process and over workers, each with its script."""

from functools import partial

from common.declarations.products import MatrixProgram
from common.declarations.strategy import PROCESS, MpiOptions
from pytorch_impl.libraries import MPIRUN
from pytorch_impl.strategies import PYTORCH, TORCHRUN, BackendOptions

_in_one_process = partial(MatrixProgram, family=PYTORCH, launcher=PROCESS)
_over_gloo = partial(MatrixProgram, family=PYTORCH, launcher=TORCHRUN, options=BackendOptions(backend="gloo"))
_over_mpi = partial(MatrixProgram, family=PYTORCH, launcher=MPIRUN, options=MpiOptions(backend="mpi"))

NAIVE = _in_one_process(
    name="naive",
    title="the naive triple loop",
    kind="naive",
    script="pytorch_impl/matrix_naive.py",
)
ALONE = _in_one_process(
    name="alone",
    title="torch.mm alone",
    kind="alone",
    script="pytorch_impl/matrix_alone.py",
)
ROWS_OVER_GLOO = _over_gloo(
    name="rows_gloo",
    title="by rows over Gloo",
    kind="rows",
    script="pytorch_impl/matrix_by_rows.py",
)
ROWS_OVER_MPI = _over_mpi(
    name="rows_mpi",
    title="by rows over MPI",
    kind="rows",
    script="pytorch_impl/matrix_by_rows.py",
)
REDUCTION_OVER_GLOO = _over_gloo(
    name="reduction_gloo",
    title="by reduction over Gloo",
    kind="reduction",
    script="pytorch_impl/matrix_by_reduction.py",
)
REDUCTION_OVER_MPI = _over_mpi(
    name="reduction_mpi",
    title="by reduction over MPI",
    kind="reduction",
    script="pytorch_impl/matrix_by_reduction.py",
)
