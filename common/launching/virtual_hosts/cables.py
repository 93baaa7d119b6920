"""The cables between virtual hosts, as their head lays and shapes them: veth pairs, a bridge and token buckets.

The head has the other end of each host's cable, in a bridge. A token bucket at both ends (tbf) makes the bandwidth of
either direction. A delay is netem's, on the hosts' ends, where the kernel has it. Else the bridge is told to forward
nothing from one cable to another, and a relay takes what comes out of each, and puts it into the bridge by one end of
another pair, from where it goes to any cable:

    host1 eth0 (tbf) ---- port1   bridge   port2 (tbf) ---- eth0 host2
                            |      far
                            +--> relay
"""

import errno
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyroute2 import IPRoute, NetlinkError

from common.errors import UserError
from common.launching.virtual_hosts.description import BURST_BYTES, INTERFACE, Link
from common.paths import ROOT

_QUEUE_SECONDS = 0.05
"""How long a frame waits in a token bucket before it's dropped, at most."""

RELAY, _FAR = "relay", "far"
"""The pair of interfaces by which delayed frames get into the bridge."""

BRIDGE_MAC = "02:00:0a:4d:00:fe"
"""Of the bridge, and so of the head."""

_BRIDGE = "bridge"
_ROOT_HANDLE, _NETEM_HANDLE = 0xFFFFFFFF, 0x10000
_NETEM_PACKETS = 100_000
_NO_ARP = 0x80  # IFF_NOARP, from linux/if.h.


def settle_network() -> None:
    """Have this network namespace do what real hosts of a cluster do, whatever this machine is set to.

    Congestion control is the kernel's usual one, which fills a link, and Reno's where this machine doesn't let others
    choose that; BBR, which goes by time, takes a delay at a busy machine for a slow link. Nothing is kept of what a
    connection found out, since links are shaped anew.
    """
    settings = Path("/proc/sys/net/ipv4")
    (settings / "tcp_no_metrics_save").write_text("1\n", encoding="utf-8")
    for algorithm in ("cubic", "reno"):
        with suppress(OSError):
            (settings / "tcp_congestion_control").write_text(f"{algorithm}\n", encoding="utf-8")
            return


def silence_interfaces() -> None:
    """Have the interfaces that this network namespace gets from now on say nothing of their own accord, as by IPv6."""
    with suppress(FileNotFoundError):
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1\n", encoding="utf-8")


def lay(head_address: str, keepers: Sequence[int]) -> None:
    """Join the network namespaces of these processes by cables to a bridge here, which has this address.

    Raises UserError where the kernel has no means for it.
    """
    with IPRoute() as head:
        try:
            head.link("add", ifname=_BRIDGE, kind="bridge", address=BRIDGE_MAC)
            for number, keeper in enumerate(keepers, start=1):
                head.link("add", ifname=_port(number), kind="veth", peer={"ifname": INTERFACE, "net_ns_pid": keeper})
        except NetlinkError as error:
            if error.code == errno.EOPNOTSUPP:
                raise UserError(
                    "No virtual hosts: this kernel has no veth pairs or no bridges: load its modules veth and bridge."
                ) from error
            raise
        bridge = _index(head, _BRIDGE)
        head.addr("add", index=bridge, address=head_address, prefixlen=24)
        for name in ("lo", _BRIDGE):
            head.link("set", index=_index(head, name), state="up")
        for number in range(1, len(keepers) + 1):
            head.link("set", index=_index(head, _port(number)), master=bridge, state="up")


