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
import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyroute2 import IPRoute, NetlinkError

from common.errors import UserError
from common.launching.virtual_hosts import relay
from common.launching.virtual_hosts.description import BURST_BYTES, HEAD_ADDRESS, INTERFACE, Cable

_QUEUE_SECONDS = 0.05
"""How long a frame waits in a token bucket before it's dropped, at most."""

_BRIDGE, _BRIDGE_MAC = "bridge", "02:00:0a:4d:00:fe"
"""The address is the head's as well."""

_RELAY, _FAR = "relay", "far"
"""The pair of interfaces by which delayed frames get into the bridge."""

_ROOT_HANDLE, _NETEM_HANDLE = 0xFFFFFFFF, 0x10000
_NETEM_PACKETS = 100_000
_NO_ARP = 0x80  # IFF_NOARP, from linux/if.h.


def settle_network() -> None:
    """Have this network namespace do what real hosts of a cluster do, whatever this machine is set to.

    Congestion control is the kernel's usual one, which fills a link, and Reno's where this machine doesn't let others
    choose that; BBR, which goes by time, takes a delay at a busy machine for a slow link. Nothing is kept of what a
    connection found out, since links are shaped anew. Interfaces say nothing of their own accord, as by IPv6.
    """
    settings = Path("/proc/sys/net/ipv4")
    with suppress(FileNotFoundError):
        (settings.with_name("ipv6") / "conf/default/disable_ipv6").write_text("1\n", encoding="utf-8")
    (settings / "tcp_no_metrics_save").write_text("1\n", encoding="utf-8")
    for algorithm in ("cubic", "reno"):
        with suppress(OSError):
            (settings / "tcp_congestion_control").write_text(f"{algorithm}\n", encoding="utf-8")
            return


class Cables:
    """Cables that join the network namespaces of these processes to a bridge in this one, which is the head's.

    Raises UserError where the kernel has no means for it.
    """

    def __init__(self, keepers: Sequence[int]) -> None:
        self._keepers = keepers
        self._ports = [f"port{number}" for number in range(1, len(keepers) + 1)]
        self._relay: int | None = None
        """The descriptor of its process."""
        with IPRoute() as head:
            try:
                head.link("add", ifname=_BRIDGE, kind="bridge", address=_BRIDGE_MAC)
                for port, keeper in zip(self._ports, keepers, strict=True):
                    head.link("add", ifname=port, kind="veth", peer={"ifname": INTERFACE, "net_ns_pid": keeper})
            except NetlinkError as error:
                if error.code == errno.EOPNOTSUPP:
                    raise UserError(
                        "No virtual hosts: this kernel has no veth pairs or no bridges: load its modules veth and "
                        "bridge."
                    ) from error
                raise
            bridge = _index(head, _BRIDGE)
            head.addr("add", index=bridge, address=HEAD_ADDRESS, prefixlen=24)
            for name in ("lo", _BRIDGE):
                head.link("set", index=_index(head, name), state="up")
            for port in self._ports:
                head.link("set", index=_index(head, port), master=bridge, state="up")

    def shape(self, link: Cable) -> None:
        """Make each cable like this; what is on its way meanwhile is lost. Raises UserError where it can't be."""
        bits, delay_seconds = link.bandwidth_bits_per_second, link.delay_seconds
        with IPRoute() as head:
            self._stop_relay(head)
            has_netem = False
            for port, keeper in zip(self._ports, self._keepers, strict=True):
                with IPRoute(netns=f"/proc/{keeper}/ns/net", flags=0) as host:
                    ends = ((host, _index(host, INTERFACE)), (head, _index(head, port)))
                    for place, index in ends:
                        with suppress(NetlinkError):  # Where there is nothing to be cleared.
                            place.tc("del", index=index, parent=_ROOT_HANDLE)
                    below = _ROOT_HANDLE
                    if delay_seconds and (has_netem := _delay(*ends[0], delay_seconds)):
                        below = _NETEM_HANDLE + 1
                    if bits is not None:
                        _limit(*ends[0], bits, below)
                        _limit(*ends[1], bits, _ROOT_HANDLE)
            if delay_seconds and not has_netem:
                self._start_relay(head, delay_seconds)

    def plug(self, number: int, is_in: bool) -> None:
        """Plug in the cable of the host of this number, counted from 0, or pull it: nothing passes, or is answered."""
        with IPRoute() as head:
            head.link("set", index=_index(head, self._ports[number]), state="up" if is_in else "down")

    def _start_relay(self, head: IPRoute, delay_seconds: float) -> None:
        head.link("add", ifname=_FAR, kind="veth", peer={"ifname": _RELAY})
        far, near = _index(head, _FAR), _index(head, _RELAY)
        head.link("set", index=far, master=_index(head, _BRIDGE), state="up")
        # Whoever sends by it is behind another cable.
        head.brport("set", index=far, learning=0)
        # Nor does the kernel answer there for the head.
        head.link("set", index=near, flags=_NO_ARP, change=_NO_ARP)
        head.link("set", index=near, state="up")
        self._isolate(head, True)
        try:
            self._relay = relay.start(delay_seconds, _BRIDGE_MAC, _RELAY, self._ports)
        except OSError as error:
            raise UserError(
                "Virtual hosts can't be given a delay: the kernel has no netem, and the relay in its place didn't "
                "start; leave the delay out."
            ) from error

    def _stop_relay(self, head: IPRoute) -> None:
        if self._relay is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._relay, signal.SIGKILL)
            # Until it has ended it may still forward.
            select.select([self._relay], [], [])
            os.close(self._relay)
            self._relay = None
        for far in head.link_lookup(ifname=_FAR):
            head.link("del", index=far)
            self._isolate(head, False)

    def _isolate(self, head: IPRoute, isolated: bool) -> None:
        """Have the bridge forward nothing from one cable to another, or everything."""
        for port in self._ports:
            head.brport("set", index=_index(head, port), isolated=int(isolated))


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


def _limit(place: IPRoute, index: int, bits_per_second: float, below: int) -> None:
    """Let no more through the interface than so many bits per second."""
    rate = bits_per_second / 8
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


def _index(place: IPRoute, name: str) -> int:
    [index] = place.link_lookup(ifname=name)
    return index
