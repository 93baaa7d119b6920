"""What the frameworks' ceilings explain of a step, and what the probes measured."""

import itertools

import pandas as pd

from common.records.ceiling import Ceiling, in_words
from reports import blocks
from reports.tables.ceilings import ALIKE, EXPLAINED
from reports.tables.material import Material


def explanations(table: pd.DataFrame, regime: str) -> list[str]:
    """A sentence for each two bases of a regime whose steps differ because of their frameworks' products.

    `table` is that of `steps`. What the products explain is the difference of their times, beside the difference of the
    steps: at least the share `EXPLAINED` of it, and no more than it over that share, which would be no explanation.
    """
    bases = table[table["is_base"] & (table["regime"] == regime)]
    said = []
    for quick, slow in itertools.combinations(bases.sort_values("step_seconds").to_dict("records"), 2):
        longer = slow["step_seconds"] - quick["step_seconds"]
        by_products = slow["products_seconds"] - quick["products_seconds"]
        differ = slow["framework"] != quick["framework"] and longer > ALIKE * slow["step_seconds"]
        if differ and EXPLAINED * longer <= by_products <= longer / EXPLAINED:
            times = (slow["step_seconds"], longer, by_products)
            step, more, theirs = (f"{blocks.milliseconds(seconds)} ms" for seconds in times)
            said.append(
                f"{slow['strategy']}'s step of {step} is {more} longer than {quick['strategy']}'s, and "
                f"{slow['framework']}'s matrix products of these shapes alone take {theirs} longer than "
                f"{quick['framework']}'s: that difference is the frameworks', whoever distributes them."
            )
    return said


def story(material: Material) -> list[blocks.Block]:
    """What the probes have told: what they measured, and what it explains; nothing where there was none."""
    ceilings = material.results.ceilings
    if not ceilings:
        return []
    explanation = (
        "A probe of each framework (one launch, its median window) clocked the float32 matrix products of one worker's "
        "step, each by itself, on a worker's cores with its threads; and one all-reduce of a buffer as large as the "
        "gradients, among as many workers as the rounds have. Operands stay in the caches, so no strategy that "
        "computes by the same operations can be faster than this."
    )
    first = material.regimes[0] if material.regimes else ""
    said = [*explanations(material.ceilings, first), *map(_probed, ceilings)]
    return [blocks.heading("The frameworks' ceilings", level=2), blocks.text(explanation), blocks.items(said)]


def _probed(each: Ceiling) -> str:
    """What one probe measured, in whatever ways, and with which libraries; or why it measured nothing."""
    changed = [f"{name}={value}" for name, value in each.variables.items()]
    name = each.family + (f" with {blocks.listed(changed)}" if changed else "")
    if each.status != "ok":
        return f"The probe of {name} is {each.status}: {each.reason} (log: {each.log})"
    measured = f"{name}: {'; '.join(in_words(each))}."
    if changed:
        return measured
    facts = "; ".join(f"{fact}: {value}" for fact, value in each.facts.items() if value)
    return f"{measured} {facts}. The processor has {', '.join(each.instruction_sets) or 'none of those that matter'}."
