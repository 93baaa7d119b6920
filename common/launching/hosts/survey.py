"""What the hosts of a comparison are, side by side, and what mustn't differ among them."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
from rich.table import Table

from common.errors import UserError
from common.launching.hosts import clocks
from common.launching.hosts.clocks import Offset
from common.launching.hosts.facts import Facts, Route
from common.launching.places import place
from common.launching.places.place import Host

_COMMIT_LETTERS = 9


class HostFacts(Facts, frozen=True, kw_only=True):
    """A host and what it says of itself."""

    host: Host
    clock: Offset
    """Of its time since boot to this machine's."""

    @property
    def route(self) -> Route:
        """How it reaches the others; empty where there are none."""
        return next(iter(self.routes.values()), Route())


def survey(hosts: Sequence[Host]) -> list[HostFacts]:
    """Ask all hosts what they are, at the same time. Raises UserError, with the reasons, where some don't answer."""
    peers = {host: host.address() for host in hosts}
    requests = {host: {"peers": [name for peer, name in peers.items() if peer != host]} for host in hosts}
    answers = place.ask("facts", requests)
    if failures := [answer.failure for answer in answers if answer.failure]:
        raise UserError(" ".join(failures))
    surveyed: list[HostFacts] = []
    for answer, offset in zip(answers, clocks.measure(hosts), strict=True):
        try:
            facts = msgspec.convert(answer.values, Facts)
        except msgspec.ValidationError as error:
            name = answer.host.name
            raise UserError(f"{name} has another checkout ({error}): make it the same commit there as here.") from error
        surveyed.append(HostFacts(host=answer.host, clock=offset, **msgspec.structs.asdict(facts)))
    return surveyed


def refuse(surveyed: Sequence[HostFacts]) -> None:
    """Raises UserError where the hosts can't be compared on: what mustn't differ does, or one can't take part."""
    for one, other in combinations(surveyed, 2):
        # Virtual hosts have one kernel, and names of their own.
        if (one.boot_id, one.hostname) == (other.boot_id, other.hostname):
            raise UserError(
                f"{one.host.name} and {other.host.name} are the same machine, {one.hostname}: name it once, with all "
                "of its slots."
            )
    commits = [facts.commit or "none" for facts in surveyed]
    _refuse_difference("commit", surveyed, commits, "check out the same commit on all hosts")
    changes = [facts.changes or "none" for facts in surveyed]
    _refuse_difference("changes to the commit", surveyed, changes, "take the same files to all hosts")
    _refuse_difference("Python", surveyed, [facts.python for facts in surveyed], "install the same on all hosts")
    for name in surveyed[0].environments:
        remedy = f"make the environment by `nox -s {name}` on all of them, or on none"
        versions = [facts.environments.get(name) for facts in surveyed]
        made = ["made" if each else "not made" for each in versions]
        _refuse_difference(f"environment {name}", surveyed, made, remedy)
        for package in dict.fromkeys(package for each in versions for package in each or ()):
            of_package = [(each or {}).get(package, "none") for each in versions]
            _refuse_difference(f"{package} of the environment {name}", surveyed, of_package, remedy)
    for facts in surveyed:
        _refuse_routes(facts)
        if facts.no_room:
            raise UserError(
                facts.no_room if facts.host.name in facts.no_room else f"{facts.host.name}: {facts.no_room}"
            )


def _refuse_difference(trait: str, surveyed: Sequence[HostFacts], values: Sequence[str], remedy: str) -> None:
    """Raises UserError where the hosts' values aren't the same, with the first two that differ."""
    for facts, value in zip(surveyed, values, strict=True):
        if value != values[0]:
            names = f"{surveyed[0].host.name} and {facts.host.name}"
            raise UserError(f"{names} differ in their {trait} ({values[0]}, {value}): {remedy}.")


def _refuse_routes(facts: HostFacts) -> None:
    name, peers = facts.host.name, dict[str, str]()
    for peer, route in facts.routes.items():
        if route.failure:
            raise UserError(
                f"{name} can't reach {peer} ({route.failure}): see to it that {name} finds it by this name, in DNS "
                "or its /etc/hosts, and is in a network with it."
            )
        peers.setdefault(route.interface, peer)
    if len(peers) > 1:
        ways = " and ".join(f"{peer} by {interface}" for interface, peer in peers.items())
        raise UserError(f"{name} reaches {ways}: name the hosts such that one interface leads to all of them.")


def table(surveyed: Sequence[HostFacts]) -> Table:
    """The hosts, one in each row, and the environments of the first one, which all have where nothing is refused."""
    titles = ("host", "commit", "Python", "cores", "threads", "slots", "interface", "address", "boot clock's offset")
    rows = Table(
        *titles, caption="\n".join(f"{name}: {_listed(each)}" for name, each in surveyed[0].environments.items())
    )
    for facts in surveyed:
        route, clock = facts.route, facts.clock
        commit, plus, changes = (facts.commit or "none").partition("+")
        rows.add_row(
            facts.host.name,
            commit[:_COMMIT_LETTERS] + plus + changes,
            facts.python,
            str(facts.cores),
            str(facts.machine.cores),
            str(facts.host.slots),
            route.interface or "-",
            f"{route.address}/{route.prefix_length}" if route.address else "-",
            f"{clock.offset_seconds:+.6f} s ± {clock.uncertainty_seconds * 1e6:.0f} µs",
        )
    return rows


def _listed(versions: Mapping[str, str] | None) -> str:
    return ", ".join(f"{package} {version}" for package, version in (versions or {}).items()) or "not made"
