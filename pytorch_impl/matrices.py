"""PyTorch's ways to multiply two matrices, in one process and over workers, each with its script."""

from common.declarations.strategy import PROCESS
from common.declarations.way import Way
from pytorch_impl.libraries import MPIRUN
from pytorch_impl.strategies import PYTORCH, TORCHRUN, BackendOptions

NAIVE = Way(
    name="naive",
    title="the naive triple loop",
    kind="naive",
    script="pytorch_impl/matrix_naive.py",
    family=PYTORCH,
    launcher=PROCESS,
)
ALONE = Way(
    name="alone",
    title="torch.mm alone",
    kind="alone",
    script="pytorch_impl/matrix_alone.py",
    family=PYTORCH,
    launcher=PROCESS,
)
ROWS_OVER_GLOO = Way(
    name="rows_gloo",
    title="by rows over Gloo",
    kind="rows",
    script="pytorch_impl/matrix_by_rows.py",
    family=PYTORCH,
    launcher=TORCHRUN,
    options=BackendOptions(backend="gloo"),
)
ROWS_OVER_MPI = Way(
    name="rows_mpi",
    title="by rows over MPI",
    kind="rows",
    script="pytorch_impl/matrix_by_rows.py",
    family=PYTORCH,
    launcher=MPIRUN,
)
REDUCTION_OVER_GLOO = Way(
    name="reduction_gloo",
    title="by reduction over Gloo",
    kind="reduction",
    script="pytorch_impl/matrix_by_reduction.py",
    family=PYTORCH,
    launcher=TORCHRUN,
    options=BackendOptions(backend="gloo"),
)
REDUCTION_OVER_MPI = Way(
    name="reduction_mpi",
    title="by reduction over MPI",
    kind="reduction",
    script="pytorch_impl/matrix_by_reduction.py",
    family=PYTORCH,
    launcher=MPIRUN,
)
