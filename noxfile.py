"""Everything that can be run here, one session each: `nox -l` is the menu. Options of a session come after `--`.

The menu has four groups: start here, the strategies, the laboratory that measures parts of them, and development.
"""

import ast
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))  # Nox, as a program of its own, doesn't look for modules here.

from common.check import training_file
from common.declarations import catalogue
from common.declarations.strategy import Family, Strategy
from common.environments import installation, shadows, uv
from common.environments.inventory import Environment
from common.errors import PREFIX, UserError

nox.needs_version = ">=2025.5.1"
nox.options.sessions = ["tests", "lint"]
# Sessions share environments, which they make themselves.
nox.options.default_venv_backend = "none"

try:
    STRATEGIES, LIBRARIES, FAMILIES = catalogue.strategies(), catalogue.libraries(), catalogue.families()
except UserError as error:
    sys.exit(f"{PREFIX}{error}")
START_HERE, STRATEGY, LABORATORY, DEVELOPMENT = "start here", "strategies", "laboratory", "development"
"""The groups of the menu, in which sessions stand in the order of their definition."""
PYPROJECT = nox.project.load_toml("pyproject.toml")
SIDE_BY_SIDE = ["--numprocesses", "2"]
"""Two tests at a time: most wait for a process to start, or for a deadline, and leave one of two cores idle."""
NEUTRAL = {"PYTHONSAFEPATH": "", "MATPLOTLIBRC": os.devnull}
"""Settings of the user's that would keep this checkout from being found, or change its charts."""
ADVICE = (
    "Builds of torch without CUDA are much smaller: `nox -s torch horovod -- --torch-backend cpu` takes PyTorch's own, "
    "as is done anyway where no index is named and PyTorch's answers."
)


def add_environment(family: Family) -> None:
    """Add the session that makes the environment of a family of strategies."""

    def make_environment(session: nox.Session) -> None:
        prepare(session, family.environment, options=session.posargs)

    needing = f" that need {family.imports}" if family.made_on_request else ""
    built = ", with what is built for them" if family.build else ""
    make_environment.__doc__ = (
        f"Make the environment of {family.title}'s strategies{needing}{built}; options after `--` are uv's."
    )
    nox.session(make_environment, name=family.environment, tags=[DEVELOPMENT])


def add_strategy(strategy: Strategy) -> None:
    """Add the session that trains with a strategy."""

    def train(session: nox.Session) -> None:
        prepare(session, "tools", strategy.family.environment)
        run(session, "-m", "common.launching.launch", strategy.name, *session.posargs)

    workers = "" if strategy.most_workers else "; 2 workers unless `-- --workers N` says otherwise"
    train.__doc__ = f"{strategy.summary[0].upper()}{strategy.summary[1:]}{workers}."
    nox.session(train, name=strategy.name, tags=[STRATEGY])


