"""An ssh server for a test host: it lets in the holder of one key, and runs commands as sshd does.

Like sshd, it closes a command's input when the connection goes and leaves its processes alone: who starts them has to
see to their end.
"""

import asyncio
import os
import pwd
import sys

import asyncssh

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


async def run_command(session: asyncssh.SSHServerProcess) -> None:
    """Run the session's command in a shell, in the user's home and with as little environment as sshd gives it."""
    user = pwd.getpwuid(os.geteuid())
    home = user.pw_dir if os.access(user.pw_dir, os.X_OK) else "/"
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", session.command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=home,
        env={"HOME": home, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": "/bin/sh", "PATH": PATH},
        start_new_session=True,
    )
    await session.redirect(process.stdin, process.stdout, process.stderr)
    session.exit(await process.wait())
    await session.wait_closed()


async def serve(address: str, key: str, authorized: str) -> None:
    """Serve on the host's own address alone, by keys alone."""
    server = await asyncssh.listen(
        address,
        22,
        server_host_keys=[key],
        authorized_client_keys=authorized,
        password_auth=False,
        kbdint_auth=False,
        gss_host=None,
        host_based_auth=False,
        process_factory=run_command,
        encoding=None,
    )
    print("ready", flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
