"""A host that ssh reaches: the command line of ssh, and why that went wrong."""

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import UserError
from common.launching import ending
from common.launching.places.place import LOST_STATUS
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
_NOT_THERE = (126, 127)
"""Exit statuses of a shell that can't start a program."""

_CAUSES = (
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
"""What ssh prints, which it does in English alone, and what that means; the first that is found counts."""


@dataclass(frozen=True)
class SshHost:
    """A machine that ssh reaches by its name; the interface is `Host` of `place.py`."""

    name: str
    slots: int
    """How many workers it takes."""

    def start(self, words: Sequence[str], **streams: object) -> subprocess.Popen[bytes]:
        """Start Python there. Raises UserError where ssh isn't installed."""
        try:
            # In a session of its own, so that ^C ends what runs on the hosts in order, through this process.
            return subprocess.Popen(self.command(words), bufsize=0, start_new_session=True, **streams)
        except FileNotFoundError as error:
            raise UserError(f"{self.name} can't be reached without ssh: install OpenSSH's client here.") from error

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End ssh, where it hasn't ended, and what it started there with it."""
        process.kill()
        with process:
            pass

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line of ssh that starts Python with these words there."""
        settings = [word for setting in _SETTINGS for word in ("-o", setting)]
        python = shlex.join([sys.executable, *words])
        return ["ssh", "-T", *settings, self.name, f"cd {shlex.quote(str(ROOT))} && exec {python}"]

    def address(self) -> str:
        """The name or address by which the user's ssh reaches it: ~/.ssh/config may give it another than its own."""
        try:
            result = subprocess.run(["ssh", "-G", self.name], capture_output=True, encoding="utf-8")
        except FileNotFoundError:
            return self.name
        found = re.search(r"^hostname (\S+)$", result.stdout, re.MULTILINE)
        return found[1] if found else self.name

    def why_it_failed(self, status: int, errors: str) -> str:
        """One sentence with the host, the cause and the remedy, from ssh's exit status and what it printed."""
        name = self.name
        if status == LOST_STATUS:
            for pattern, sentence in _CAUSES:
                if found := re.search(pattern, errors):
                    return sentence.format(host=name, detail=found[1].strip() if found.groups() else "")
            return f"{name} was lost (its connection ended): see whether it and its network are up."
        if ended := next(ending.sentences(errors), None):
            return ended.reason if re.search(rf"\b{re.escape(name)}\b", ended.reason) else f"{name}: {ended.reason}"
        if status in _NOT_THERE:
            return (
                f"{name} has no {sys.executable}: make the same environments there, at the same path, by `nox -s "
                "tools` and the like."
            )
        if re.search(r"\bcd\b", errors) and str(ROOT) in errors:
            return f"{name} has no checkout in {ROOT}: make one there, at the same path."
        if re.search(r"No module named '?common", errors):
            return f"{name} has another checkout in {ROOT}: make it the same commit there as here."
        last = errors.strip().splitlines()[-1:] or ["it printed nothing"]
        return f"{name}: what ssh started there ended with status {status} ({last[0].strip()}): try `ssh {name}`."
