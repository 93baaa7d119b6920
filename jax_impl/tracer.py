"""Run a strategy's script, and write the messages of a step beside its record: the collectives of its compiled step.

To start it: `python -m jax_impl.tracer SCRIPT OPTIONS`. The script stays as it is: this process alone replaces
`Run.observe`. XLA compiles the step at its first call. The optimized program names each collective with its arrays, in
the order in which they are carried out, and has no times.
"""

import math
import re
from collections.abc import Iterable

from common.contract.collective_meanings import Collective
from common.errors import UserError
from common.measurement.run import Run
from common.measurement.runner import run_script, writing_the_trace
from common.records.trace import Message, Trace
from jax_impl.libraries import IN_ONE_PROCESS, OVER_GLOO

COLLECTIVES = {
    "all-reduce": Collective.ALL_REDUCE,
    "all-gather": Collective.ALL_GATHER,
    "reduce-scatter": Collective.REDUCE_SCATTER,
}
"""Those that strategies have, by XLA's names."""

STEP = "jit_train_step"
"""XLA's name of the program of the step, whose function every strategy calls `train_step`."""

INSTRUCTION = re.compile(rf"= (?P<arrays>.+?) (?P<name>{'|'.join(COLLECTIVES)})(-start)?\(")
LIBRARIES = {"gloo": OVER_GLOO, "XLA": IN_ONE_PROCESS}
"""By the backend in a record."""


def main() -> None:
    """Run the script that the first argument names, as if the user had started that script."""
    Run.observe = writing_the_trace(Run.observe, lambda run: trace_of(run, programs_of_step()))
    run_script()


def programs_of_step() -> list[str]:
    """The optimized program of the step, as XLA writes it, once this process has compiled the step."""
    # The script makes its settings before it imports JAX.
    import jax

    executables = jax.devices()[0].client.live_executables()
    modules = [module for executable in executables for module in executable.hlo_modules()]
    return [module.to_string() for module in modules if module.name == STEP]


def trace_of(run: Run, programs: Iterable[str]) -> Trace:
    """The messages of a step's programs. Raises UserError without messages, and where no library could replay them."""
    messages = [message for program in programs for message in messages_of(program, run.world.size)]
    if not messages:
        raise UserError(f"{run.strategy.name} sends nothing here: give 2 workers or more, and leave --no-exchange out.")
    if run.world.backend not in LIBRARIES:
        raise UserError(f"No library here replays what {run.world.backend} carries: give --device cpu.")
    return Trace(
        strategy=run.strategy.name,
        workers=run.world.size,
        source="XLA's program of the step, optimized",
        library=LIBRARIES[run.world.backend].name,
        data_type="float32",
        messages=messages,
    )


def messages_of(program: str, workers: int) -> list[Message]:
    """The messages of a program: one for each array of a collective. Whole numbers count rows and are left out."""
    messages: list[Message] = []
    for instruction in INSTRUCTION.finditer(program):
        collective = COLLECTIVES[instruction["name"]]
        # The program has the results, of which a reduce-scatter's is an N-th.
        parts = workers if collective is Collective.REDUCE_SCATTER else 1
        for dimensions in re.findall(r"\bf32\[([\d,]*)\]", instruction["arrays"]):
            size_bytes = 4 * parts * math.prod(int(each) for each in dimensions.split(",") if each)
            messages.append(Message(collective=collective, size_bytes=size_bytes))
    return messages


if __name__ == "__main__":
    main()
