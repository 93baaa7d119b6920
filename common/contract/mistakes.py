"""The mistakes that a referee knows: what each makes of the declared recipe, in a sentence, and how to mend it.

Every mistake that keeps an update a sum of the workers' gradients is another recipe. So the table has for each what it
makes of the declared counts, and a launch has made the one whose counts all its updates fit. Two at once are one after
the other. What makes no such sum of an update has a cause of its own (`common.contract.reading.Step`).
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from common.contract import model
from common.contract.oracle import LOSS_TOLERANCE, loss_deviation
from common.contract.reading import Counts, Reading, Step, TensorUpdate, Trained
from common.contract.recipe import Coefficient

NONE_KNOWN = "none of the known mistakes"

_NEAR = 1e-4
"""A residual below this, over rounding's, tells no other mistake where one explains all the rest."""

_NOISE_MOVES = 3.0
"""By how many times the largest residual of a step other coefficients may be off: few elements follow their noise."""

_ROUNDED = 2e-2
"""The largest residual that 16 bits leave: gradients of float16 left 3e-4, of bfloat16 2e-3, autocast to it 1.4e-2."""


_Made = Callable[[Counts, TensorUpdate], Counts | None]
"""What a mistake makes of the counts; None where it can't be made there."""


@dataclass(frozen=True)
class Mistake:
    """One kind of mistake."""

    name: str
    sentence: str
    """With {counted} and {decayed} for the beginnings of sentences on gradients and weights, {found}, {expected},
    {shares} and {declared} for gradients, {velocity} and {stale} for what else was found, and {momentum} for what was
    asked."""
    remedy: str
    made: _Made
    is_steady: bool = True
    """Whether its factor is the same in all tensors and steps."""


def _more(direction: Callable[[Counts], Counts], times: Callable[[TensorUpdate], float] | None = None) -> _Made:
    """The counts and so many times the direction more; None: as often as explains the update best."""

    def made(counts: Counts, update: TensorUpdate) -> Counts | None:
        way = direction(counts)
        vector = update.vector(way)
        more = times(update) if times else update.solved.along(update.vector(counts), vector)
        if not more or not math.isfinite(more) or not vector.any():
            return None
        shares = tuple(own + more * each for own, each in zip(counts.shares, way.shares, strict=True))
        return dataclasses.replace(
            counts, shares=shares, velocity=counts.velocity + more * way.velocity, decay=counts.decay + more * way.decay
        )

    return made


def _nothing(counts: Counts) -> tuple[float, ...]:
    return tuple(0.0 for _ in counts.shares)


def _gradients(counts: Counts) -> Counts:
    return Counts(counts.shares, 0.0, 0.0)


def _rates(counts: Counts) -> Counts:
    """Gradients and weights; without decay, where that is the same, nothing."""
    return Counts(counts.shares if counts.decay else _nothing(counts), 0.0, counts.decay)


def _whole_times(counts: Counts, update: TensorUpdate) -> Counts | None:
    """Gradients that count a whole number of times as often."""
    nearest = _more(_gradients)(counts, update)
    times = round(sum(nearest.shares) / sum(counts.shares)) if nearest and sum(counts.shares) else 0
    return _more(_gradients, lambda update: times - 1)(counts, update) if times > 1 else None


def _not_exchanged(counts: Counts, update: TensorUpdate) -> Counts | None:
    return None if update.are_alike else dataclasses.replace(counts, shares=_alone(update, update.step.replica))


def _first_alone(counts: Counts, update: TensorUpdate) -> Counts | None:
    return dataclasses.replace(counts, shares=_alone(update, 0))


