"""Run a command in the namespaces of another process, and stand for it: pass signals on, and end as it ends.

A program of its own, by its path and without anything of ours: it takes milliseconds, where nsenter(1) leaves alone
whoever gets a signal, and a command that is in another namespace of processes isn't a child that could be killed.

    enter.py KEEPER NETWORK FOLDER [NAME=VALUE ...] -- COMMAND ...

KEEPER is the process whose namespaces they are, NETWORK the inode of the one of its network, and FOLDER where the
command starts.
"""

import ctypes
import os
import signal
import sys

_KINDS = ("user", "pid", "net", "uts", "ipc", "time", "mnt")
"""Namespaces, as /proc/PID/ns names them: the one that lets enter the others first, and last that of the paths."""

_PASSED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # From linux/prctl.h.
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run the command that this program's arguments are."""
    keeper, network, folder, *rest = sys.argv[1:]
    split = rest.index("--")
    os.environ.update({name: value for name, _, value in (word.partition("=") for word in rest[:split])})
    try:
        paths = {kind: f"/proc/{keeper}/ns/{kind}" for kind in _KINDS}
        differing = [kind for kind in _KINDS if os.stat(f"/proc/self/ns/{kind}").st_ino != os.stat(paths[kind]).st_ino]
        namespaces = {kind: os.open(paths[kind], os.O_RDONLY) for kind in differing}
        # Last: a keeper that is still there has been there all the time, and no other process of its number.
        if os.stat(paths["net"]).st_ino != int(network):
            raise ProcessLookupError
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        sys.exit(f"lockstep: failed: the virtual host of process {keeper} is gone.")
    # This process's own stay the old ones, so that it isn't one of the host's; its child's won't.
    for kind in ("user", "pid"):
        _join(namespaces.pop(kind, None))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        _become(rest[split + 1 :], namespaces, folder, before)
    status = _stand_for(child)
    if status >= 0:
        sys.exit(status)
    # The core, where one is wanted, is the child's.
    _LIBC.prctl(_PR_SET_DUMPABLE, 0)
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.kill(os.getpid(), -status)


def _join(namespace: int | None) -> None:
    if namespace is not None and _LIBC.setns(namespace, 0):
        sys.exit(f"lockstep: failed: a virtual host can't be entered: {os.strerror(ctypes.get_errno())}.")


def _become(command: list[str], namespaces: dict[str, int], folder: str, mask: set[int | signal.Signals]) -> None:
    """Become the command, which the kernel kills when whoever stands for it is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        for namespace in namespaces.values():
            _join(namespace)
            os.close(namespace)
        os.chdir(folder)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"lockstep: failed: {error}", file=sys.stderr, flush=True)
        os._exit(127)


def _stand_for(child: int) -> int:
    """Pass signals on until the child has ended, and return its exit code; a signal's is negative."""
    while True:
        arrival = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if arrival.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif arrival.si_code <= 0:
            # What comes from the kernel is a terminal's ^C, which the child has got as well.
            os.kill(child, arrival.si_signo)


if __name__ == "__main__":
    main()
