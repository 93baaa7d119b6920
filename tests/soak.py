"""Interrupt sessions and change their records at random until the time is over, and look for what is lost or left.

To start it: `nox -s soak -- --minutes 60`. An episode starts a session of torch's, and kills, stops or fills it up
several times, or cuts one of its files. Then the command that the session itself has noted goes on until it ends. Every
other episode changes records, manifests and plans of a finished session, and reads them into a report's tables. The
exit status is 1 where anything was found, and each finding is printed with the command that repeats its episode.

All happens in namespaces of its own where the system allows them: a session's lock is the soak's alone there, and a
disk can be full. Without them these episodes are left out.
"""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from itertools import count
from pathlib import Path

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from common.errors import UserError, exit_with_one_line
from common.laboratory import faults
from common.launching import private_network
from common.measurement import machine
from common.paths import ROOT
from common.records import manifest
from common.records.files import record_paths
from common.records.presentation import read_presented
from common.records.training import Record
from common.sessions.experiment import observed_of
from common.sessions.folder import FINISHED
from reports import experiment
from reports.document import compose
from reports.tables.material import Material
from reports.tables.results import origin_of, read_results
from tests.commands import runs_of

APART = "LOCKSTEP_SOAK_APART"
"""Environment variable that is set in namespaces of the soak's own."""

MARK = "LOCKSTEP_SOAK"
"""Environment variable of all that an episode starts."""

_SHORT = ("--preset", "digits", "--repetitions", "1")

SESSIONS = {
    "one worker": ["compare", "--strategies", "torch_single", "--workers", "1", *_SHORT],
    "two workers": ["compare", "--strategies", "torch_ddp", "--workers", "2", *_SHORT],
    "faults": ["faults", "--strategies", "torch_ddp", "--repetitions", "1", "--deadline-seconds", "120"],
    "report": ["report"],
}
"""By name the Nox session and options of what is interrupted."""

OFTEN = ("one worker", "one worker", "one worker", "two workers", "faults", "report")
"""As often as each is interrupted: what takes long is seldom."""

TO_SESSION = ("kill", "kill group", "SIGTERM", "SIGINT", "SIGINT twice", "SIGHUP", "stop", "stop and kill", "cut")
TO_WORKER = ("kill worker", "stop worker")
ODD_VALUES = (
    *(None, True, -1, 0, 1, 2.5, -0.0, 1e-320, 1e300, 2**53, 10**400, float("nan"), float("inf"), "", "x", "\ud800"),
    *("../../etc/passwd", "2026-01-01", "#\n*_$", [], [[]], [None], {}, {"a": 1}),
)

_LONGEST_SECONDS, _SLOW_SECONDS, _LEAVE_SECONDS = 600.0, 60, 10.0
"""After which a session counts as one that hangs, a report's tables too, and what an episode started as left."""


@dataclass(frozen=True)
class Arguments:
    """Interrupt sessions and change records at random."""

    minutes: float = 60.0
    seed: int | None = None
    """Decides every episode; none: a new one, which is printed."""
    episode: int | None = None
    """Only the episode of this number."""
    changes: int = 200
    """Changed folders in one episode."""


@dataclass
class Tally:
    """What was done how often, and what was found."""

    done: Counter[str] = field(default_factory=Counter[str])
    found: list[str] = field(default_factory=list[str])


