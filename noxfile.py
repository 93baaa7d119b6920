"""Everything that can be run here, one session each: `nox -l` is the menu. Options of a session come after `--`."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))  # Nox, as a program of its own, doesn't look for modules here.

from common import installation
from common.environments import Environment
from common.errors import UserError

nox.needs_version = ">=2025.5.1"
nox.options.sessions = ["tests", "lint"]
# Sessions share environments, which they make themselves.
nox.options.default_venv_backend = "none"

PYPROJECT = nox.project.load_toml("pyproject.toml")
ENVIRONMENT_OF = {"torch": "torch", "tf": "tensorflow", "horovod": "horovod"}
"""By how the names of an environment's strategies begin."""
FRAMEWORKS = tuple(ENVIRONMENT_OF.values())
ADVICE = (
    'A package index that has a CPU build of torch saves most of them: PyTorch\'s "Get started" page names one; set '
    "PIP_EXTRA_INDEX_URL to it, or run `nox -s torch horovod -- --extra-index-url URL` first."
)


@nox.session
def torch(session: nox.Session) -> None:
    """Make the environment of the PyTorch strategies; options after `--` are pip's, such as `--extra-index-url`."""
    prepare(session, "torch", pip_options=session.posargs)


@nox.session
def tensorflow(session: nox.Session) -> None:
    """Make the environment of the TensorFlow strategies."""
    prepare(session, "tensorflow", pip_options=session.posargs)


@nox.session
def horovod(session: nox.Session) -> None:
    """Make the environment of the Horovod strategies, for which Horovod is built once (about 3 minutes)."""
    prepare(session, "horovod", pip_options=session.posargs)


@nox.session
def horovod_check(session: nox.Session) -> None:
    """Try every collective of Horovod, with each framework and over each controller that was built (about 1 minute)."""
    prepare(session, "horovod")
    session.run(str(environment("horovod").python), "horovod_impl/check.py", *session.posargs, external=True)


@nox.session
def horovod_nccl(session: nox.Session) -> None:
    """Build Horovod for NVIDIA GPUs, from a CUDA build of torch and NCCL in their wheels, and load it; needs no GPU."""
    prepare(session, "horovod-nccl")
    check = "import horovod.torch; assert horovod.torch.nccl_built()"
    session.run(str(environment("horovod-nccl").python), "-c", check, external=True)


@nox.session
def tools(session: nox.Session) -> None:
    """Make the environment without any framework, which compares, reports, tests and lints."""
    prepare(session, "tools", pip_options=session.posargs)


@nox.session
def torch_single(session: nox.Session) -> None:
    """Train with PyTorch in one process: the base that its strategies are compared with."""
    launch(session, "torch_single")


@nox.session
def torch_data_parallel(session: nox.Session) -> None:
    """Train with DataParallel, 2 replicas in one process unless `-- --workers N` says otherwise."""
    launch(session, "torch_data_parallel")


@nox.session
def torch_sync_sgd(session: nox.Session) -> None:
    """Train with synchronous SGD by hand, 2 workers unless options say otherwise; `-- --backend mpi` uses MPI."""
    launch(session, "torch_sync_sgd")


@nox.session
def torch_hook_ddp(session: nox.Session) -> None:
    """Train with a DistributedDataParallel of our own, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_hook_ddp")


@nox.session
def torch_ddp(session: nox.Session) -> None:
    """Train with DistributedDataParallel, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_ddp")


@nox.session
def torch_zero(session: nox.Session) -> None:
    """Train with ZeroRedundancyOptimizer, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_zero")


@nox.session
def torch_fsdp(session: nox.Session) -> None:
    """Train with FSDP2's fully_shard, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_fsdp")


@nox.session
def torch_model_parallel(session: nox.Session) -> None:
    """Train with a pipeline of layers, 2 stages unless `-- --workers N` says otherwise."""
    launch(session, "torch_model_parallel")


@nox.session
def torch_tensor_parallel(session: nox.Session) -> None:
    """Train with split layers, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_tensor_parallel")


@nox.session
def torch_lightning_ddp(session: nox.Session) -> None:
    """Train with Lightning's Trainer over DDP, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_lightning_ddp")


@nox.session
def tf_one_device(session: nox.Session) -> None:
    """Train with TensorFlow's OneDeviceStrategy: the base that its strategies are compared with."""
    launch(session, "tf_one_device")


@nox.session
def tf_mirrored(session: nox.Session) -> None:
    """Train with TensorFlow's MirroredStrategy, 2 replicas unless `-- --workers N` says otherwise."""
    launch(session, "tf_mirrored")


@nox.session
def tf_multi_worker_mirrored(session: nox.Session) -> None:
    """Train with MultiWorkerMirroredStrategy, 2 processes unless `-- --workers N` or TF_CONFIG says otherwise."""
    launch(session, "tf_multi_worker_mirrored")


@nox.session
def tf_central_storage(session: nox.Session) -> None:
    """Train with CentralStorageStrategy, 2 replicas unless `-- --workers N` says otherwise."""
    launch(session, "tf_central_storage")


