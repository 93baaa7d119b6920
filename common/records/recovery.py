"""What became of a launch that suffered a fault, or was started again: when each rank was at which step, and when each
attempt began and ended."""

from pathlib import Path

from common.records.header import Amount, Count, Part, Seconds, Versioned

SUFFIX = ".recovery"


class Moment(Part, frozen=True, kw_only=True):
    """A rank at the end of a window, or before its first step."""

    rank: Count
    process: Count
    step: Count
    """So many steps were computed by then."""
    seconds: Seconds


class Attempt(Part, frozen=True, kw_only=True):
    """One start of all processes of the launch."""

    started_seconds: Seconds
    noticed_seconds: Seconds
    """When the first process of the launcher's ended, or the deadline was over: from then on all others are ended."""
    ended_seconds: Seconds
    """When no process was left."""
    status: int
    """Its exit status, negative for a signal, 124 at the deadline."""


class Recovery(Versioned, frozen=True, kw_only=True):
    """All of that. Seconds are since the launch began."""

    fault: str = ""
    """As `--inject` had it; empty without any."""
    injected_seconds: Seconds | None = None
    """When the signal was sent; None where it never came to that."""
    injected_process: Count | None = None
    reached_factor: Amount | None = None
    """Of a process that was slowed down: its time over the part of it in which it could run, as it was measured."""
    attempts: list[Attempt] = []
    moments: list[Moment] = []
    repetition: Count = 0
    """The round of a session that it belongs to; 0 for a launch by itself."""
    noticed_by: str = ""
    """Who ended the first attempt: a launcher's name, `the library` or `the deadline`; empty where it didn't fail."""
    message: str = ""
    """In which words."""

    @property
    def detection_seconds(self) -> float | None:
        """From the fault to the first process of the launcher's that ended for it; None where none did."""
        if self.injected_seconds is None or not self.attempts or not self.attempts[0].status:
            return None
        return max(0.0, self.attempts[0].noticed_seconds - self.injected_seconds)

    @property
    def lives(self) -> list[tuple[int, Moment]]:
        """The moments in their order, each with a number of what it belongs to: a process from where it last began.

        A process that goes on by itself after it lost another begins anew, at the step that it has kept.
        """
        numbered: list[tuple[int, Moment]] = []
        last: dict[int, tuple[int, int]] = {}
        for moment in sorted(self.moments, key=lambda moment: moment.seconds):
            number, step = last.get(moment.process, (-1, moment.step))
            if moment.step <= step:
                number = max((each for each, _ in last.values()), default=-1) + 1
            last[moment.process] = number, moment.step
            numbered.append((number, moment))
        return numbered

    @property
    def next_step_seconds(self) -> float | None:
        """From the fault to the end of the first window that was computed after it; None where none was.

        What was under way by then doesn't count. A process that was there counts until it is ended, with steps that
        none had reached before the fault; one that began after it counts with all that it computes.
        """
        if self.injected_seconds is None:
            return None
        before = [each for each in self.lives if each[1].seconds < self.injected_seconds]
        known, begun = {life for life, _ in before}, set[int]()
        reached = max((moment.step for _, moment in before), default=0)
        end = self.attempts[0].noticed_seconds if self.attempts else 0.0
        for life, moment in self.lives[len(before) :]:
            if life in known:
                is_computed = moment.step > reached and moment.seconds < end
            else:
                is_computed = life in begun
                begun.add(life)
            if is_computed:
                return moment.seconds - self.injected_seconds
        return None

    @property
    def steps_again(self) -> int:
        """Steps that a rank computed twice: those after the state that was kept, with which it began anew."""
        most: dict[int, int] = {}
        last: dict[int, int] = {}
        seen, again = set[int](), 0
        for life, moment in self.lives:
            if life not in seen:
                again = max(again, max(most.get(moment.rank, 0), last.get(moment.process, 0)) - moment.step)
            seen.add(life)
            most[moment.rank] = max(most.get(moment.rank, 0), moment.step)
            last[moment.process] = moment.step
        return again

    @property
    def total_seconds(self) -> float:
        """From the launch's begin to its end."""
        return self.attempts[-1].ended_seconds if self.attempts else 0.0


def recovery_path(record: Path) -> Path:
    """The file with it, beside the launch's record."""
    return record.with_suffix(SUFFIX)