def main() -> None:
    """Run episodes until the time is over. Raises UserError where the first sessions, undisturbed, don't end well."""
    arguments, console = tyro.cli(Arguments, description=__doc__), Console(width=140, markup=False, highlight=False)
    if APART in os.environ:
        # A new network namespace has its loopback switched off.
        os.environ[machine.PRIVATE_NETWORK] = "1"
        private_network.enter()
        del os.environ[machine.PRIVATE_NETWORK]
    elif not subprocess.run([*unshare(), "true"], capture_output=True).returncode:
        mount = 'mount -t tmpfs -o mode=1777 soak /dev/shm && "$@"'
        os.environ[APART] = "1"
        os.execvp("unshare", [*unshare(), "sh", "-c", mount, "sh", sys.executable, *sys.orig_argv[1:]])
    else:
        console.print("No namespaces here: full disks are left out, and no other comparison may run meanwhile.")
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    console.print(f"Seed {seed}.")
    deadline, tally = time.monotonic() + 60 * arguments.minutes, Tally()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        for number in count() if arguments.episode is None else [arguments.episode]:
            if time.monotonic() > deadline:
                break
            chance, found = random.Random(f"{seed} {number}"), len(tally.found)
            if number % 2:
                about = change_records(chance, Path(folder), arguments.changes, tally)
            else:
                about = interrupt(chance, Path(folder), tally)
            console.print(f"{number:>4} {about}: {'; '.join(dict.fromkeys(tally.found[found:])) or 'well'}")
            if tally.found[found:]:
                console.print(f"     Again: nox -s soak -- --seed {seed} --episode {number}")
    table = Table("what", "how often")
    for what, times in sorted(tally.done.items()):
        table.add_row(what, str(times))
    table.add_row("found", str(len(tally.found)))
    console.print(table)
    sys.exit(int(bool(tally.found)))


def unshare() -> list[str]:
    """The command that runs another one in namespaces of its own, all of which ends with it."""
    spaces = ["--user", "--map-root-user", "--mount", "--net", "--pid"]
    return ["unshare", *spaces, "--fork", "--kill-child", "--mount-proc"]


def command_of(name: str, folder: Path) -> list[str]:
    """The command of a session whose records and report go to this folder."""
    session, *options = SESSIONS[name]
    results = folder / "results" / ("session" if session == "report" else "")
    [command] = runs_of(session, [*options, "--results", str(results), "--out", str(folder / "report.pdf")])
    return command


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command whose processes and temporary files are known by the folder, where its output goes."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    own = {MARK: folder.name, "TMPDIR": str(folder / "tmp")}
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | own,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


@cache
def undisturbed(name: str, above: Path) -> tuple[Path, float]:
    """The folder of a session that nobody disturbs, and its seconds. Raises UserError where it doesn't end well."""
    folder, begun = above / f"undisturbed {name}", time.monotonic()
    if status := start(command_of(name, folder), folder).wait(_LONGEST_SECONDS):
        raise UserError(f"{name} ended with status {status}: {(folder / 'output').read_text()[-2000:]}")
    [session] = (folder / "results").iterdir()
    return session, time.monotonic() - begun


@dataclass
class Episode:
    """A session in a folder of its own, and what was done to it."""

    name: str
    kind: str
    """What is done: session, worker, or disk."""
    folder: Path
    command: list[str]
    """That goes on with the session."""
    done: list[str] = field(default_factory=list[str])
    kept: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    """Records that nobody may change any more."""
    cut: set[str] = field(default_factory=set[str])
    """Names of files that were cut."""
    removed: set[str] = field(default_factory=set[str])
    """Of these, those that a sentence asked to be deleted."""

    @property
    def results(self) -> Path:
        """The folder of the session's folder."""
        return self.folder / "results"

    @property
    def finished(self) -> list[Path]:
        """Folders of sessions whose launches are all made."""
        return [path.parent for path in self.results.glob(f"*/{FINISHED}")]


def interrupt(chance: random.Random, above: Path, tally: Tally) -> str:
    """Interrupt a session a few times, let it go on to its end, and look at what it left; returns what was done."""
    name, kind = chance.choice(OFTEN), chance.choice(["session"] * 4 + ["worker", "disk"])
    reference, seconds = undisturbed("one worker" if name == "report" else name, above)
    folder = Path(tempfile.mkdtemp(prefix="episode-", dir=above))
    episode, before = Episode(name, kind, folder, command_of(name, folder)), files(folder)
    episode.results.mkdir()
    if name == "report":
        shutil.copytree(reference, episode.results / "session")
        seconds /= 4
    is_mounted = kind == "disk" and APART in os.environ and name != "report"
    if is_mounted:
        fill_disk(episode, chance.randrange(8, 400), tally)
    for _ in range(chance.randrange(5, 20) if kind == "session" else int(kind == "worker")):
        interrupt_once(episode, chance, seconds, tally)
        tally.found += left(folder, before)
        if name != "report" and episode.finished:
            break  # It would begin another session.
    go_on_to_the_report(episode, tally)
    for path in refused(episode):
        # That is the remedy in the sentence.
        path.unlink()
        episode.removed.add(path.name)
        go_on_to_the_report(episode, tally)
    tally.found += left(folder, before)
    tally.found += lost(episode, reference)
    if not (folder / "report.pdf").exists() or not (folder / "report.html").exists():
        tally.found.append("no report")
    tally.found += [f"{path.name} is left beside the report" for path in folder.glob(".*")]
    tally.found += tracebacks((folder / "output").read_text(errors="replace"))
    if is_mounted:
        subprocess.run(["umount", str(episode.results)], check=True)
    shutil.rmtree(folder)
    return f"{name}, {', '.join(episode.done) or 'nothing in time'}"