@nox.session
def tf_parameter_server(session: nox.Session) -> None:
    """Train with ParameterServerStrategy, 2 workers and 1 server unless options or TF_CONFIG say otherwise."""
    launch(session, "tf_parameter_server")


@nox.session
def tf_keras_mirrored(session: nox.Session) -> None:
    """Train with Keras 3's fit under MirroredStrategy, 2 replicas unless `-- --workers N` says otherwise."""
    launch(session, "tf_keras_mirrored")


@nox.session
def horovod_torch(session: nox.Session) -> None:
    """Train with Horovod for torch, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "horovod_torch")


@nox.session
def horovod_tensorflow(session: nox.Session) -> None:
    """Train with Horovod for TensorFlow, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "horovod_tensorflow")


@nox.session
def horovod_keras(session: nox.Session) -> None:
    """Train with Keras 3's fit and Horovod, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "horovod_keras")


@nox.session
def compare(session: nox.Session) -> None:
    """Compare the strategies on this machine and write the PDF report (about 9 minutes; `-- --plan` tells more)."""
    run_with_tools(session, "-m", "common.compare", *session.posargs, frameworks=frameworks_of(session.posargs))


@nox.session
def report(session: nox.Session) -> None:
    """Write the PDF report of the newest comparison, or of the records in `-- --results DIR`."""
    run_with_tools(session, "-m", "reports", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests but the contract grid: first those without a framework, then every strategy as users start it."""
    run_with_tools(session, "-m", "pytest", *(session.posargs or ["-m", "not grid"]), frameworks=FRAMEWORKS)


@nox.session
def contract(session: nox.Session) -> None:
    """Hold every strategy against the oracle on the whole grid of presets and numbers of workers."""
    run_with_tools(session, "-m", "pytest", "-m", "grid", *session.posargs, frameworks=FRAMEWORKS)


@nox.session
def benchmark(session: nox.Session) -> None:
    """Measure what the harness costs: each strategy against a bare loop of the same framework, in turn."""
    run_with_tools(session, "-m", "tests.benchmarks", *session.posargs, frameworks=frameworks_of(session.posargs))


@nox.session
def lint(session: nox.Session) -> None:
    """Check format and style with ruff."""
    run_with_tools(session, "-m", "ruff", "check")
    run(session, "-m", "ruff", "format", "--check")


def environment(name: str) -> Environment:
    """The environment of a dependency group of pyproject.toml."""
    groups = {"tools": "dev"}
    if shutil.which("nvidia-smi"):
        groups |= {"tensorflow": "tensorflow-gpu", "horovod": "horovod-nccl"}
    requirements = nox.project.dependency_groups(PYPROJECT, groups.get(name, name))
    script = Path("horovod_impl", "build.py").resolve() if name.startswith("horovod") else None
    return Environment(name, tuple(dict.fromkeys(requirements)), script)


def make(session: nox.Session, *names: str, pip_options: Sequence[str] = ()) -> dict[str, str]:
    """Make these environments where that isn't done; return why some can't be had."""
    try:
        return installation.make([environment(name) for name in names], pip_options, ADVICE)
    except UserError as error:
        session.error(str(error).rstrip("."))


def prepare(session: nox.Session, *names: str, pip_options: Sequence[str] = ()) -> None:
    """Make these environments, none of which the session can do without."""
    if failures := make(session, *names, pip_options=pip_options):
        session.error(" ".join(failures.values()).rstrip("."))


def launch(session: nox.Session, strategy: str) -> None:
    """Run one strategy with the session's options, in its own environment, under a deadline."""
    prepare(session, "tools", ENVIRONMENT_OF[strategy.partition("_")[0]])
    run(session, "-m", "common.launch", strategy, *session.posargs)


def frameworks_of(options: Sequence[str]) -> tuple[str, ...]:
    """The environments of the strategies that the options name, or all; none where nothing will be launched."""
    if {"--plan", "--help", "-h"} & {*options}:
        return ()
    named = {ENVIRONMENT_OF.get(option.partition("_")[0]) for option in options if "_" in option}
    return tuple(name for name in FRAMEWORKS if name in named) or FRAMEWORKS


def run_with_tools(session: nox.Session, *arguments: str, frameworks: Sequence[str] = ()) -> None:
    """Run Python in the environment without frameworks, with those of the `frameworks` that can be had beside it.

    The session goes on without the others, and fails at its end.
    """
    failures = make(session, "tools", *frameworks)
    if "tools" in failures:
        session.error(failures["tools"].rstrip("."))
    for sentence in failures.values():
        session.warn(sentence)
    run(session, *arguments)
    if failures:
        session.error(f"Done without {' and '.join(failures)}: {' '.join(failures.values())}".rstrip("."))


def run(session: nox.Session, *arguments: str) -> None:
    """Run Python in the environment without frameworks."""
    session.run(str(environment("tools").python), *arguments, external=True)
