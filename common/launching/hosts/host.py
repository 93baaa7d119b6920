"""The hosts of a comparison as a user names them: a list on the command line, or a file in MPI's format."""

import re
from collections.abc import Iterable
from pathlib import Path

from common.errors import UserError
from common.launching.places.place import Host
from common.launching.places.ssh import SshHost

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SLOTS = re.compile(r"0*[1-9][0-9]{0,8}")
_MOST_SLOTS = ("max_slots", "max-slots")


def parse_hosts(text: str) -> list[Host]:
    """The hosts in a list such as `host1:2,host2:2`; a host without `:n` has one slot.

    Raises UserError for an empty list, a host that stands in it twice, and names and slots that can't be meant.
    """
    return _distinct(_host_of(part.strip()) for part in text.split(","))


def read_hostfile(path: Path) -> list[Host]:
    """The hosts in a file of MPI's format: on each line `NAME slots=N` or `NAME:N`, and `#` before a remark.

    A host without slots has one. `max_slots` may stand there as well: it allows MPI more workers than slots, and a
    comparison never starts more. Raises UserError as `parse_hosts` does, and for a file that can't be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The hosts can't be read from {path} ({error}): name a text file in MPI's format.") from error
    words = (re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split() for line in lines)
    hosts = [_host_of_line(line) for line in words if line]
    if not hosts:
        raise UserError(f"{path} names no host: write one on each line, such as `host1 slots=2`.")
    return _distinct(hosts)


def _host_of_line(words: list[str]) -> Host:
    name, *settings = words
    slots = [value for key, _, value in (word.partition("=") for word in settings) if key == "slots"]
    unknown = [word for word in settings if word.partition("=")[0] not in ("slots", *_MOST_SLOTS)]
    if unknown:
        raise UserError(f"{name}: `{unknown[0]}` isn't understood: write lines such as `{name} slots=2`.")
    if len(slots) > 1 or (slots and ":" in name):
        raise UserError(f"{name}: its slots are said twice: leave one of them out.")
    return _host_of(f"{name}:{slots[0]}" if slots else name)


def _host_of(text: str) -> Host:
    name, separator, slots = text.partition(":")
    if not name:
        raise UserError(f"'{text}' names no host: write hosts as in host1:2,host2:2.")
    if "@" in name:
        raise UserError(
            f"{name}: a host is named without its user: write `User {name.partition('@')[0]}` below `Host "
            f"{name.rpartition('@')[2]}` in ~/.ssh/config, and leave the user out here."
        )
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!a} can't be a host's name: it has letters, digits, '.', '_' and '-' alone, and begins with a "
            "letter or a digit; give another name to it in ~/.ssh/config."
        )
    if separator and not _SLOTS.fullmatch(slots):
        raise UserError(f"{name}: {slots!a} slots: give a whole number above 0.")
    return SshHost(name, int(slots) if separator else 1)


def _distinct(hosts: Iterable[Host]) -> list[Host]:
    found: dict[str, Host] = {}
    for host in hosts:
        # Names of hosts are the same in small and capital letters (RFC 4343).
        if host.name.lower() in found:
            raise UserError(f"{host.name} stands twice among the hosts: name it once, with all of its slots.")
        found[host.name.lower()] = host
    return list(found.values())