def fill_disk(episode: Episode, kilobytes: int, tally: Tally) -> None:
    """Start the session on a disk of this size, and make room when it has ended."""
    results = str(episode.results)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "soak", results], check=True)
    episode.done.append(f"disk of {kilobytes} KiB")
    wait_for(start(episode.command, episode.folder), tally)
    tally.done["full disk"] += 1
    subprocess.run(["mount", "-o", "remount,size=1g", results], check=True)


def interrupt_once(episode: Episode, chance: random.Random, seconds: float, tally: Tally) -> None:
    """Start the session, or go on with it, and disturb it at a random moment; note what it has made by then."""
    process = start(episode.command, episode.folder)
    what = chance.choice(TO_WORKER if episode.kind == "worker" else TO_SESSION)
    moment = chance.uniform(0.2, min(seconds, chance.choice((5.0, 15.0, seconds))))
    with suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    if process.poll() is None:
        episode.done.append(f"{what} after {moment:.1f} s")
        tally.done[what] += 1
        disturb(what, process, chance)
    wait_for(process, tally)
    sessions = [*episode.results.glob("*")]
    episode.kept |= {path: path.read_bytes() for session in sessions for path in noted_records(session)}
    files = [path for session in sessions for path in session.rglob("*") if path.is_file()]
    if what == "cut" and files:
        path = chance.choice(sorted(files))
        os.truncate(path, chance.randrange(path.stat().st_size + 1))
        episode.cut.add(path.name)
        # Its launch is made again.
        episode.kept = {kept: content for kept, content in episode.kept.items() if kept.stem != path.stem}
        episode.done.append(f"cut {path.name} to {path.stat().st_size} bytes")
    noted = next(iter(sorted(episode.results.glob("*/command.txt"))), None)
    if noted and noted.name not in episode.cut and episode.name != "report":
        _, _, session, _, *options = shlex.split(noted.read_text())
        [episode.command] = runs_of(session, options)
    tally.done["resumed"] += 1


def go_on_to_the_report(episode: Episode, tally: Tally) -> None:
    """Let the session go on to its end; of one that was interrupted in its report, have the report made."""
    finished, command = episode.finished, episode.command
    if finished:
        again = ["--again"] if episode.name == "faults" else ["--results"]
        session = "faults" if episode.name == "faults" else "report"
        [command] = runs_of(session, [*again, str(finished[0]), "--out", str(episode.folder / "report.pdf")])
    # A report that was made before a file was cut can't tell of it.
    is_made = (episode.folder / "report.html").exists() and not episode.cut
    if not is_made or not finished or episode.name == "report":
        wait_for(start(command, episode.folder), tally)


def refused(episode: Episode) -> list[Path]:
    """The files that were cut and that the session's last words name."""
    last = (episode.folder / "output").read_text(errors="replace").strip().rpartition("\n")[2]
    return [path for path in episode.results.rglob("*") if path.name in episode.cut and str(path) in last]


def noted_records(session: Path) -> list[Path]:
    """The records of launches that ended ok and were noted, which nobody may change any more."""
    paths = [session / name for name in manifest.read(session) if name.endswith(".json")]
    return [path for path in paths if path.exists() and b'"status": "ok"' in path.read_bytes()]


