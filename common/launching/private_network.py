"""Start this program anew in a network of its own. Few imports, since the program imports them twice."""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

from common.errors import print_note
from common.measurement import machine

_UNSHARE = ("unshare", "--user", "--map-root-user", "--net")


def enter() -> None:
    """Start this program anew in a network namespace of its own, or say that there is none.

    There nothing outside reaches the frameworks' servers, which listen on every interface, and the bytes of the
    loopback are the launch's alone.
    """
    if machine.has_private_network():
        # A new network namespace has the interface lo switched off (netdevice(7), SIOCSIFFLAGS and IFF_UP).
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x1))
    elif not shutil.which("unshare") or subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode:
        print_note("no private network (unshare --user --net isn't allowed here), so wire bytes aren't known.")
    else:
        os.environ[machine.PRIVATE_NETWORK] = "1"
        os.execvp("unshare", [*_UNSHARE, sys.executable, *sys.orig_argv[1:]])
