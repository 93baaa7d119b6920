"""An ssh server for a virtual host: it lets in the holder of one key, and runs commands as sshd does.

Like sshd's, its sessions end when their connection goes, and leave what they started alone: whoever starts a command
on another machine has to see to its end.
"""

import asyncio
import os
import pwd
from asyncio.subprocess import PIPE
from collections.abc import Callable

import asyncssh

from common.launching.virtual_hosts.description import TEMPORARY_FOLDER

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SESSION = 'exec 3<&0; /bin/sh -c "$0" <&3 3<&- & wait $!'
"""A shell in the place of sshd's process for a session: the command's parent, and gone with the connection."""


async def serve(address: str, key: asyncssh.SSHKey, on_ready: Callable[[], object]) -> None:
    """Serve at the address for ever, by this key, and let in its holder alone; call `on_ready` once."""
    server = await asyncssh.listen(
        address,
        22,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(key.export_public_key().decode()),
        process_factory=_run_command,
        encoding=None,
        password_auth=False,
        kbdint_auth=False,
        gss_host=None,
        host_based_auth=False,
    )
    on_ready()
    await server.wait_closed()


async def _run_command(session: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the session's command in the user's home, with as little environment as sshd gives it.

    Beside that it has the host's own folder for temporary files.
    """
    user = pwd.getpwuid(os.geteuid())
    home = user.pw_dir if os.access(user.pw_dir, os.X_OK) else "/"
    environment = {"HOME": home, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": "/bin/sh", "PATH": _PATH}
    environment["TMPDIR"] = TEMPORARY_FOLDER
    command = ["/bin/sh", "-c", _SESSION, session.command or ""]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=home, env=environment, start_new_session=True, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    await session.redirect(process.stdin)
    printing = (_copy(process.stdout, session.stdout), _copy(process.stderr, session.stderr))
    # As sshd, which says how a command ended once all has been sent that it printed.
    ended = asyncio.gather(process.wait(), *printing, return_exceptions=True)
    closed = asyncio.ensure_future(session.wait_closed())
    await asyncio.wait({ended, closed}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        session.exit(await process.wait())
        await closed
    else:
        process.kill()


async def _copy(printed: asyncio.StreamReader | None, sent: asyncssh.SSHWriter[bytes]) -> None:
    """Send what a command prints, no faster than the connection takes it."""
    assert printed, "It is a pipe."
    while piece := await printed.read(65536):
        sent.write(piece)
        await sent.drain()