def add_experiment(path: Path) -> None:
    """Add the session of an experiment of the laboratory's, by what its module says of itself."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in module.body if isinstance(node, ast.Assign)}
    environments = None
    if "LAUNCHES" in assigned:
        launched = getattr(catalogue, ast.literal_eval(assigned["LAUNCHES"]))()
        programs = [launched] if isinstance(launched, Strategy) else launched.values()
        environments = [program.family.environment for program in programs]

    def experiment(session: nox.Session) -> None:
        measure(session, f"common.laboratory.{path.stem}", environments)

    experiment.__doc__ = (ast.get_docstring(module) or "").partition("\n\n")[0].replace("\n", " ")
    nox.session(experiment, name=path.stem, tags=[LABORATORY])


@nox.session(tags=[START_HERE])
def compare(session: nox.Session) -> None:
    """Compare the strategies on this machine, in ten minutes, and write the report (`-- --plan` tells more)."""
    is_full = not {"full", "--profile=full"}.isdisjoint(session.posargs)
    measure(session, "common.sessions.compare", None if is_full else quick_environments())


@nox.session(tags=[START_HERE])
def check(session: nox.Session) -> None:
    """Referee your own training: `-- my_training.py`, a folder of files, or `-- --evidence FOLDER` of watched steps."""
    needed = training_file.environments(session.posargs)
    run_with_tools(session, "-m", "common.check", *session.posargs, environments=needed)


@nox.session(tags=[START_HERE])
def report(session: nox.Session) -> None:
    """Write the PDF and the HTML page of the newest comparison, or of the records in `-- --results DIR`."""
    run_with_tools(session, "-m", "reports", *session.posargs)


for each in STRATEGIES.values():
    add_strategy(each)


for each in sorted(Path("common/laboratory").glob("[!_]*.py")):
    add_experiment(each)


@nox.session(tags=[LABORATORY])
def benchmark(session: nox.Session) -> None:
    """Measure what the harness costs: strategies against bare loops of the same framework, in turn."""
    measure(session, "tests.benchmarks")


@nox.session(tags=[DEVELOPMENT])
def tests(session: nox.Session) -> None:
    """Run what every contributor needs, in twelve minutes; `-- --fast`: in 75 seconds what starts nothing."""
    is_fast = "--fast" in session.posargs
    everyone = [*SIDE_BY_SIDE, "-m", "not grid and not slurm and not hosts", *session.posargs]
    options = everyone if is_fast or not session.posargs else session.posargs
    run_with_tools(session, "-m", "pytest", *options, environments=[] if is_fast else usual_environments())


@nox.session(tags=[DEVELOPMENT])
def lint(session: nox.Session) -> None:
    """Check format and style with ruff, and the types of what pyproject.toml lists with basedpyright."""
    run_with_tools(session, "-m", "ruff", "check")
    run(session, "-m", "ruff", "format", "--check")
    run(session, "-m", "basedpyright", "--pythonpath", str(environment("tools").python))


@nox.session(tags=[DEVELOPMENT])
def contract(session: nox.Session) -> None:
    """Hold every strategy against the oracle, in all cases and on the whole grid, and lose workers (hours)."""
    run_with_tools(
        session, "-m", "pytest", *SIDE_BY_SIDE, "-m", "grid", *session.posargs, environments=usual_environments()
    )


@nox.session(tags=[DEVELOPMENT])
def hosts(session: nox.Session) -> None:
    """Start every launcher over virtual hosts and slow links, and lose hosts (about ten minutes)."""
    run_with_tools(
        session, "-m", "pytest", *SIDE_BY_SIDE, "-m", "hosts", *session.posargs, environments=usual_environments()
    )


@nox.session(tags=[DEVELOPMENT])
def slurm(session: nox.Session) -> None:
    """Compare, submit and end launches in a Slurm of two virtual nodes, made for it (about ten minutes)."""
    run_with_tools(session, "-m", "pytest", "tests/slurm", *session.posargs, environments=usual_environments())


@nox.session(tags=[DEVELOPMENT])
def mutants(session: nox.Session) -> None:
    """Change the maths, the record and the reports' arithmetic line by line, and see that tests notice."""
    prepare(session, "mutants")
    run(session, "-m", "tests.mutants", *session.posargs, name="mutants")


@nox.session(tags=[DEVELOPMENT])
def soak(session: nox.Session) -> None:
    """Interrupt sessions and change their records at random, for an hour or `-- --minutes N`, and see what is lost."""
    run_with_tools(session, "-m", "tests.soak", *session.posargs, environments=["torch"])


@nox.session(tags=[DEVELOPMENT])
def readme(session: nox.Session) -> None:
    """Write the README's tables of strategies and options from the declarations."""
    run_with_tools(session, "-m", "common.declarations.readme")


@nox.session(tags=[DEVELOPMENT])
def lock(session: nox.Session) -> None:
    """Write the list of exact versions of everything that is installed; options after `--` are uv's (`--upgrade`)."""
    try:
        uv.lock(PYPROJECT["dependency-groups"], installation.PYTHON_VERSIONS[-1], session.posargs)
    except UserError as error:
        session.error(str(error).rstrip("."))


@nox.session(tags=[DEVELOPMENT])
def horovod_check(session: nox.Session) -> None:
    """Try every collective of Horovod, with each framework and over each controller that was built (about 1 minute)."""
    prepare(session, "horovod")
    run(session, "horovod_impl/check.py", *session.posargs, name="horovod")


