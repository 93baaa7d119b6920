"""A fault that a launch is to suffer, as `--inject` has it: of the process of one rank, or of a virtual host."""

import math
import re
from dataclasses import dataclass
from typing import Any

from common.errors import UserError

_TAKES: dict[str, dict[str, tuple[type, float]]] = {
    "kill": {"rank": (int, 0), "step": (int, 1)},
    "stop": {"rank": (int, 0), "step": (int, 1)},
    "slow": {"rank": (int, 0), "factor": (float, 1)},
    "late": {"rank": (int, 0), "seconds": (float, 0)},
    "missing": {"rank": (int, 0)},
    "server": {"index": (int, 0), "step": (int, 1)},
    "host": {"name": (str, 0), "step": (int, 1)},
    "cable": {"name": (str, 0), "step": (int, 1), "seconds": (float, 0)},
}
"""By the kind of fault what it takes: the type of each, and the least value of a number."""


@dataclass(frozen=True)
class Fault:
    """What happens to which rank, and when."""

    kind: str
    """kill: SIGKILL at the step. stop: SIGSTOP there, for ever. slow: stopped again and again from its first step on,
    such that it runs for one part of the time in `factor`. late, missing: stopped as soon as it is there, for `seconds`
    or for ever. cable: a virtual host is cut off at rank 0's step, for `seconds`. host: the same for ever, and all of
    the launch that runs there is killed, as where the power fails."""
    rank: int = 0
    index: int | None = None
    """Of a parameter server that is killed, in the place of a rank."""
    name: str | None = None
    """Of a virtual host."""
    step: int | None = None
    """The step before which it happens: so many are computed by then."""
    factor: float = 1.0
    seconds: float = 0.0

    @property
    def in_words(self) -> str:
        """Such as `rank 1 killed at step 150`."""
        happens = {
            "kill": f"killed at step {self.step}",
            "server": f"killed at step {self.step}",
            "stop": f"stopped at step {self.step}",
            "slow": f"slowed down {self.factor:g} times",
            "late": f"{self.seconds:g} s late",
            "missing": "missing",
            "host": f"lost at step {self.step}",
            "cable": f"cut off for {self.seconds:g} s at step {self.step}",
        }
        return f"{self.victim} {happens[self.kind]}"

    @property
    def victim(self) -> str:
        """Whose process it is, as `Launcher.task_in` has it, or the host's name."""
        if self.name is not None:
            return self.name
        return f"rank {self.rank}" if self.index is None else f"server {self.index}"


def parse(text: str) -> Fault:
    """The fault in words such as `kill:rank=1,step=150`. Raises UserError for anything that can't be meant."""
    kind, _, rest = text.partition(":")
    if kind not in _TAKES:
        raise UserError(f"--inject {text!r:.80}: begin with one of {', '.join(_TAKES)}, as in {_example('kill')}.")
    given = {name: value for name, _, value in (each.partition("=") for each in rest.split(",") if each)}
    if given.keys() != _TAKES[kind].keys():
        raise UserError(f"--inject {text!r:.80}: {kind} takes {' and '.join(_TAKES[kind])}, as in {_example(kind)}.")
    values: dict[str, Any] = {}
    for name, (shape, least) in _TAKES[kind].items():
        try:
            values[name] = shape(given[name])
        except ValueError:
            values[name] = math.nan
        if shape is str:
            if not re.fullmatch(r"[a-z0-9]{1,64}", given[name]):
                raise UserError(f"--inject {text!r:.80}: give {name} that of a virtual host, as in {_example(kind)}.")
        elif not least <= values[name] <= 1e6:
            number = "a whole number" if shape is int else "a number"
            raise UserError(f"--inject {text!r:.80}: give {name} {number} from {least:g} on, as in {_example(kind)}.")
    return Fault(kind, **values)


def _example(kind: str) -> str:
    numbers = {"rank": "1", "index": "0", "step": "150", "factor": "3", "seconds": "20", "name": "host2"}
    return f"{kind}:{','.join(f'{name}={numbers[name]}' for name in _TAKES[kind])}"
