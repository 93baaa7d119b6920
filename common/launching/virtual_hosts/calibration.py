"""Whether a virtual link is what was asked for: its rate and its round trip, measured between the hosts.

Every host sends to the next one, and the last to the first, all at the same time, as in a ring: each cable is full in
both directions. The hosts' shares of cores don't count, since it is the link that is measured.

    python -m common.launching.virtual_hosts.calibration

on the head measures its cluster and prints what it found in JSON.
"""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import UserError, exit_with_one_line
from common.launching.virtual_hosts.description import BURST_BYTES, Description, Link, address_of, described
from common.paths import ROOT

TOLERANCE = 0.1
"""By which share of what was asked for a link may miss it."""

WIRE_BYTES, PAYLOAD_BYTES = 1514, 1448
"""Of a full TCP segment, with a time stamp in its header, on Ethernet: all of it, and the part that is data."""

MEASURING_SECONDS = (0.5, 2.0)
"""For how long a link is measured, and for how long once more where that misses what was asked for: what else runs on
this machine for a moment takes a large part of the shorter one."""

_SETTLING_SECONDS = 0.25
_PROBE, _ENTER = (Path(__file__).with_name(name) for name in ("probe.py", "enter.py"))


@dataclass(frozen=True)
class Calibration:
    """What a link was measured to be like: that of the host where it was worst."""

    bandwidth_bits_per_second: float
    """Headers included."""
    round_trip_seconds: float
    """Of the fastest of many small messages."""


def calibrate(description: Description) -> Calibration:
    """Measure the cluster's link from its head, in about a second.

    Raises UserError where it misses what the description has by more than 10%, and for a single host.
    """
    short, long = MEASURING_SECONDS
    with suppress(UserError):
        return _checked(description.link, measure(description, short))
    return _checked(description.link, measure(description, long))


def _checked(link: Link, measured: Calibration) -> Calibration:
    check(link, measured)
    return measured


def check(link: Link, measured: Calibration) -> None:
    """Raises UserError where the link misses what was asked for by more than 10%."""
    asked, found = link.bandwidth_bits_per_second, measured.bandwidth_bits_per_second
    if asked is not None and abs(found - asked) > TOLERANCE * asked:
        raise UserError(
            f"The virtual link carries {found / 1e6:.4g} Mbit/s where {asked / 1e6:g} were asked for: ask for less, "
            "have fewer hosts, or leave this machine alone meanwhile."
        )
    asked, found = 2 * link.delay_seconds, measured.round_trip_seconds
    if asked and abs(found - asked) > TOLERANCE * asked:
        raise UserError(
            f"The virtual link's round trip takes {found * 1e3:.4g} ms where twice its delay is {asked * 1e3:g}: ask "
            "for a longer delay, have fewer hosts, or leave this machine alone meanwhile."
        )


def measure(description: Description, seconds: float) -> Calibration:
    """What the link is like for so many seconds, whatever was asked for. Raises UserError for a single host."""
    count = len(description.keepers)
    if count < 2:
        raise UserError("A single virtual host has no link to measure: make two or more.")
    bits = description.link.bandwidth_bits_per_second
    # The buckets at both ends are full at first.
    settling = _SETTLING_SECONDS + (2 * 8 * BURST_BYTES / bits if bits else 0.0)
    with ExitStack() as ended:
        probes = [
            ended.enter_context(_probe(keeper, network, address_of(number), settling, seconds))
            for number, (keeper, network) in enumerate(zip(description.keepers, description.networks, strict=True), 1)
        ]
        ports = [_answer(probe) for probe in probes]
        for number, probe in enumerate(probes):
            following = (number + 1) % count
            _tell(probe, f"{address_of(following + 1)} {ports[following]}")
        round_trips = [float(_answer(probe)) for probe in probes]
        for probe in probes:
            _tell(probe, "go")
        rates = [float(_answer(probe)) for probe in probes]
    return Calibration(8 * min(rates) * WIRE_BYTES / PAYLOAD_BYTES, max(round_trips))


@contextmanager
def _probe(
    keeper: int, network: int, address: str, settling_seconds: float, measuring_seconds: float
) -> Generator[subprocess.Popen[str]]:
    enter = [sys.executable, "-I", "-S", str(_ENTER), str(keeper), str(network), str(ROOT), "", "--"]
    program = [sys.executable, "-I", "-S", str(_PROBE), address, str(settling_seconds), str(measuring_seconds)]
    with subprocess.Popen(
        [*enter, *program], encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as probe:
        try:
            yield probe
        finally:
            probe.kill()


def _tell(probe: subprocess.Popen[str], line: str) -> None:
    with suppress(BrokenPipeError):  # It has ended, and said why.
        print(line, file=probe.stdin, flush=True)


def _answer(probe: subprocess.Popen[str]) -> str:
    """The next line of the probe; raises UserError where it has ended instead."""
    assert probe.stdout, "It was started with a pipe."
    line = probe.stdout.readline()
    kind, _, value = line.strip().partition(" ")
    if kind != "probe":
        *_, last = (line + probe.stdout.read()).strip().splitlines() or ["it ended"]
        raise UserError(f"The virtual link can't be measured ({last}): see whether a host is lost or its cable pulled.")
    return value


def main() -> None:
    """Calibrate the cluster that this program runs on the head of."""
    description = described()
    if description is None:
        raise UserError("This is no virtual cluster's head: start it by `python -m common.launching.virtual_hosts`.")
    print(json.dumps(asdict(calibrate(description))))


if __name__ == "__main__":
    exit_with_one_line(main)
