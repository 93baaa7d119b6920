"""The cables of a virtual cluster, for programs on its head: to shape anew, to pull and to plug.

    python -m common.launching.virtual_hosts.link REQUEST

asks the keeper of the cluster for what REQUEST says in JSON, which is how a program elsewhere does it.
"""

import dataclasses
import json
import socket
import sys
from collections.abc import Mapping

from common.errors import UserError, exit_with_one_line
from common.launching.virtual_hosts.description import Description, Link

SOCKET = "\0lockstep-virtual-hosts"
"""Where the keeper listens: an abstract address (unix(7)), which is the head's network namespace's alone."""


def shape(description: Description, link: Link) -> Description:
    """Make the cluster's cables like this, and return what describes it to programs that are started from now on.

    Raises UserError where the system can't.
    """
    ask(shape_request(link))
    return dataclasses.replace(description, link=link)


def shape_request(link: Link) -> dict[str, object]:
    """What asks the keeper for cables like this."""
    return {"link": dataclasses.asdict(link)}


def plug_request(name: str, plugged: bool) -> dict[str, object]:
    """What asks the keeper to plug or pull the cable of the host of this name."""
    return {"host": name, "plugged": plugged}


def ask(request: Mapping[str, object]) -> None:
    """Have the keeper do something, and wait until it is done. Raises UserError for what the system can't do."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        with connection.makefile("rw", encoding="utf-8") as lines:
            print(json.dumps(request), file=lines, flush=True)
            reply = json.loads(lines.readline())
    if "refused" in reply:
        raise UserError(reply["refused"])
    if "failed" in reply:
        raise RuntimeError(reply["failed"])


if __name__ == "__main__":
    exit_with_one_line(lambda: ask(json.loads(sys.argv[1])))