class Cables:
    """The cables of a cluster's hosts, one for each keeper of a host's namespaces, which `lay` has laid."""

    def __init__(self, keepers: Sequence[int]) -> None:
        self._keepers = keepers
        self._relay: subprocess.Popen[str] | None = None

    def shape(self, link: Link) -> None:
        """Make each cable like this; what is on its way meanwhile is lost. Raises UserError where it can't be."""
        self._stop_relay()
        undelayed = False
        for number, keeper in enumerate(self._keepers, start=1):
            with IPRoute() as head, IPRoute(netns=f"/proc/{keeper}/ns/net", flags=0) as host:
                own, port = _index(host, INTERFACE), _index(head, _port(number))
                _clear(host, own)
                _clear(head, port)
                delayed = link.delay_seconds > 0 and _delay(host, own, link.delay_seconds)
                undelayed |= link.delay_seconds > 0 and not delayed
                _limit(host, own, link, below=_NETEM_HANDLE + 1 if delayed else _ROOT_HANDLE)
                _limit(head, port, link)
        if undelayed:
            self._start_relay(link.delay_seconds)

    def plug(self, number: int, plugged: bool) -> None:
        """Plug or pull the cable of the host of this number, counted from 1."""
        with IPRoute() as head:
            head.link("set", index=_index(head, _port(number)), state="up" if plugged else "down")

    def _start_relay(self, delay_seconds: float) -> None:
        with IPRoute() as head:
            head.link("add", ifname=_FAR, kind="veth", peer={"ifname": RELAY})
            far = _index(head, _FAR)
            head.link("set", index=far, master=_index(head, _BRIDGE), state="up")
            # Whoever sends by it is behind another cable.
            head.brport("set", index=far, learning=0)
            # Nor does the kernel answer there for the head.
            head.link("set", index=_index(head, RELAY), flags=_NO_ARP, change=_NO_ARP)
            head.link("set", index=_index(head, RELAY), state="up")
            self._isolate(head, True)
        ports = [_port(number) for number in range(1, len(self._keepers) + 1)]
        command = [
            sys.executable,
            "-m",
            "common.launching.virtual_hosts.relay",
            str(delay_seconds),
            BRIDGE_MAC,
            RELAY,
            *ports,
        ]
        relay = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8")
        self._relay = relay
        if not relay.stdout or relay.stdout.readline() != "ready\n":
            raise UserError(
                "Virtual hosts can't be given a delay: the kernel has no netem, and the relay in its place didn't "
                "start; leave the delay out."
            )

    def _stop_relay(self) -> None:
        if self._relay:
            self._relay.kill()
            self._relay.communicate()
            self._relay = None
        with IPRoute() as head:
            for far in head.link_lookup(ifname=_FAR):
                head.link("del", index=far)
                self._isolate(head, False)

    def _isolate(self, head: IPRoute, isolated: bool) -> None:
        """Have the bridge forward nothing from one cable to another, or everything."""
        for number in range(1, len(self._keepers) + 1):
            head.brport("set", index=_index(head, _port(number)), isolated=int(isolated))


def _delay(host: IPRoute, index: int, seconds: float) -> bool:
    """Delay what leaves the interface; False where the kernel can't."""
    try:
        delay = round(seconds * 1e6)
        host.tc("add", "netem", index, _NETEM_HANDLE, parent=_ROOT_HANDLE, delay=delay, limit=_NETEM_PACKETS)
        return True
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            return False
        raise


def _limit(place: IPRoute, index: int, link: Link, below: int = _ROOT_HANDLE) -> None:
    """Let through no more than the link's bandwidth."""
    if link.bandwidth_bits_per_second is None:
        return
    rate = link.bandwidth_bits_per_second / 8
    limit = min(int(rate * _QUEUE_SECONDS) + BURST_BYTES, 2**32 - 1)
    try:
        # pyroute2 takes a number for bytes per second.
        place.tc("add", "tbf", index, 0, parent=below, rate=rate, burst=BURST_BYTES, limit=limit, latency=0)
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            raise UserError(
                "Virtual hosts can't be given a bandwidth: this kernel has no token buckets; load its module sch_tbf, "
                "or leave the bandwidth out."
            ) from error
        raise


def _clear(place: IPRoute, index: int) -> None:
    with suppress(NetlinkError):  # Where there is nothing to be cleared.
        place.tc("del", index=index, parent=_ROOT_HANDLE)


def _index(place: IPRoute, name: str) -> int:
    [index] = place.link_lookup(ifname=name)
    return index


def _port(number: int) -> str:
    return f"port{number}"
