"""A host that ssh reaches: the command line of ssh, and why that went wrong."""

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from common.launching.places.place import Host
from common.paths import ROOT

_SETTINGS = (
    # Nobody is there to answer a question, such as one for a password.
    "BatchMode=yes",
    "ConnectTimeout=10",
    # A connection that is lost in silence ends after fifteen seconds.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    # A connection that others share outlasts this program, and would keep its pipes open.
    "ControlPath=none",
)
_LOSSES = (
    (
        r"Could not resolve hostname",
        "{host}: no machine is found by this name: correct it, or add it to /etc/hosts, DNS or ~/.ssh/config.",
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "{host} has another host key than ~/.ssh/known_hosts says: where that is right, remove the old one by "
        "`ssh-keygen -R {host}`.",
    ),
    (r"Host key verification failed", "{host} has a host key that isn't known here: accept it once by `ssh {host}`."),
    (
        r"Permission denied \(|Too many authentication failures",
        "{host} asks for a password, or doesn't take your key: see to it that `ssh {host}` asks nothing, as by "
        "`ssh-copy-id {host}`.",
    ),
    (
        r"ssh: connect to host .*: (.+)",
        "{host} can't be reached by ssh ({detail}): see whether it is up, and sshd runs there.",
    ),
    (r"timed out during banner exchange", "{host} can't be reached by ssh (its sshd is silent): see whether it is up."),
)
"""What ssh prints, which it does in English alone, and what that means."""


@dataclass(frozen=True)
class SshHost(Host):
    """A machine that ssh reaches by its name."""

    client = "OpenSSH's client"
    losses = _LOSSES
    loss = "{host} was lost (its connection ended): see whether it and its network are up."

    def address(self) -> str:
        """The name or address by which the user's ssh reaches it: ~/.ssh/config may give it another than its own."""
        try:
            settings = subprocess.run(["ssh", "-G", self.name], capture_output=True, encoding="utf-8").stdout
        except FileNotFoundError:
            return self.name
        match = re.search(r"^hostname (\S+)$", settings, re.MULTILINE)
        return match[1] if match else self.name

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line of ssh. A host's own PYTHONSAFEPATH would keep this checkout from being found."""
        settings = [word for setting in _SETTINGS for word in ("-o", setting)]
        python = shlex.join([sys.executable, *words])
        return ["ssh", "-T", *settings, self.name, f"cd {shlex.quote(str(ROOT))} && PYTHONSAFEPATH= exec {python}"]
