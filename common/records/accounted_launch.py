"""A launch with its account: what became of it after its fault, and how much of its work that cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.contract.fault import parse
from common.declarations.strategy import name_of
from common.records import certificate
from common.records.files import read_record
from common.records.recovery import Recovery, recovery_path
from common.records.training import Record

ENDED = "ended for good"

OTHER = "trained something else"
"""What became of a launch that went on and doesn't follow the oracle."""


@dataclass(frozen=True)
class AccountedLaunch:
    """A launch that suffered a fault, or is held against such launches as the undisturbed one."""

    record: Record
    account: Recovery
    """Without an attempt where the launch was refused."""
    verdict: str = ""
    """The certificate's; empty where the launch ended for good."""
    undisturbed_goodput: float | None = None
    """Goodput of the strategy's launch without a fault in the same round; None where none came to its end."""

    @property
    def strategy(self) -> str:
        """The strategy with its label, and whether it could be started again after its fault."""
        name = name_of(self.record.strategy, self.record.label)
        return f"{name} with restart" if self.account.fault and self.record.task.restarts else name

    @property
    def fault(self) -> str:
        """Such as `rank 1 killed at step 160`, or `undisturbed`."""
        return parse(self.account.fault).in_words if self.account.fault else "undisturbed"

    @property
    def became(self) -> str:
        """What became of it in a few words; there are faults, such as a slow worker, that end nothing."""
        record, workers = self.record, self.record.task.workers
        if record.status != "ok":
            return ENDED
        if self.verdict == certificate.DEVIATES:
            return OTHER
        if len(self.account.attempts) > 1:
            return "started again"
        if workers and record.world_size < workers:
            return f"went on with {record.world_size} of {workers}"
        return "waited for it" if self.account.fault.startswith(("slow", "late", "cable")) else "went on by itself"

    @property
    def has_recovered(self) -> bool:
        """Whether it came to its end, and trained what it should."""
        return bool(self.account.attempts) and self.became not in (ENDED, OTHER)

    @property
    def goodput(self) -> float:
        """Steps of the training per second of the whole launch; 0 where it didn't recover."""
        return self.record.task.steps / self.account.total_seconds if self.has_recovered else 0.0


def accounted_launches(folder: Path, records: Mapping[str, Record]) -> dict[str, AccountedLaunch]:
    """Those of a folder's launches that keep an account, undisturbed ones last. Raises UserError for a damaged one."""
    accounted = {launch: record for launch, record in records.items() if record.task.is_accounted}
    verdicts = {each.launch: each.verdict for each in certificate.compare(accounted, folder)}
    launches: dict[str, AccountedLaunch] = {}
    goodputs: dict[tuple[str, int], float] = {}
    for name, record in sorted(accounted.items(), key=lambda item: item[1].task.inject is not None):
        path = recovery_path(folder / f"{name}.json")
        account = read_record(path, Recovery) if path.exists() else Recovery(fault=record.task.inject or "")
        round_of_strategy = record.strategy, account.repetition
        launch = AccountedLaunch(record, account, verdicts.get(name, ""), goodputs.get(round_of_strategy))
        if not account.fault and launch.has_recovered:
            goodputs[round_of_strategy] = launch.goodput
        launches[name] = launch
    return dict(sorted(launches.items(), key=lambda item: not item[1].account.fault))
