"""Hoefler and Belli's twelve rules for reports on performance, and how this report follows each of them.

Torsten Hoefler and Roberto Belli, "Scientific Benchmarking of Parallel Computing Systems: Twelve ways to tell the
masses when reporting performance results", SC'15.
"""

from dataclasses import dataclass

from common.contract.task import PRESETS
from common.sessions import calibration
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.material import Material
from reports.results import Results

TESTS = "tests/reports/test_rules.py"
"""Where the tests are that the rules name, from the repository's root."""


@dataclass(frozen=True)
class Rule:
    """A rule, and what this report makes of it."""

    number: int
    asks: str
    """The rule in short."""
    followed: str
    """How this report follows it."""
    departure: str = ""
    """Where this report doesn't, and why; empty: nowhere."""
    test: str = ""
    """The function in `TESTS` that decides, on made-up results, whether the report does so; empty: no test can."""


def section(material: Material, results: Results) -> list[Block]:
    """The table of the rules, as a part of the section on the method."""
    explanation = (
        "Torsten Hoefler and Roberto Belli ask twelve things of every report on the performance of parallel systems "
        "(\u201cScientific Benchmarking of Parallel Computing Systems\u201d, SC'15). Some are held by a test in "
        f"{TESTS}, on made-up results; whether the others are followed is a judgement."
    )
    rows = [[f"{rule.number}. {rule.asks}", _followed(rule)] for rule in twelve(material, results)]
    return [
        blocks.heading("Hoefler and Belli's twelve rules", level=2),
        blocks.text(explanation),
        blocks.table(["rule", "how this report follows it"], rows, [], left=(0, 1), wide={0: 2, 1: 5}),
    ]


def _followed(rule: Rule) -> str:
    """How a rule is followed, then where it isn't, then what holds the report to it, a line each."""
    test = rule.test.removeprefix("test_").replace("_", " ")
    held = f"Test: {test}." if test else "No test can decide it."
    departure = f"Departure: {rule.departure}" if rule.departure else ""
    return "\n".join(filter(None, [rule.followed, departure, held]))


def twelve(material: Material, results: Results) -> list[Rule]:
    """The rules in their order, with what these results make of them."""
    return [
        _speed_up(),
        _subsets(results),
        _means(),
        _ratios(),
        _intervals(material),
        _normality(material, results),
        _comparisons(material),
        _middle(),
        _factors(results),
        _techniques(),
        _bounds(material),
        _figures(),
    ]


def _speed_up() -> Rule:
    return Rule(
        number=1,
        asks="Say whether a speed-up is over one parallel process or the best serial program, and how fast that is.",
        followed=(
            "Speed-up is over the framework's own program without any distribution, \u201cover own 1\u201d over one "
            "worker of the same strategy. The notes below each table have the first one's samples per second and n, "
            "the table itself the second one's. Without its base no speed-up is printed."
        ),
        test="test_every_speed_up_has_the_rate_and_the_n_of_its_base_beside_it",
    )


def _subsets(results: Results) -> Rule:
    ok = [record for record in results.records.values() if record.status == "ok"]
    measured = [name for name in PRESETS if any(record.task.preset == name for record in ok)]
    others = [name for name in PRESETS if name not in measured]
    reasons = []
    if measured and others:
        reasons.append(
            f"Of the presets {blocks.listed([*PRESETS])} only {blocks.listed(measured)} took part; why isn't recorded."
        )
    threads = max((record.world_size * record.threads_per_worker for record in ok), default=0)
    cores = max((record.host.cores or 0 for record in ok), default=0)
    if threads < cores:
        reasons.append(f"No launch with more than {threads} of the {cores} cores ended ok.")
    return Rule(
        number=2,
        asks="Give the reason for reporting a part of the benchmarks, or for leaving a part of the system unused.",
        followed=(
            "Every launch that ended otherwise than ok is named with its reason, every strategy that the time didn't "
            "suffice for with the time that would do, and all launches are counted by how they ended."
        ),
        departure=" ".join(reasons),
        test="test_whatever_is_missing_is_named_with_its_reason",
    )


def _means() -> Rule:
    return Rule(
        number=3,
        asks="Summarise costs by the arithmetic mean, rates by the harmonic one.",
        followed=(
            "Times are summarised, by their median; a rate is the rows of a step over that time, which is what the "
            "harmonic mean is for. No rates are averaged."
        ),
        test="test_a_rate_is_that_of_the_median_time_and_no_mean_of_rates",
    )


def _ratios() -> Rule:
    return Rule(
        number=4,
        asks="Summarise the costs or rates that ratios rest on, not the ratios; else use the geometric mean.",
        followed=(
            "Speed-up and efficiency are ratios of two medians. Where ratios of rounds are summarised, both sides' "
            "absolute rates or times stand beside them."
        ),
        departure=(
            "Pairs within rounds are summarised as ratios though their times are known, by the geometric mean or the "
            "median. A round is a block: what slows the machine slows both sides, and cancels out in their ratio "
            "alone; the mean logarithm of the ratios is what is tested."
        ),
        test="test_a_ratio_of_rounds_stands_beside_the_rates_that_it_rests_on",
    )


