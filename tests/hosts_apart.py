"""The keeper of virtual hosts whose clocks are hours apart: whatever compares times of two of them is far off."""

import os
from pathlib import Path

from common.errors import UserError

SECONDS_APART = 3 * 3600.0
"""By how much each host's clocks that count from the machine's start are ahead of the last one's."""

_NEW_TIME = 0x80  # From linux/sched.h.


def enter_time(ahead_seconds: float) -> None:
    """Go on as a process whose clocks are ahead (time_namespaces(7))."""
    from common.launching.virtual_hosts import kernel

    try:
        kernel.unshare(_NEW_TIME)
        offsets = "".join(f"{clock} {int(ahead_seconds)} 0\n" for clock in ("monotonic", "boottime"))
        Path("/proc/self/timens_offsets").write_text(offsets, encoding="utf-8")
    except OSError as error:
        raise UserError(f"The kernel has no time namespaces ({error.strerror}): this takes Linux 5.6.") from error
    if os.fork():
        os._exit(0)


def main() -> None:
    """Keep hosts as the product does, each in a time namespace of its own."""
    from common.launching.virtual_hosts import keeper

    be_host = keeper.be_host

    def be_host_ahead(number, *rest):
        enter_time(number * SECONDS_APART)
        be_host(number, *rest)

    keeper.be_host = be_host_ahead
    keeper.main()


if __name__ == "__main__":
    main()
