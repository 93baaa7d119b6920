"""The record of one probe: how fast a framework's own operations are, whatever a strategy makes of them."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from common.records.files import read_records
from common.records.header import Count, Duration, Header, Part, Positive, Seconds

FOLDER = "ceilings"
"""Where a comparison's folder has them, apart from the records of its launches."""

AS_TRAINED = "as trained"
"""The way to compute a product that the framework's strategies take."""


class Window(Part, frozen=True, kw_only=True):
    """A clocked window."""

    repetitions: Positive
    """How often an operation was repeated."""
    seconds: Duration
    """How long that took, on the slowest rank."""


class Product(Part, frozen=True):
    """One matrix product of a training step, of a layer from `inputs` to `outputs` and so many rows.

    Of a convolution, `inputs` and `outputs` are channels, and rows are images.
    """

    layer: Count
    kind: Literal["forward", "weight gradient", "input gradient"]
    """(rows, inputs) by (inputs, outputs); (inputs, rows) by (rows, outputs); (rows, outputs) by (outputs, inputs)."""
    rows: Positive
    inputs: Positive
    outputs: Positive
    height: Count = 0
    """Of the images that a convolution reads; 0 for a plain product. So it is with what follows."""
    width: Count = 0
    size: Count = 0
    """Height and width of the kernel."""
    padding: Count = 0

    @property
    def operations(self) -> int:
        """Floating point operations: a multiplication and an addition for each row, input and output.

        Of a convolution, for each pixel of the output and of the kernel as well.
        """
        height, width = (edge + 2 * self.padding - self.size + 1 for edge in (self.height, self.width))
        pixels = height * width * self.size**2 if self.size else 1
        return 2 * self.rows * self.inputs * self.outputs * pixels


class ClockedProduct(Product, frozen=True, kw_only=True):
    """A product, and what it took."""

    way: str
    """The way in which it was computed."""
    windows: list[Window]


class Ceiling(Header, frozen=True, kw_only=True, tag="ceiling"):
    """What one probe measured, or why it measured nothing.

    The exchange was clocked among its workers; the products were clocked in the first of them, alone.
    """

    framework: str
    """What computes, as the declarations of strategies name it."""
    preset: str
    dimensions: list[Positive]
    """Width of the input, of every hidden layer and of the output."""
    rows: Count
    """Rows per step of one worker."""
    variables: dict[str, str] = {}
    """Those environment variables that were set, of all that the probe's declaration tries."""
    products: list[ClockedProduct] = []
    """Empty where the probe clocks none."""
    exchange: list[Window] = []
    """Windows of one exchange of `exchanged_bytes`; empty with one worker."""
    exchanged_bytes: Count = 0
    """As many as one worker's gradients have."""
    operation: str = ""
    """What exchanged them, in words."""
    facts: dict[str, str] = {}
    """What the framework tells of the libraries and the instruction sets that it computes with."""
    instruction_sets: list[str] = []
    """Those of the processor on which libraries decide which of their kernels they use."""
    elapsed_seconds: Seconds = 0.0
    """From the start until it had measured everything."""


def seconds_of(windows: Sequence[Window]) -> float:
    """Seconds of one repetition, of the median window."""
    return statistics.median(window.seconds / window.repetitions for window in windows)


def in_words(ceiling: Ceiling) -> list[str]:
    """What a probe has measured: a line for each way to compute the step's products, and one for the exchange."""
    lines = []
    for way in dict.fromkeys(each.way for each in ceiling.products):
        seconds, rate = step_seconds(ceiling, way), gigaflops(ceiling, way)
        lines.append(f"products, {way}: {1000 * seconds:.3f} ms a step, {rate:.0f} GFLOP/s")
    if ceiling.exchange:
        seconds, megabytes = seconds_of(ceiling.exchange), ceiling.exchanged_bytes / 1e6
        lines.append(f"exchange, {ceiling.operation}: {1000 * seconds:.3f} ms for {megabytes:.3f} MB")
    return lines


def step_seconds(ceiling: Ceiling, way: str = AS_TRAINED) -> float:
    """Seconds of all products of a step, each in its median window; 0 where none was computed in this way."""
    return sum(seconds_of(each.windows) for each in ceiling.products if each.way == way)


def gigaflops(ceiling: Ceiling, way: str = AS_TRAINED) -> float:
    """Billions of floating point operations per second over all products of a step; NaN where there are none."""
    operations = sum(each.operations for each in ceiling.products if each.way == way)
    return operations / step_seconds(ceiling, way) / 1e9 if operations else math.nan


def read_ceilings(folder: Path) -> list[Ceiling]:
    """Every ceiling of the comparison in `folder`, in the order of their files. Raises UserError for a damaged one."""
    return [*read_records(folder / FOLDER, Ceiling).values()]