def _intervals(material: Material) -> Rule:
    medians = material.cells["n"] if len(material.cells) else ()
    told = sum(int(n) >= FEWEST_LAUNCHES for n in medians)
    return Rule(
        number=5,
        asks="Say whether values are deterministic; of others give confidence intervals.",
        followed=(
            f"No time is. The median time of a step has a 95 % interval from n = {FEWEST_LAUNCHES} launches on, below "
            f"which none exists: {told} of {len(medians)} medians have one here. So do exposed communication and "
            "factors, from as many pairs on, and all ratios that are tested."
        ),
        departure=(
            "Speed-up and efficiency have none, since the rounds' tests say who is faster. Nor have the times beside "
            "the step's own, such as that to the first step, nor memory: these are medians with their n."
        ),
        test="test_a_median_has_an_interval_from_six_launches_on_and_none_below",
    )


def _normality(material: Material, results: Results) -> Rule:
    calibrated = (results.folder / calibration.FILE).exists()
    instead = (
        "Instead the tests were calibrated on this kind of machine, with what came of it told above."
        if calibrated
        else "A calibration would tell whether the tests keep their promises; there was none on this machine."
    )
    tested = _tested(material)
    drawn = "their residuals are drawn" if tested else f"here none was made, for fewer than {FEWEST_LAUNCHES} rounds"
    return Rule(
        number=6,
        asks="Don't assume that data are normal without checking it.",
        followed=(
            "Medians and their intervals assume no distribution. The tests of pairs assume normal logarithms of the "
            f"ratios within rounds: {drawn}."
        ),
        departure=f"So few rounds can't show that anything is normal, whatever the check. {instead}",
        test="test_whatever_is_tested_has_its_residuals_drawn",
    )


def _comparisons(material: Material) -> Rule:
    tested = _tested(material)
    return Rule(
        number=7,
        asks="Compare what isn't deterministic by sound statistics, such as intervals that don't overlap, or ANOVA.",
        followed=(
            "Faster is said by a paired t test within rounds, corrected for its family (Holm), alike by two one-sided "
            f"ones: {tested:,} pair{'' if tested == 1 else 's'} here. Pairs take out what a round has in common, which "
            "intervals of medians don't: whether those overlap decides nothing."
        ),
        test="test_overlapping_intervals_of_medians_decide_nothing",
    )


def _middle() -> Rule:
    return Rule(
        number=8,
        asks="Look whether a mean or a median tells what matters, or another percentile does.",
        followed=(
            "A long training lasts as long as its typical windows, hence medians. What they hide is told beside them: "
            "every launch is drawn, and outlying launches, slow first windows, slow ranks and disturbed windows are "
            "told with their causes."
        ),
        departure=(
            "No percentiles of steps: windows of many steps are clocked, since waiting for a device after each step "
            "would destroy the overlap of computing and communicating."
        ),
    )


def _factors(results: Results) -> Rule:
    commits = [record.git_commit or "" for record in results.records.values() if record.status == "ok"]
    unknown = sum(not commit or "+" in commit for commit in commits)
    who = "1 launch" if unknown == 1 else f"{unknown:,} launches"
    return Rule(
        number=9,
        asks="Document all factors with their levels, and the whole setup.",
        followed=(
            "Strategy with options, workers, scaling and preset stand with every number. Machine, versions, settings, "
            "commit and the seed of the launches' order have a section, and each launch's record holds all of its own."
        ),
        departure=f"{who} ran code that no known commit has: it was changed, or git told of none." if unknown else "",
        test="test_what_the_launches_ran_on_is_in_the_section_on_the_machine",
    )


def _techniques() -> Rule:
    return Rule(
        number=10,
        asks="Of parallel times tell how they were measured, synchronised and summarised.",
        followed=(
            "Each rank clocks windows of steps by its own monotonic clock, and waits for its device before it stops. "
            "No barrier is added: ranks meet in the exchange alone. The slowest rank sets a window's cost, a launch "
            "counts by its median window, a number is the median launch."
        ),
        test="test_the_slowest_rank_of_the_median_window_of_the_median_launch_counts",
    )


def _bounds(material: Material) -> Rule:
    bounds = []
    if len(material.cells) and material.cells["base"].notna().any():
        bounds.append("N times the base is drawn as a dotted line")
    if material.split["formula_bytes"].notna().any():
        bounds.append("the bytes that the algorithm has to send stand beside those that were sent")
    if probed := not material.ceilings.empty:
        bounds.append("each framework's own ceiling stands beside its strategies")
    said = blocks.listed(bounds) if bounds else "nothing was measured here that has a bound"
    unknown = (
        "What the processor and the transport allow at most wasn't probed, so no number is set beside the hardware's "
        "own limit."
    )
    return Rule(
        number=11,
        asks="Show upper bounds of the performance where that is possible.",
        followed=f"{blocks.capitalized(said)}.",
        departure="" if probed else unknown,
        test="test_bounds_stand_beside_what_was_measured",
    )


def _figures() -> Rule:
    return Rule(
        number=12,
        asks="Plot as much as it takes; join by lines only where they show a trend and values between are valid.",
        followed=(
            "Every launch is a mark, with the medians and, where there are any, their intervals. Losses by step and "
            "residuals by round are joined in their order."
        ),
        departure=(
            "Lines also join a strategy's medians at different numbers of workers, though nothing can be read off "
            "between them: they tell which marks belong together. Ticks stand at measured numbers of workers alone."
        ),
        test="test_every_launch_is_a_mark",
    )


def _tested(material: Material) -> int:
    """How many pairs of strategies share enough rounds for a test."""
    return int((material.ranking.comparisons["n"] >= FEWEST_LAUNCHES).sum())
