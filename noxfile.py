"""Everything that can be run here, one session each: `nox -l` is the menu. Options of a session come after `--`."""

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.sessions = ["tests", "lint"]
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")


@nox.session(python="3.11")
def torch(session: nox.Session) -> None:
    """Make the environment of the PyTorch strategies."""
    install(session, "torch")


@nox.session(python="3.11")
def tensorflow(session: nox.Session) -> None:
    """Make the environment of the TensorFlow strategies."""
    install(session, "tensorflow-gpu" if shutil.which("nvidia-smi") else "tensorflow")


@nox.session(python="3.11")
def horovod(session: nox.Session) -> None:
    """Make the environment of the Horovod strategies, for which Horovod is built once (2 to 4 minutes)."""
    install(session, "horovod")
    session.run("python", "horovod_impl/build.py")


@nox.session(venv_backend="none", requires=["tools", "horovod"])
def horovod_check(session: nox.Session) -> None:
    """Try every collective of Horovod, with each framework and over each controller that was built (about 1 minute)."""
    session.run(str(Path(".nox", "horovod", "bin", "python")), "horovod_impl/check.py", *session.posargs, external=True)


@nox.session(python="3.11")
def tools(session: nox.Session) -> None:
    """Make the environment without any framework, which compares, reports, tests and lints."""
    install(session, "dev")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_single(session: nox.Session) -> None:
    """Train with PyTorch in one process: the base that its strategies are compared with."""
    launch(session, "torch_single")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_data_parallel(session: nox.Session) -> None:
    """Train with DataParallel, 2 replicas in one process unless `-- --workers N` says otherwise."""
    launch(session, "torch_data_parallel")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_sync_sgd(session: nox.Session) -> None:
    """Train with synchronous SGD by hand, 2 workers unless options say otherwise; `-- --backend mpi` uses MPI."""
    launch(session, "torch_sync_sgd")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_hook_ddp(session: nox.Session) -> None:
    """Train with a DistributedDataParallel of our own, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_hook_ddp")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_ddp(session: nox.Session) -> None:
    """Train with DistributedDataParallel, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_ddp")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_zero(session: nox.Session) -> None:
    """Train with ZeroRedundancyOptimizer, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_zero")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_fsdp(session: nox.Session) -> None:
    """Train with FSDP2's fully_shard, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_fsdp")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_model_parallel(session: nox.Session) -> None:
    """Train with a pipeline of layers, 2 stages unless `-- --workers N` says otherwise."""
    launch(session, "torch_model_parallel")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_tensor_parallel(session: nox.Session) -> None:
    """Train with split layers, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_tensor_parallel")


@nox.session(venv_backend="none", requires=["tools", "torch"])
def torch_lightning_ddp(session: nox.Session) -> None:
    """Train with Lightning's Trainer over DDP, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "torch_lightning_ddp")


@nox.session(venv_backend="none", requires=["tools", "tensorflow"])
def tf_one_device(session: nox.Session) -> None:
    """Train with TensorFlow's OneDeviceStrategy: the base that its strategies are compared with."""
    launch(session, "tf_one_device")


@nox.session(venv_backend="none", requires=["tools", "tensorflow"])
def tf_mirrored(session: nox.Session) -> None:
    """Train with TensorFlow's MirroredStrategy, 2 replicas unless `-- --workers N` says otherwise."""
    launch(session, "tf_mirrored")


@nox.session(venv_backend="none", requires=["tools", "tensorflow"])
def tf_multi_worker_mirrored(session: nox.Session) -> None:
    """Train with MultiWorkerMirroredStrategy, 2 processes unless `-- --workers N` or TF_CONFIG says otherwise."""
    launch(session, "tf_multi_worker_mirrored")


@nox.session(venv_backend="none", requires=["tools", "tensorflow"])
def tf_central_storage(session: nox.Session) -> None:
    """Train with CentralStorageStrategy, 2 replicas unless `-- --workers N` says otherwise."""
    launch(session, "tf_central_storage")


@nox.session(venv_backend="none", requires=["tools", "tensorflow"])
def tf_parameter_server(session: nox.Session) -> None:
    """Train with ParameterServerStrategy, 2 workers and 1 server unless options or TF_CONFIG say otherwise."""
    launch(session, "tf_parameter_server")


@nox.session(venv_backend="none", requires=["tools", "tensorflow"])
def tf_keras_mirrored(session: nox.Session) -> None:
    """Train with Keras 3's fit under MirroredStrategy, 2 replicas unless `-- --workers N` says otherwise."""
    launch(session, "tf_keras_mirrored")


@nox.session(venv_backend="none", requires=["tools", "horovod"])
def horovod_torch(session: nox.Session) -> None:
    """Train with Horovod for torch, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "horovod_torch")


@nox.session(venv_backend="none", requires=["tools", "horovod"])
def horovod_tensorflow(session: nox.Session) -> None:
    """Train with Horovod for TensorFlow, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "horovod_tensorflow")


@nox.session(venv_backend="none", requires=["tools", "horovod"])
def horovod_keras(session: nox.Session) -> None:
    """Train with Keras 3's fit and Horovod, 2 workers unless `-- --workers N` says otherwise."""
    launch(session, "horovod_keras")


@nox.session(venv_backend="none", requires=["tools", "torch", "tensorflow", "horovod"])
def compare(session: nox.Session) -> None:
    """Compare the strategies on this machine and write the PDF report (about 9 minutes; `-- --plan` tells more)."""
    run_with_tools(session, "-m", "common.compare", *session.posargs)


@nox.session(venv_backend="none", requires=["tools"])
def report(session: nox.Session) -> None:
    """Write the PDF report of the newest comparison, or of the records in `-- --results DIR`."""
    run_with_tools(session, "-m", "reports", *session.posargs)


@nox.session(venv_backend="none", requires=["tools", "torch", "tensorflow", "horovod"])
def tests(session: nox.Session) -> None:
    """Run all tests but the contract grid: first those without a framework, then every strategy as users start it."""
    run_with_tools(session, "-m", "pytest", *(session.posargs or ["-m", "not grid"]))


@nox.session(venv_backend="none", requires=["tools", "torch", "tensorflow", "horovod"])
def contract(session: nox.Session) -> None:
    """Hold every strategy against the oracle on the whole grid of presets and numbers of workers."""
    run_with_tools(session, "-m", "pytest", "-m", "grid", *session.posargs)


@nox.session(venv_backend="none", requires=["tools", "torch", "tensorflow", "horovod"])
def benchmark(session: nox.Session) -> None:
    """Measure what the harness costs: each strategy against a bare loop of the same framework, in turn."""
    run_with_tools(session, "-m", "tests.benchmarks", *session.posargs)


@nox.session(venv_backend="none", requires=["tools"])
def lint(session: nox.Session) -> None:
    """Check format and style with ruff."""
    run_with_tools(session, "-m", "ruff", "check")
    run_with_tools(session, "-m", "ruff", "format", "--check")


def install(session: nox.Session, group: str) -> None:
    """Install a dependency group of pyproject.toml into the session's environment."""
    session.install(*nox.project.dependency_groups(PYPROJECT, group))


def launch(session: nox.Session, strategy: str) -> None:
    """Run one strategy with the session's options, in its own environment, under a deadline."""
    run_with_tools(session, "-m", "common.launch", strategy, *session.posargs)


def run_with_tools(session: nox.Session, *arguments: str) -> None:
    """Run Python in the environment without frameworks."""
    session.run(str(Path(".nox", "tools", "bin", "python")), *arguments, external=True)