def wait_for(process: subprocess.Popen[bytes], tally: Tally) -> None:
    """Wait until the process has ended; one that doesn't is killed, and found."""
    try:
        process.wait(_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        tally.found.append("it hangs")
        os.killpg(process.pid, signal.SIGKILL)


def disturb(what: str, process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Do this to a session that runs, or to one of the processes below it."""
    target = psutil.Process(process.pid)
    if what in TO_WORKER:
        target = chance.choice([target, *target.children(recursive=True)][1:] or [target])
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if what == "kill group":
            os.killpg(process.pid, signal.SIGKILL)
        elif what.startswith("SIG"):
            target.send_signal(getattr(signal, what.split()[0]))
            if what.endswith("twice"):
                time.sleep(chance.uniform(0.0, 1.0))
                target.send_signal(signal.SIGINT)
        elif what.startswith("stop"):
            target.suspend()
            time.sleep(chance.uniform(0.1, 3.0))
            target.kill() if what == "stop and kill" else target.resume()
        else:
            target.kill()


def lost(episode: Episode, reference: Path) -> Iterator[str]:
    """What isn't in the folder of a session that has ended as in that of one that nobody disturbed."""
    finished, cut, folders = episode.finished, episode.cut, [*episode.results.iterdir()]
    if len(finished) != 1 or (len(folders) > 1 and not cut & {"options.txt", "fingerprint.txt"}):
        yield f"{len(finished)} of {len(folders)} folders are finished"
        return
    for path, content in episode.kept.items():
        if "manifest.sha256" not in cut and path.is_relative_to(finished[0]) and path.read_bytes() != content:
            yield f"{path.name} was made again"
    expected, there = ({str(path.relative_to(each)) for path in each.rglob("*")} for each in (reference, finished[0]))
    # A launch whose worker was killed, or for which the disk was too small, leaves less.
    records = record_paths(finished[0]) if episode.kind in ("worker", "disk") else []
    failed = {path.stem for path in records if b'"status": "failed"' in path.read_bytes()}
    missing = {each for each in expected - there if Path(each).stem not in failed or each.endswith((".json", ".log"))}
    yield from (f"{name} is missing" for name in sorted(missing) if Path(name).name not in episode.removed)
    yield from (f"{name} is left" for name in sorted(there - expected))
    differences = manifest.in_words(manifest.check(finished[0]))
    outputs = [episode.folder / name for name in ("report.html", "output")]
    text = "".join(path.read_text(errors="replace") for path in outputs if path.exists())
    # A report names the file that was cut, or the session's own sentence refuses it.
    yield from (each for each in differences if not cut or each.split()[0] not in text)


def files(folder: Path) -> set[Path]:
    """What lies in shared memory, and in the folder that an episode has for temporary files."""
    own = folder / "tmp"
    own.mkdir(exist_ok=True)
    return {*Path("/dev/shm").iterdir(), *own.iterdir()}


def left(folder: Path, before: set[Path]) -> list[str]:
    """What is left of an episode a few seconds after it: processes, and files that weren't there `before`."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    while (running := processes(folder.name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    remaining = [f"still running: {', '.join(running)}"] if running else []
    return [*remaining, *(f"left: {path}" for path in sorted(files(folder) - before))]


def processes(mark: str) -> list[str]:
    """The processes that an episode has started and that run."""
    found = list[str]()
    for process in psutil.process_iter():
        # One may have ended meanwhile, or be another user's.
        with suppress(psutil.Error, OSError):
            is_own = process.pid != os.getpid() and process.environ().get(MARK) == mark
            if is_own and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.name()} ({process.pid})")
    return found


def tracebacks(output: str) -> Iterator[str]:
    """The last line of each traceback but those of Ctrl-C, which may come while Python still imports."""
    for text in output.split("Traceback (most recent call last):\n")[1:]:
        last = next((line for line in text.splitlines() if not line.startswith(" ")), "")
        if not last.startswith("KeyboardInterrupt"):
            yield f"a traceback: {last}"


def change_records(chance: random.Random, above: Path, times: int, tally: Tally) -> str:
    """Change files of a finished session, again and again, and read it; returns what was done."""
    name = chance.choice(["two workers", "two workers", "faults"])
    original, failures = undisturbed(name, above)[0], Counter[str]()
    examples = dict[str, str]()
    for turn in range(times):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
            folder = Path(shutil.copytree(original, Path(made, "session")))
            done = [change(folder, chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
            failure = failure_of_tables(folder, name)
        tally.done["changed folders"] += 1
        if failure:
            failures[failure] += 1
            examples.setdefault(failure, f"{failure} (turn {turn}: {'; '.join(done)})")
    tally.found += [f"{failures[each]} times {example}" for each, example in examples.items()]
    return f"{times} changed folders of {name}"


def change(folder: Path, chance: random.Random) -> str:
    """Change one file of a session at random; returns what was done to it."""
    records = [path for place in (folder, *folder.glob("*/")) for path in record_paths(place)]
    others = [path for path in folder.rglob("*") if path.is_file() and path not in records]
    path = chance.choice(sorted(records if records and chance.random() < 0.7 else others))
    content = path.read_bytes()
    try:
        values = json.loads(content)
    except ValueError:
        values = None
    if isinstance(values, dict) and values and chance.random() < 0.7:
        done = change_value(values, chance)
        path.write_text(json.dumps(values), encoding="utf-8")
        return f"{path.name}: {done}"
    how = chance.choice(["cut", "binary", "utf-16", "swap", "copy", "delete", "digit"])
    if how == "cut":
        path.write_bytes(content[: chance.randrange(len(content) + 1)])
    elif how == "binary":
        path.write_bytes(chance.randbytes(300))
    elif how == "utf-16":
        path.write_bytes(content.decode("latin-1").encode("utf-16"))
    elif how == "swap":
        other = chance.choice(sorted(records or others))
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif how == "copy":
        path.with_name(f"copy-{path.name}").write_bytes(content)
    elif how == "delete":
        path.unlink()
    else:
        digit = chance.choice([place for place, letter in enumerate(content) if letter in b"0123456789"] or [0])
        path.write_bytes(content[:digit] + chance.choice((b"-", b"9" * 30, b"x")) + content[digit + 1 :])
    return f"{path.name}: {how}"


def change_value(values: dict, chance: random.Random) -> str:
    """Change, remove or add a value at random, however deep it lies; returns what was done."""
    place, inner = list[object](), values
    while True:
        key = chance.choice(sorted(inner) if isinstance(inner, dict) else range(len(inner)))
        place.append(key)
        if not isinstance(inner[key], dict | list) or not inner[key] or chance.random() < 0.2:
            break
        inner = inner[key]
    how, value = chance.choice(["value", "value", "missing", "added"]), chance.choice(ODD_VALUES)
    if how == "missing":
        del inner[key]
    else:
        inner["odd" if how == "added" and isinstance(inner, dict) else key] = value
    return f"{how} {value!r:.20} at {'.'.join(map(str, place))}"


def failure_of_tables(folder: Path, name: str) -> str:
    """Why a session's folder gives neither a report's tables nor one sentence; empty where it does."""
    try:
        with redirect_stdout(StringIO()) as notes, at_most(_SLOW_SECONDS):
            if name == "faults":
                launches = faults.EXPERIMENT.gather(folder, read_presented(folder, Record))
                if not launches:
                    return ""
                found = observed_of(faults.EXPERIMENT, launches)
                found.write(folder)
                records = read_presented(folder, Record)
                content, _ = experiment.compose(found, [*records.values()], origin_of(folder, record_paths(folder)))
                damaged = []
            else:
                results = read_results(folder)
                material = Material(results)
                content, _ = compose(material)
                material.write(folder / "tables")
                damaged = [*results.damaged]
        text = json.dumps(content, ensure_ascii=False) + notes.getvalue()
        unsaid = [each for each in damaged if each not in text]
        return f"it doesn't say that {unsaid[0]} is damaged" if unsaid else ""
    except UserError as error:
        return f"several lines: {error}" if "\n" in str(error) else ""
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if Path(each.filename).is_relative_to(ROOT) and ".nox" not in each.filename]
        place = f"{Path(own[-1].filename).name}:{own[-1].lineno} ({frames[-1].name})"
        return f"{type(error).__name__} in {place}: {error!s:.100}"


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError where the block takes longer."""

    def end(_number: int, _frame: object) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    exit_with_one_line(main)
