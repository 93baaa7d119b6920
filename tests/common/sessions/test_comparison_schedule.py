"""common/sessions/comparison_schedule.py: the time goes to what tells strategies apart first, at any machine's pace."""

import os
import random
import statistics
from collections import Counter
from types import SimpleNamespace

import pytest

from common.declarations import catalogue
from common.declarations.strategy import has_exchange
from common.sessions import comparison_scope
from common.sessions.comparison_schedule import MORE, REPORT_LAUNCHES, ComparisonSchedule, Durations
from common.sessions.comparison_scope import Scope
from common.statistics.intervals import FEWEST_LAUNCHES

RECORDED = {"python": (4.4, 4.4, 9.0), "TF_CONFIG": (6.0, 7.5, 12.0)}
RECORDED |= dict.fromkeys(["torchrun", "jax.distributed"], (4.4, 5.1, 9.8))
"""Seconds of a launch with 1, 2 and 4 workers on two quiet cores, by launcher, as `DESIGN.md` has them."""

OF_HOROVOD = (10.0, 10.0, 20.0)


@pytest.fixture(autouse=True)
def _two_cores_and_every_environment(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(comparison_scope, "python_for", lambda strategy: strategy.name)


def recorded(launch):
    return RECORDED.get(launch.strategy.launcher.name, OF_HOROVOD)[{1: 0, 2: 1, 4: 2}[launch.workers]]


class Comparison:
    """What a comparison launches where launches take as long as `seconds_of` says and all but the `broken` end well."""

    def __init__(self, scope, seconds_of=recorded, broken=(), seed=0, **about):
        self.schedule = schedule = ComparisonSchedule(scope, random.Random(seed), **about)
        self.durations, self.left_out = schedule.durations, schedule.left_out
        self.stages, self.expected = [], []
        while stage := schedule.next_stage():
            self.stages.append(stage)
            self.expected.append(schedule.seconds_left())
            for launch in stage.launches:
                assert launch.name not in self.durations.seconds
                status = "failed" if launch.strategy.name in broken else "ok"
                schedule.note(launch, seconds_of(launch), SimpleNamespace(status=status))

    def launches(self, *names):
        return [launch for stage in self.stages if stage.name in names for launch in stage.launches]

    def certified(self):
        return {launch.strategy.name for launch in self.launches("certificates")}

    def rounds_of(self):
        """How many launches of each strategy the rounds have, with exchange and without, in worlds of the rounds."""
        launches = [launch for launch in self.launches("round") if launch.workers in (1, 2)]
        return Counter((launch.strategy.name, has_exchange(launch.options)) for launch in launches)

    def ranked(self):
        """The strategies that had all rounds with exchange."""
        return {name for (name, exchange), count in self.rounds_of().items() if exchange and count >= FEWEST_LAUNCHES}

    def dropped(self):
        """The strategies that were left out after the second round."""
        return [name for name in self.left_out if 1 < self.rounds_of()[name, True] < FEWEST_LAUNCHES]

    @property
    def seconds(self):
        """Of all launches, and of a report that takes as long as the schedule expects."""
        return self.durations.spent() + REPORT_LAUNCHES * statistics.median(self.durations.seconds.values())


def at_pace(pace):
    return lambda launch: pace * recorded(launch)


def with_a_core_each():
    """The quick strategies that can have two workers on two cores, and the bases."""
    quick = [each for each in catalogue.strategies().values() if each.may_be_quick]
    return [each for each in quick if not each.processes_beside(each.options())]


def test_ten_minutes_of_two_quiet_cores_suffice_for_six_rounds_of_each_strategy_and_certificates():
    found = Comparison(Scope())
    rounds, names = found.rounds_of(), {strategy.name for strategy in with_a_core_each()}
    assert all(rounds[strategy.name, False] >= FEWEST_LAUNCHES for strategy in with_a_core_each() if strategy.base)
    assert found.ranked() == found.certified() == names
    assert not found.left_out


@pytest.mark.parametrize(
    ("minutes", "pace", "least"),
    [(10, 0.25, 0.9), (10, 1, 0.9), (10, 3, 0.9), (3, 0.5, 0), (3, 4, 0), (30, 0.25, 0), (30, 4, 0)],
)
def test_on_any_machine_the_time_is_used_and_kept(minutes, pace, least):
    seconds = Comparison(Scope(minutes=minutes), at_pace(pace)).seconds
    assert 60 * minutes * least <= seconds <= 60 * minutes * 1.1


def test_at_a_third_of_the_pace_the_first_strategies_are_ranked_and_others_named_with_the_minutes_that_would_do():
    found = Comparison(Scope(), at_pace(3))
    first = next(strategy for strategy in with_a_core_each() if strategy.base)
    wanted = {strategy.name for strategy in with_a_core_each() if not strategy.base} | {first.name}
    assert found.ranked() >= wanted
    assert found.certified() >= wanted
    assert found.left_out
    assert found.ranked().isdisjoint(found.left_out)
    assert {found.rounds_of()[name, True] for name in found.left_out} == {1}
    minutes = [*found.left_out.values()]
    assert minutes == sorted(minutes)
    for name in (next(iter(found.left_out)), [*found.left_out][-1]):
        assert name not in Comparison(Scope(minutes=found.left_out[name]), at_pace(3)).left_out


def test_where_the_time_is_short_launches_without_exchange_give_way_before_any_strategy_and_in_turn():
    found = Comparison(Scope(), at_pace(1.3))
    rounds, distributed = found.rounds_of(), [each.name for each in with_a_core_each() if each.base]
    assert not found.left_out
    assert {rounds[name, True] for name in distributed} == {FEWEST_LAUNCHES}
    without_exchange = [rounds[name, False] for name in distributed]
    assert 1 < min(without_exchange) <= max(without_exchange) < FEWEST_LAUNCHES
    assert max(without_exchange) - min(without_exchange) <= 1


def test_what_is_asynchronous_and_so_cannot_be_ranked_is_left_out_first(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    found = Comparison(Scope(workers=(1, 2)), at_pace(1.6))
    [asynchronous] = [each.name for each in catalogue.strategies().values() if not each.is_synchronous(each.options())]
    assert [*found.left_out] == [asynchronous]


def test_what_shows_that_it_works_comes_after_what_tells_apart_in_a_block_of_its_own():
    found = Comparison(Scope(minutes=20))
    names = list(dict.fromkeys(stage.name for stage in found.stages if stage.title != MORE))
    assert names == ["round", "certificates", "smaller worlds", "oversubscribed worlds"]
    smaller, oversubscribed = found.launches("smaller worlds"), found.launches("oversubscribed worlds")
    assert {launch.workers for launch in smaller} == {1}
    assert {launch.workers for launch in oversubscribed if launch.strategy in with_a_core_each()} == {4}
    assert {launch.repetition for launch in smaller if launch.purpose == "throughput"} == {FEWEST_LAUNCHES + 1}
    more = [stage for stage in found.stages if stage.title == MORE]
    assert more[0].launches[0].repetition == FEWEST_LAUNCHES + 2
    # What has processes beside its workers is oversubscribed in every world.
    served = [each for each in catalogue.strategies().values() if each.quick and each not in with_a_core_each()]
    of_servers = [launch for stage in found.stages for launch in stage.launches if launch.strategy in served]
    assert {launch.workers for launch in of_servers} == {1, 2, 4}
    assert all(launch in oversubscribed or launch.repetition > FEWEST_LAUNCHES + 1 for launch in of_servers)


def test_a_round_has_what_a_round_has_once_in_the_seeds_order_and_pairs_with_exchange_and_without():
    found = Comparison(Scope())
    both_ways = [each for each in with_a_core_each() if each.base]
    for repetition in range(2, FEWEST_LAUNCHES + 1):
        [stage] = [stage for stage in found.stages if stage.title == f"round {repetition} of {FEWEST_LAUNCHES}"]
        worlds = [(each.strategy.name, each.workers, has_exchange(each.options)) for each in stage.launches]
        assert len({*worlds}) == len(worlds) == len(with_a_core_each()) + len(both_ways)
        assert {launch.repetition for launch in stage.launches} == {repetition}
    first, again, other = (Comparison(Scope(minutes=2), seed=seed).stages for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_strategy_that_fails_is_not_tried_again_and_is_not_called_left_out():
    broken = with_a_core_each()[-1].name
    found = Comparison(Scope(), broken={broken})
    assert {launch.repetition for launch in found.launches("round") if launch.strategy.name == broken} == {1}
    assert broken not in {launch.strategy.name for launch in found.launches("certificates", "smaller worlds")}
    assert broken not in found.left_out
    without_any = Comparison(Scope(), broken={*catalogue.strategies()})
    assert {stage.title for stage in without_any.stages} <= {f"round 1 of {FEWEST_LAUNCHES}", "oversubscribed worlds"}
    assert not without_any.left_out


def test_six_seconds_make_one_launch_and_name_what_all_would_take():
    found = Comparison(Scope(minutes=0.1))
    assert len(found.durations.seconds) == 1
    assert {*found.left_out} == {strategy.name for strategy in with_a_core_each()}
    assert all(minutes > 0.1 for minutes in found.left_out.values())


def test_a_machine_that_slows_down_meanwhile_costs_the_last_strategies():
    slow = [1.0]

    def seconds(launch):
        slow[0] *= 1.02
        return slow[0] * recorded(launch)

    found = Comparison(Scope(), seconds)
    assert found.seconds <= 660
    assert found.dropped()
    bases_first = sorted(with_a_core_each(), key=lambda each: each.base is not None)
    assert {*found.left_out} == {each.name for each in bases_first[-len(found.left_out) :]}


def test_a_small_delay_does_not_give_up_what_is_nearly_measured():
    found = Comparison(Scope())
    needed = sum(seconds for name, seconds in found.durations.seconds.items() if "certificate" in name or "-0" in name)
    tight = Comparison(Scope(minutes=needed / 60), lambda launch: recorded(launch) * (1 + 0.01 * launch.repetition))
    assert not tight.dropped()


def test_what_is_left_is_that_of_the_limit_or_without_one_what_the_first_of_whole_rounds_tells():
    found = Comparison(Scope(repetitions=3))
    assert [stage.title for stage in found.stages] == ["round 1 of 3", "round 2 of 3", "round 3 of 3"]
    seconds = sum(recorded(launch) for launch in found.stages[1].launches)
    assert found.expected == [None, pytest.approx(2 * seconds), pytest.approx(seconds)]
    assert len(Comparison(Scope(profile="full", strategies=(with_a_core_each()[0].name,))).stages) == 10
    limited = Comparison(Scope(minutes=3)).expected
    assert limited[0] == 180.0
    assert limited == sorted(limited, reverse=True)
    assert limited[-1] < 60


def test_a_launch_is_expected_to_take_as_long_as_those_most_like_it():
    [stage, *_] = Comparison(Scope(repetitions=1)).stages
    launches = [launch for launch in stage.launches if launch.purpose == "throughput" and launch.strategy.base]
    one, two = (next(each for each in launches if each.workers == workers) for workers in (1, 2))
    durations = Durations()
    assert durations.expected([one, two]) == durations.report() == 0.0
    durations.add(one, 3.0, ok=True)
    assert durations.expected([one, two]) == 3.0 + 6.0
    assert durations.report() == REPORT_LAUNCHES * 3.0
    durations.add(two, 8.0, ok=True)
    assert durations.expected([one, two]) == 3.0 + 8.0
