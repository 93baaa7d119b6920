"""What the hosts of a comparison are, side by side, and what mustn't differ among them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rich.table import Table

from common.errors import UserError
from common.launching.hosts import clocks
from common.launching.hosts.clocks import Offset
from common.launching.places import place
from common.launching.places.place import Host, Question
from common.records.files import from_json
from common.records.header import Machine

_COMMIT_LETTERS = 9


@dataclass(frozen=True)
class HostFacts:
    """A host and what it says of itself, as `common.launching.hosts.facts` finds it."""

    host: Host
    hostname: str
    """What the machine calls itself."""
    boot_id: str
    """The same for all hosts on one kernel."""
    commit: str | None
    changes: str | None
    """A digest of how the checkout's files differ from the commit."""
    python: str
    environments: Mapping[str, Mapping[str, str] | None]
    """By environment the versions in it, or None where it isn't made."""
    cores: int
    """Those that the agent may use, and what it starts with it."""
    machine: Machine
    routes: Mapping[str, Mapping[str, object]]
    """By peer how it is reached: `interface`, `address` and `prefix_length`, or `failure`."""
    free_bytes: int
    """On the disk of the folder for a launch's files."""
    no_room: str | None
    """Why there can't be such a folder, in one sentence."""
    clock: Offset
    """Of its time since boot to this machine's."""

    @property
    def route(self) -> Mapping[str, object]:
        """How it reaches the others; empty where there are none."""
        return next(iter(self.routes.values()), {})


def survey(hosts: Sequence[Host]) -> list[HostFacts]:
    """Ask all hosts what they are, at the same time. Raises UserError, with the reasons, where some don't answer."""
    peers = {host: host.address() for host in hosts}
    questions = [
        Question(host, "facts", {"peers": [name for peer, name in peers.items() if peer != host]}) for host in hosts
    ]
    answers = place.ask(questions)
    if failures := [answer.failure for answer in answers if answer.failure]:
        raise UserError(" ".join(failures))
    offsets = clocks.measure(hosts)
    return [
        HostFacts(
            host=answer.host,
            clock=offset,
            **answer.values | {"machine": from_json(answer.values["machine"], Machine)},
        )
        for answer, offset in zip(answers, offsets, strict=True)
    ]


def refuse(surveyed: Sequence[HostFacts]) -> None:
    """Raises UserError where the hosts can't be compared on: what mustn't differ does, or one can't take part."""
    _refuse_same_machine(surveyed)
    _refuse_other_code(surveyed)
    _refuse_other_environments(surveyed)
    for facts in surveyed:
        _refuse_routes(facts)
        if facts.no_room:
            raise UserError(_with_host(facts.host, facts.no_room))


def table(surveyed: Sequence[HostFacts]) -> Table:
    """The hosts, one in each row."""
    titles = ("host", "commit", "Python", "cores", "threads", "slots", "interface", "address", "boot clock's offset")
    shown = Table(*titles, caption=_environments_in_words(surveyed))
    for facts in surveyed:
        route, clock = facts.route, facts.clock
        shown.add_row(
            facts.host.name,
            _short(facts.commit),
            facts.python,
            str(facts.cores),
            str(facts.machine.cores),
            str(facts.host.slots),
            str(route.get("interface", "-")),
            f"{route['address']}/{route['prefix_length']}" if "address" in route else "-",
            f"{clock.offset_seconds:+.6f} s ± {clock.uncertainty_seconds * 1e6:.0f} µs",
        )
    return shown


def _refuse_same_machine(surveyed: Sequence[HostFacts]) -> None:
    for one, other in combinations(surveyed, 2):
        # Virtual hosts have one kernel, and names of their own.
        if (one.boot_id, one.hostname) == (other.boot_id, other.hostname):
            raise UserError(
                f"{one.host.name} and {other.host.name} are the same machine, {one.hostname}: name it once, with all "
                "of its slots."
            )


def _refuse_other_code(surveyed: Sequence[HostFacts]) -> None:
    remedy = "check out the same commit on all hosts"
    _refuse_difference("commit", {facts.host: _short(facts.commit) for facts in surveyed}, remedy)
    # Short names are for people: what differs further on has to be seen as well.
    if len({(facts.commit, facts.changes) for facts in surveyed}) > 1:
        different = {facts.host: f"{facts.commit}, {str(facts.changes)[:_COMMIT_LETTERS]}" for facts in surveyed}
        _refuse_difference("changes to the commit", different, "take the same files to all hosts")
    _refuse_difference("Python", {facts.host: facts.python for facts in surveyed}, "install the same on all hosts")


def _refuse_other_environments(surveyed: Sequence[HostFacts]) -> None:
    for name in surveyed[0].environments:
        remedy = f"make the environment by `nox -s {name}` on all of them, or on none"
        found = {facts.host: facts.environments.get(name) for facts in surveyed}
        made = {host: "made" if versions else "not made" for host, versions in found.items()}
        _refuse_difference(f"environment {name}", made, remedy)
        packages = dict.fromkeys(package for versions in found.values() for package in versions or ())
        for package in packages:
            versions = {host: (of_host or {}).get(package, "none") for host, of_host in found.items()}
            _refuse_difference(f"{package} of the environment {name}", versions, remedy)


def _refuse_difference(what: str, values: Mapping[Host, Hashable], remedy: str) -> None:
    """Raises UserError where the hosts' values aren't the same, with the first two that differ."""
    (first, value), *others = values.items()
    for host, other in others:
        if other != value:
            raise UserError(f"{first.name} and {host.name} differ in their {what} ({value}, {other}): {remedy}.")


def _refuse_routes(facts: HostFacts) -> None:
    name, seen = facts.host.name, {}
    for peer, route in facts.routes.items():
        if "failure" in route:
            raise UserError(
                f"{name} can't reach {peer} ({route['failure']}): see to it that {name} finds it by this name, in DNS "
                "or its /etc/hosts, and is in a network with it."
            )
        seen.setdefault(route["interface"], peer)
    if len(seen) > 1:
        ways = " and ".join(f"{peer} by {interface}" for interface, peer in seen.items())
        raise UserError(f"{name} reaches {ways}: name the hosts such that one interface leads to all of them.")


def _with_host(host: Host, sentence: str) -> str:
    return sentence if host.name in sentence else f"{host.name}: {sentence}"


def _short(commit: str | None) -> str:
    """The first letters of a commit, and whether files differ from it."""
    if commit is None:
        return "none"
    letters, plus, changes = commit.partition("+")
    return letters[:_COMMIT_LETTERS] + plus + changes


def _environments_in_words(surveyed: Sequence[HostFacts]) -> str:
    """The environments of the first host, which all have where nothing is refused."""
    words = []
    for name, versions in surveyed[0].environments.items():
        listed = ", ".join(f"{package} {version}" for package, version in (versions or {}).items())
        words.append(f"{name}: {listed or 'not made'}")
    return "\n".join(words)