def _alone(update: TensorUpdate, worker: int) -> tuple[float, ...]:
    """The mean of this worker's gradients."""
    many = update.trained.micro_batches
    return tuple((column // many == worker) / many for column in range(update.trained.shards * many))


def _exchanged(counts: Counts, update: TensorUpdate) -> Counts | None:
    workers, alike = update.trained.shards, update.trained.recipe.keeps_alike
    return None if alike else dataclasses.replace(counts, shares=(1 / workers,) * workers)


def _left_out(counts: Counts, update: TensorUpdate) -> Counts | None:
    """Some workers count nothing, and the others as much as before, or as much more as makes up for these."""
    shares = _found(update)
    counted = [share > max(shares) / 2 for share in shares]
    if all(counted) or not any(counted):
        return None
    mean = statistics.fmean(share for share, is_in in zip(shares, counted, strict=True) if is_in)
    nearest = min((1 / len(shares), 1 / sum(counted)), key=lambda each: abs(each - mean))
    return dataclasses.replace(counts, shares=tuple(nearest * is_in for is_in in counted))


def _as_if_alike(counts: Counts, update: TensorUpdate) -> Counts | None:
    """Micro-batches of different size count alike: all of them, or each worker's together as those of another one."""
    shares, many = counts.shares, update.trained.micro_batches
    if min(shares) <= 0 or max(shares) == min(shares):
        return None
    total, first = sum(shares), range(0, len(shares), many)
    of_workers = [sum(shares[start : start + many]) for start in first for _ in range(many)]
    alike = tuple(total / len(shares) for _ in shares)
    workers_alike = tuple(total / len(first) * own / of for own, of in zip(shares, of_workers, strict=True))
    either = [dataclasses.replace(counts, shares=each) for each in (alike, workers_alike)]
    return min(either, key=lambda each: update.solved.apart(update.vector(each)))


def _unevenly(counts: Counts, update: TensorUpdate) -> Counts | None:
    """Workers that count differently, but 1 together."""
    shares = _found(update)
    return dataclasses.replace(counts, shares=shares) if abs(sum(shares) - 1) < 0.02 and min(shares) > 0 else None


def _found(update: TensorUpdate) -> tuple[float, ...]:
    """Each worker's share; NaN where it can't be told."""
    return tuple(share.value if share else math.nan for share in update.solved.recipe.shares)


def _stale(counts: Counts, update: TensorUpdate) -> Counts | None:
    return dataclasses.replace(counts, shares=_nothing(counts), stale=sum(counts.shares)) if update.has_stale else None


def _nesterov(counts: Counts, update: TensorUpdate) -> Counts | None:
    """The step is g + momentum velocity (Sutskever et al. 2013, as PyTorch's optim.SGD has it).

    By the update before, which is another one than the velocity then, that is
    (1 + m) g + m (1 - rate decay) update - m stale + decay weights.
    """
    momentum, decay, ahead = counts.velocity, counts.decay, 1 + counts.velocity
    shares = tuple(ahead * share for share in counts.shares)
    if not momentum or not (update.is_first or update.has_stale):
        return None
    if update.is_first:
        return Counts(shares, momentum, ahead * decay)
    return Counts(shares, momentum * (1 - _rate(update) * decay), decay, -momentum * sum(counts.shares))


def _dampened(counts: Counts, update: TensorUpdate) -> Counts | None:
    """Of all steps but the first a part of the gradient, with the decay in it, goes into the velocity."""
    if not counts.velocity or update.is_first:
        return None
    return _more(_rates if counts.decay else _gradients)(counts, update)


def _decoupled(counts: Counts, update: TensorUpdate) -> Counts | None:
    """The decay isn't in the velocity (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019)."""
    if not counts.velocity or not counts.decay or update.is_first:
        return None
    velocity = counts.velocity * (1 - _rate(update) * counts.decay)
    return dataclasses.replace(counts, velocity=velocity, decay=counts.decay * (1 - counts.velocity))


def _accumulating(counts: Counts, update: TensorUpdate) -> Counts | None:
    """Gradients that are never set to zero: G <- G + g, and the velocity v <- momentum v + G.

    Without momentum an update is the one before and the new gradient. With it the second and the third update still are
    sums of what is known; later ones aren't.
    """
    momentum, since = counts.velocity, update.step.step - update.trained.first_step
    if not update.has_stale or (momentum and since > 2):
        return None
    if not update.has_velocity:
        # Of a first moment the stale column is what the optimizer got in the step before: all earlier gradients.
        return dataclasses.replace(counts, stale=1.0)
    if since == 1:
        return dataclasses.replace(counts, stale=sum(counts.shares))
    first, lost = 1 / (1 + momentum), _rate(update) * counts.decay
    velocity = momentum + first - lost * (1 + momentum * first**2)
    return Counts(counts.shares, velocity, 0.0, 1 - first + lost * momentum * first**2)


def _frozen(counts: Counts, update: TensorUpdate) -> Counts | None:
    return None if update.solved.has_moved or update.moves_somewhere else Counts(_nothing(counts), 0.0, 0.0)


def _not_sent(counts: Counts, update: TensorUpdate) -> Counts | None:
    is_still = update.moves_somewhere and not update.solved.has_moved
    return Counts(_nothing(counts), 0.0, 0.0) if is_still else None


def _rate(update: TensorUpdate) -> float:
    return model.learning_rate(update.trained.task, update.step.step)


MISTAKES = (
    Mistake(
        "frozen",
        "It didn't move.",
        "Give the optimizer all parameters, and let each require gradients.",
        _frozen,
    ),
    Mistake(
        "not sent",
        "It moved where a worker updates it and stood still on others: updated parameters aren't sent to all.",
        "Broadcast each parameter from the worker that updates it, after the optimizer's step.",
        _not_sent,
    ),
    Mistake(
        "micro-batches summed",
        "{counted}, as many times as a step has micro-batches: their gradients are added.",
        "Divide the loss by the number of micro-batches.",
        _more(_gradients, lambda update: update.trained.micro_batches - 1),
    ),
    Mistake(
        "summed",
        "{counted}: summed, not averaged.",
        "Divide by the world size, or all-reduce with a mean.",
        _more(_gradients, lambda update: update.trained.shards - 1),
    ),
    Mistake(
        "rate times workers",
        "{counted}, and the weight decay as many times more: the learning rate is multiplied by the number of workers.",
        "Leave the learning rate as it is, or scale it on purpose by --learning-rate.",
        _more(_rates, lambda update: update.trained.shards - 1),
    ),
    Mistake(
        "dampened",
        "After the first step each worker's gradient counted {found} instead of {expected}: the momentum is dampened.",
        "Set dampening to 0.",
        _dampened,
    ),
    Mistake(
        "averaged twice",
        "{counted}: averaged twice.",
        "Divide once: what exchanges the gradients, or the loss, divides already.",
        _more(_gradients, lambda update: 1 / update.trained.shards - 1),
    ),
    Mistake(
        "not exchanged",
        "Each replica counted its own worker's gradient alone: gradients aren't exchanged.",
        "Let what exchanges gradients know the parameters, and call it before the optimizer steps.",
        _not_exchanged,
    ),
    Mistake(
        "rank 0's alone",
        "The first worker's gradient counted, and no other's did: one worker's alone is used, or all have the "
        "same rows.",
        "Reduce to all workers, not broadcast, and give each worker rows of its own.",
        _first_alone,
    ),
    Mistake(
        "exchanged",
        "Each worker's gradient counted {found}: gradients are exchanged, although they should stay where they are.",
        "Leave the exchange out where the options say so.",
        _exchanged,
    ),
    Mistake(
        "sum over rows",
        "{counted}, as often as it has rows: its loss is a sum over rows, not their mean.",
        "Take the mean over rows.",
        _more(_gradients, lambda update: update.trained.rows.count / update.trained.shards - 1),
    ),
    Mistake(
        "one step old",
        "This step's gradients counted nothing, and those of the step before did: the optimizer steps before the "
        "exchange has ended.",
        "Wait for the exchange before the step.",
        _stale,
    ),
    Mistake(
        "not zeroed",
        "Gradients of earlier steps counted again: they aren't set to zero.",
        "Set gradients to zero before each backward pass.",
        _accumulating,
    ),
    Mistake(
        "nesterov",
        "{counted}, and that of the step before {stale}: Nesterov's momentum.",
        "Switch Nesterov's momentum off.",
        _nesterov,
    ),
    Mistake(
        "momentum lost",
        "The update before counted nothing instead of {momentum}: the momentum is lost between steps.",
        "Keep one optimizer for all steps, and restore its state after a restart.",
        _more(lambda counts: Counts(_nothing(counts), counts.velocity, 0.0), lambda update: -1),
    ),
    Mistake(
        "other momentum",
        "The update before counted {velocity} instead of {momentum}.",
        "Give the optimizer the momentum that the task has.",
        _more(lambda counts: Counts(_nothing(counts), 1.0, 0.0)),
    ),
    Mistake(
        "decay missing",
        "{decayed}: there is no weight decay.",
        "Give the optimizer the weight decay, for every parameter.",
        _more(lambda counts: Counts(_nothing(counts), 0.0, counts.decay), lambda update: -1),
    ),
    Mistake(
        "decoupled decay",
        "{decayed}: the decay isn't in the momentum, as in AdamW.",
        "Add it to the gradient, or leave momentum out.",
        _decoupled,
    ),
    Mistake(
        "other decay",
        "{decayed}.",
        "Give the optimizer the weight decay that the task has, for the parameters that should have it.",
        _more(lambda counts: Counts(_nothing(counts), 0.0, 1.0)),
    ),
    Mistake(
        "accumulated",
        "{counted}, a whole number of times: gradients of several "
        "micro-batches are added and not divided by their number, or the loss is scaled.",
        "Divide the loss by the number of micro-batches.",
        _whole_times,
    ),
    Mistake(
        "other rate",
        "{counted}, and the weight decay as many times: the rate is another, or its schedule.",
        "Give the optimizer the rate of the task in this step.",
        _more(_rates),
    ),
    Mistake(
        "factor",
        "{counted}: the loss or the gradients are scaled.",
        "Leave gradients as they are, and take a loss scale back before the step.",
        _more(_gradients),
    ),
    Mistake(
        "clipped",
        "{counted}, another number in each step: gradients are clipped, or the rate's schedule is another.",
        "Leave clipping out.",
        _more(_gradients),
        is_steady=False,
    ),
    Mistake(
        "worker left out",
        "Gradients of some workers counted nothing: {shares}.",
        "Let all workers join the exchange in each step.",
        _left_out,
    ),
    Mistake(
        "mean of means",
        "Gradients counted {shares} instead of {declared}: means over different numbers of rows or tokens are averaged "
        "as if they were alike.",
        "Divide sums of losses by the number of rows or tokens of all workers.",
        _as_if_alike,
    ),
    Mistake(
        "uneven",
        "Workers counted {shares} instead of {expected} each: parts of different size are averaged as if they were "
        "alike.",
        "Weight each worker by its rows.",
        _unevenly,
    ),
)

CAUSES = {
    "maximum": (
        "An update is the largest of the workers' gradients, element by element: reduced by a maximum.",
        "All-reduce with a mean.",
    ),
    "activation": ("The updates are those of a network with another activation.", "Put the task's activation."),
    "rounded": (
        "Residuals of up to {residual} stand beside counts as declared: gradients or weights are rounded to 16 bits.",
        "Keep them in float32, or declare the option that rounds.",
    ),
    "rows": ("{rows}.", "Give each worker its own rows of this step, each once."),
}
"""What explains updates that are no sum of the workers' gradients, and how to mend it."""


def named(
    trained: Trained, reading: Reading, updates: Sequence[TensorUpdate], remedies: Mapping[str, str]
) -> tuple[str, ...]:
    """What the launch did wrong by its evidence: sentences with the numbers and a remedy each, none where it is right.

    `remedies` are the framework's own words for some of them, by the mistake's name.
    """

    def cause(name: str, **words: str) -> str:
        sentence, remedy = CAUSES[name]
        return f"{sentence.format(**words)} {remedies.get(name, remedy)}"

    said = [*_of_weights(trained, reading, remedies), *_of_losses(trained, reading)]
    has_same_rows = any("has the rows of" in each for each in said)
    deviating = [update for update in updates if update.deviates]
    if causes := {update.step.cause: update.step for update in reversed(deviating) if update.step.cause}:
        return (*said, *(cause(name, rows=_rows_in_words(step)) for name, step in sorted(causes.items())))
    counted = [
        update
        for update in deviating
        if not has_same_rows and update.solved.recipe.residual < _ROUNDED and not _fits(update, update.declared)
    ]
    unexplained = [update for update in deviating if update.solved.recipe.residual > update.solved.recipe.floor]
    said += _of_counts(trained, reading, counted, remedies)
    worst = max(unexplained, key=lambda update: update.solved.recipe.residual, default=None)
    if worst is None or (counted and worst.solved.recipe.residual < _NEAR):
        if reading.apart and trained.recipe.keeps_alike and not said:
            said.append(f"Replicas differ before step {reading.apart[0]}. Let each apply the same update, bit by bit.")
        return tuple(said)
    residual, floor = worst.solved.recipe.residual, worst.solved.recipe.floor
    if residual < _ROUNDED:
        return (*said, cause("rounded", residual=f"{residual:.0e}"))
    if said:
        return tuple(said)
    return (
        f"It is {NONE_KNOWN}: no sum of gradients explains {residual:.1e} of the update of {worst.tensor} in step "
        f"{worst.step.step}, where rounding explains {floor:.0e}.",
    )


def _fits(update: TensorUpdate, counts: Counts) -> bool:
    """Whether a sum with these counts is as near to the update as any, but for rounding and what no sum explains."""
    vector = update.vector(counts)
    near = 0.0 if counts == update.declared else _NEAR
    noise = max((each.residual for each in update.step.tensors.values() if each.residual > each.floor), default=0.0)
    return update.solved.apart(vector) <= max(update.solved.floor(vector), near, _NOISE_MOVES * noise)


def _of_weights(trained: Trained, reading: Reading, remedies: Mapping[str, str]) -> Iterator[str]:
    """What is wrong of the weights themselves, before any update."""
    if trained.first_step in reading.apart:
        remedy = remedies.get("not broadcast", "Send each worker the first one's parameters before the first step.")
        yield f"Replicas began with different weights: parameters aren't broadcast. {remedy}"
    if reading.initial > 0:
        yield (
            f"The weights before the first step are {reading.initial:.1e} from the contract's. Start with "
            "`run.initial_state`."
        )


def _of_losses(trained: Trained, reading: Reading) -> Iterator[str]:
    """What is wrong of the first step whose loss isn't that of the same rows at the same weights."""
    for step in reading.steps:
        for shard, (loss, own) in enumerate(step.losses):
            deviation = loss_deviation(loss, own)
            if deviation <= LOSS_TOLERANCE:
                continue
            of_rows = [other for _, other in step.losses]
            same = [other for other, each in enumerate(of_rows) if loss_deviation(loss, each) <= LOSS_TOLERANCE]
            if same and trained.shards > 1:
                yield same_rows(shard, same[0])
            elif loss is None:
                yield f"The loss of step {step.step} isn't finite. Look at the rate, and at what is divided by."
            elif not step.cause:
                yield (
                    f"Worker {shard}'s loss in step {step.step} is {deviation:.1e} from that of its rows at the same "
                    "weights: other rows, another network or another loss. Compare them with the contract's."
                )
            return


def same_rows(worker: int, other: int) -> str:
    """The sentence on a worker that has another one's rows."""
    return f"Worker {worker} has the rows of worker {other}. Give each worker rows of its own."


def _of_counts(
    trained: Trained, reading: Reading, updates: Sequence[TensorUpdate], remedies: Mapping[str, str]
) -> Iterator[str]:
    """The mistakes that explain what counted otherwise than declared: first those that explain most tensors."""
    # What stood still on a replica and moved on another one may have a mistake in each.
    left: dict[tuple[str, bool], list[TensorUpdate]] = {}
    for update in updates:
        left.setdefault((update.tensor, update.solved.has_moved), []).append(update)
    known: list[tuple[Mistake, ...]] = [(each,) for each in MISTAKES]
    while left:
        explains = {mistakes: [key for key, own in left.items() if _explain(mistakes, own)] for mistakes in known}
        best = max(known, key=lambda mistakes: len(explains[mistakes]))
        if not explains[best] and len(known) == len(MISTAKES):
            known = [*permutations(MISTAKES, 2)]
            continue
        if not explains[best]:
            yield f"Its counts are {NONE_KNOWN}: {_in_words(next(iter(left.values()))[0])}."
            return
        own = [update for key in explains[best] for update in left.pop(key)]
        for mistake in best:
            scope = _scope(trained, reading, own, [name for name, _ in explains[best]])
            yield f"{scope}{_sentence(mistake, own)} {remedies.get(mistake.name, mistake.remedy)}"


def _explain(mistakes: Sequence[Mistake], updates: Sequence[TensorUpdate]) -> bool:
    """Whether these mistakes, one after the other, explain each update of a tensor, steady ones by the same factor.

    What can't be said of later updates isn't asked of a mistake that explains the first ones.
    """
    shares: list[float] = []
    for update in updates:
        counts: Counts | None = update.declared
        for mistake in mistakes:
            counts = mistake.made(counts, update) if counts else None
        if counts is None and shares and update.step.step > update.trained.first_step + 2:
            continue
        if counts is None or not _fits(update, counts):
            return False
        shares.append(sum(counts.shares))
    is_steady = all(mistake.is_steady for mistake in mistakes)
    return bool(shares) and (not is_steady or max(shares) - min(shares) <= 0.02 * max(map(abs, shares)))


def _scope(trained: Trained, reading: Reading, updates: Sequence[TensorUpdate], tensors: Sequence[str]) -> str:
    """In which tensors and from when on, where not in all of them from the start: the beginning of a sentence."""
    every = [*reading.steps[0].tensors]
    words: list[str] = []
    if {*tensors} == {name for name in every if name.endswith(".bias")}:
        words.append("in the biases alone")
    elif len(tensors) < len(every):
        words.append(f"in {', '.join(tensors)} alone")
    steps, wrong = sorted({each.step for each in reading.steps}), sorted({update.step.step for update in updates})
    # The second and the third step tell apart what the first one can't.
    if earlier := [step for step in steps if step < wrong[0] and wrong[0] > trained.first_step + 2]:
        words.append(f"from a step after {earlier[-1]} on, {wrong[0]} at the latest")
    # A step that no sum of gradients explains isn't right, although it is none of these updates.
    unexplained = {
        step.step for step in reading.steps if any(each.residual > each.floor for each in step.tensors.values())
    }
    right = [step for step in steps if step > wrong[0] and step not in {*wrong, *unexplained}]
    if right and right[0] > wrong[-1]:
        words.append(f"up to a step before {right[0]}")
    elif right:
        words.append(f"not in step {', '.join(map(str, right))}")
    return f"{', '.join(words)}: ".capitalize() if words else ""


def _sentence(mistake: Mistake, updates: Sequence[TensorUpdate]) -> str:
    """The mistake in a sentence, with what was found in these updates."""

    def surest(coefficients: Iterable[Coefficient | None]) -> str:
        known = [each for each in coefficients if each]
        return _number(min(known, key=lambda each: each.uncertainty).value) if known else "?"

    found, declared = [update.solved.recipe for update in updates], updates[-1].declared
    finite = [statistics.fmean(shares) for shares in map(_found, updates) if not math.isnan(sum(shares))] or [math.nan]
    low, high = min(finite), max(finite)
    is_range = high - low > 0.02 * max(map(abs, finite))
    share = f"{_number(low)} to {_number(high)}" if is_range else _number(finite[-1])
    expected = _number(statistics.fmean(declared.shares))
    decay = surest(each.decay for each in found)
    return mistake.sentence.format(
        counted=f"Each worker's gradient counted {share} instead of {expected}",
        decayed=f"The weights counted {decay} instead of {_number(declared.decay)}",
        found=share,
        expected=expected,
        shares=", ".join(map(_number, _found(updates[-1]))),
        declared=", ".join(map(_number, declared.shares)),
        velocity=surest(each.velocity for each in found),
        momentum=_number(declared.velocity),
        stale=surest(each.stale for each in found),
    )


def _in_words(update: TensorUpdate) -> str:
    found = update.solved.recipe
    named = {"velocity": found.velocity, "stale": found.stale, "decay": found.decay}
    others = [f"{name} {_number(each.value)}" for name, each in named.items() if each]
    shares = ", ".join(map(_number, _found(update)))
    return ", ".join([f"in step {update.step.step} the workers' shares of {update.tensor} are {shares}", *others])


def _rows_in_words(step: Step) -> str:
    """Which rows of the update counted otherwise than once."""
    if others := [row for row in step.rows if row.step]:
        which = "next" if others[0].step > 0 else "last"
        return f"In step {step.step} {len(others)} rows of the {which} step's batch counted in place of its own"
    counts = {round(row.count, 1) for row in step.rows}
    if 0.0 not in counts and 1 < len(counts) < len(step.rows) / 8:
        return (
            f"In step {step.step} rows counted {_number(min(counts))} to {_number(max(counts))} times: parts of "
            "different size are averaged as if they were alike"
        )
    told = [f"row {row.position} {_number(row.count)} times" for row in step.rows[:4]]
    more = f" and {len(step.rows) - len(told)} more" if len(step.rows) > len(told) else ""
    return f"In step {step.step} rows counted otherwise than once: {', '.join(told)}{more}"


def _number(value: float) -> str:
    """Two decimals, or as many as show two digits."""
    if not math.isfinite(value):
        return "?"
    return f"{round(value, 2) + 0.0:.2f}" if abs(value) >= 0.1 or abs(value) < 5e-5 else f"{value:.2g}"