@nox.session(tags=[DEVELOPMENT])
def horovod_nccl(session: nox.Session) -> None:
    """Build Horovod for NVIDIA GPUs, from a CUDA build of torch and NCCL in their wheels, and load it; needs no GPU."""
    prepare(session, "horovod-nccl")
    run(session, "-c", "import horovod.torch; assert horovod.torch.nccl_built()", name="horovod-nccl")


@nox.session(tags=[DEVELOPMENT])
def tools(session: nox.Session) -> None:
    """Make the environment without any framework, which compares, reports, tests and lints."""
    prepare(session, "tools", options=session.posargs)


for each in FAMILIES.values():
    add_environment(each)


def usual_environments() -> list[str]:
    """The environments of all families but those that are made on request and that nobody has asked for yet."""
    return [name for name, family in FAMILIES.items() if not family.made_on_request or environment(name).made.exists()]


def quick_environments() -> list[str]:
    """The environments of the quick comparison, and those that are made anyway."""
    quick = {each.family.environment for each in STRATEGIES.values() if each.quick}
    return [name for name in FAMILIES if name in quick or environment(name).made.exists()]


def environment(name: str) -> Environment:
    """The environment of a dependency group of pyproject.toml."""
    for_gpus = {family.environment_for_gpus: family for family in FAMILIES.values()}
    group, family = {"tools": "dev"}.get(name, name), FAMILIES.get(name) or for_gpus.get(name)
    if family and family.environment_for_gpus and shutil.which("nvidia-smi"):
        group = family.environment_for_gpus
    requirements = nox.project.dependency_groups(PYPROJECT, group)
    script = Path(family.build).resolve() if family and family.build else None
    needs_torch, needs_one_build = (
        any(each.startswith(f"torch{sign}") for each in requirements) for sign in ("==", "===")
    )
    # Without a driver that is the build for CPUs.
    builds = {"UV_TORCH_BACKEND": "auto"} if needs_torch and not needs_one_build else {}
    return Environment(name, tuple(dict.fromkeys(requirements)), script, builds)


def make(session: nox.Session, *names: str, options: Sequence[str] = ()) -> dict[str, str]:
    """Make these environments where that isn't done; return why some can't be had."""
    try:
        failures = installation.make([environment(name) for name in names], options, ADVICE)
        shadows.refuse()
        return failures
    except UserError as error:
        session.error(str(error).rstrip("."))


def prepare(session: nox.Session, *names: str, options: Sequence[str] = ()) -> None:
    """Make these environments, none of which the session can do without."""
    if failures := make(session, *names, options=options):
        session.error(" ".join(failures.values()).rstrip("."))


def measure(session: nox.Session, module: str, environments: Iterable[str] | None = None) -> None:
    """Run a module that launches what the session's options name, else what these or the usual environments have.

    The environments are made before, but where nothing will be launched.
    """
    programs = STRATEGIES | LIBRARIES
    named = {programs[name].family.environment for name in session.posargs if name in programs}
    is_launching = not {"--plan", "--help", "-h", "--again"} & {*session.posargs}
    wanted = named or (usual_environments() if environments is None else environments)
    needed = [name for name in FAMILIES if is_launching and name in wanted]
    run_with_tools(session, "-m", module, *session.posargs, environments=needed)


def run_with_tools(session: nox.Session, *arguments: str, environments: Iterable[str] = ()) -> None:
    """Run Python in the environment without frameworks, with those of the `environments` that can be had beside it.

    The session goes on without the others, and fails at its end.
    """
    failures = make(session, "tools", *environments)
    if "tools" in failures:
        session.error(failures["tools"].rstrip("."))
    for sentence in failures.values():
        session.warn(sentence)
    run(session, *arguments)
    if failures:
        session.error(f"Done without {' and '.join(failures)}: {' '.join(failures.values())}".rstrip("."))


def run(session: nox.Session, *arguments: str, name: str = "tools") -> None:
    """Run Python in the environment of this name."""
    session.run(str(environment(name).python), *arguments, external=True, env=NEUTRAL)
