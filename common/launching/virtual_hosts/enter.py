"""Run a command in the namespaces of another process, and stand for it: pass signals on, and end as it ends.

A program of its own, by its path and without anything of ours: it takes milliseconds, where nsenter(1) leaves alone
whoever gets a signal, and a command that is in another namespace of processes isn't a child that could be killed.

    enter.py KEEPER NETWORK FOLDER CONTROL_GROUP [NAME=VALUE ...] -- COMMAND ...

KEEPER is the process whose namespaces they are, NETWORK the inode of the one of its network, FOLDER where the command
starts, and CONTROL_GROUP the folder of the control group that it belongs to, or nothing.
"""

import ctypes
import os
import signal
import sys

_KINDS = ("user", "pid", "net", "uts", "ipc", "time", "mnt")
"""Namespaces, as /proc/PID/ns names them: the one that lets enter the others first, and last that of the paths."""

_PASSED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # From linux/prctl.h.


def main() -> None:
    """Run the command that this program's arguments are."""
    keeper, network, folder, control_group, *rest = sys.argv[1:]
    split = rest.index("--")
    os.environ.update({name: value for name, _, value in (word.partition("=") for word in rest[:split])})
    try:
        namespaces = {
            kind: os.open(f"/proc/{keeper}/ns/{kind}", os.O_RDONLY) for kind in _KINDS if _differ(kind, keeper)
        }
        # Its cores are the host's. Inside, the keeper's number is another one.
        os.sched_setaffinity(0, os.sched_getaffinity(int(keeper)))
        # Last: a keeper that is still there has been there all the time, and no other process of its number.
        if os.stat(f"/proc/{keeper}/ns/net").st_ino != int(network):
            raise ProcessLookupError
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        sys.exit(f"lockstep: failed: the virtual host of process {keeper} is gone.")
    # This process's own stay the old ones, so that it isn't one of the host's; its child's won't.
    for kind in ("user", "pid"):
        _join(namespaces.pop(kind, None))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        _become(rest[split + 1 :], namespaces, folder, control_group, before)
    _end_like(_stand_for(child), before)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _differ(kind: str, keeper: str) -> bool:
    return os.stat(f"/proc/self/ns/{kind}").st_ino != os.stat(f"/proc/{keeper}/ns/{kind}").st_ino


def _join(namespace: int | None) -> None:
    if namespace is not None and _libc().setns(namespace, 0):
        sys.exit(f"lockstep: failed: a virtual host can't be entered: {os.strerror(ctypes.get_errno())}.")


def _become(
    command: list[str], namespaces: dict[str, int], folder: str, control_group: str, mask: set[int | signal.Signals]
) -> None:
    """Become the command, which the kernel kills when whoever stands for it is killed."""
    _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        if control_group:
            with open(f"{control_group}/cgroup.procs", "w", encoding="utf-8") as processes:
                processes.write("0\n")
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
    """Pass signals on until the child has ended, as the status that this returns has it."""
    while True:
        told = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif told.si_code <= 0:
            # What comes from the kernel is a terminal's ^C, which the child has got as well.
            os.kill(child, told.si_signo)


def _end_like(status: int, mask: set[int | signal.Signals]) -> None:
    if status >= 0:
        sys.exit(status)
    # The core, where one is wanted, is the child's.
    _libc().prctl(_PR_SET_DUMPABLE, 0)
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.kill(os.getpid(), -status)


if __name__ == "__main__":
    main()
