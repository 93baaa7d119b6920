"""common/measurement/disturbance.py: what happened around a window, on this machine and on made-up ones."""

import multiprocessing
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from common.measurement import disturbance, limits
from common.measurement.disturbance import Meter
from common.records.files import to_json
from common.records.training import Window

# What cores have counted since boot: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
BEFORE = {"cpu1": (500, 10, 90, 3000, 20, 5, 15, 40, 0, 0), "cpu3": (700, 0, 50, 2000, 10, 5, 5, 60, 0, 0)}
AFTER = {"cpu1": (560, 11, 99, 3010, 25, 6, 17, 47, 0, 0), "cpu3": (790, 0, 53, 2000, 10, 5, 5, 67, 0, 0)}


def stat(cores):
    """The text of /proc/stat for these cores, all of which have other neighbours."""
    lines = [f"{name} {' '.join(map(str, counts))}" for name, counts in cores.items()]
    return "\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", "cpu0 1 2 3 4 5 6 7 8 9 10", *lines, "intr 12 3 4 5", "ctxt 6", ""])


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that makes the files by which the kernel tells of its cores say this."""

    def says(cores, megahertz=()):
        (tmp_path / "stat").write_text(stat(cores))
        for core, rate in dict(megahertz).items():
            file = tmp_path / f"cpu{core}" / "cpufreq" / "scaling_cur_freq"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(rate)

    monkeypatch.setattr(disturbance, "STAT", tmp_path / "stat")
    monkeypatch.setattr(disturbance, "CPUS", tmp_path)
    return says


def around(meter, act=lambda: None):
    """What the meter tells of a window in which `act` is called."""
    meter.start()
    act()
    window = Window(rank=0, step=0, steps=1, seconds=1.0)
    return dict(to_json(meter.stop(window)).items() - to_json(window).items())


def test_busy_and_stolen_time_are_those_of_the_cores_that_the_process_is_kept_on(machine, monkeypatch):
    now = {"perf_counter": 100.0, "process_time": 5.0}
    clocks = {name: lambda name=name: now[name] for name in now}
    monkeypatch.setattr(disturbance, "time", SimpleNamespace(**clocks))
    machine(BEFORE)

    def compute_for_a_second():
        machine(AFTER)
        now.update(perf_counter=101.0, process_time=6.25)

    told = around(Meter([3, 1]), compute_for_a_second)
    assert told["core_seconds"] == 2.0
    assert told["own_seconds"] == 1.25
    assert told["steal_seconds"] == pytest.approx(0.07 + 0.07)
    # Of core 1, 10 hundredths were idle, 5 a wait for a disk, 1 and 2 interrupts; of core 3 none.
    assert told["busy_seconds"] == pytest.approx(2.0 - 0.14 - 0.18)


def test_the_clock_rate_is_the_mean_of_its_cores_and_time_that_a_quota_takes_is_told(machine, tmp_path, monkeypatch):
    machine(BEFORE, {0: "9000000\n", 1: "2400000\n", 3: "2600000\n"})
    assert around(Meter([1, 3]))["clock_megahertz"] == 2500.0
    file = tmp_path / "cpu.stat"
    file.write_text("throttled_usec 1000000\n")
    machine(BEFORE)
    monkeypatch.setattr(limits, "throttles", lambda: [file])
    told = around(Meter([1]), lambda: file.write_text("throttled_usec 1250000\n"))
    assert told["throttled_seconds"] == pytest.approx(0.25)


ALWAYS = {"own_seconds", "involuntary_switches", "spin_seconds"}
OF_CORES = {"core_seconds", "steal_seconds", "busy_seconds"}


@pytest.mark.parametrize(
    ("cores", "megahertz"),
    [
        ({"cpu1": BEFORE["cpu1"]}, {}),
        # Containers may show counts of nothing.
        (dict.fromkeys(BEFORE, (0,) * 10), {}),
        (dict.fromkeys(BEFORE, ("user", "nice")), {1: "<unknown>\n", 3: ""}),
    ],
    ids=["one core", "nothing counted", "no numbers"],
)
def test_what_the_kernel_does_not_tell_is_left_out(machine, cores, megahertz):
    machine(cores, megahertz)
    assert set(around(Meter([1, 3]))) == ALWAYS


def test_without_cores_or_processes_of_its_own_it_is_not_told_how_busy_they_were(machine, monkeypatch):
    machine(BEFORE)
    assert set(around(Meter([1]))) == ALWAYS | OF_CORES
    monkeypatch.setattr(multiprocessing, "active_children", lambda: ["a process that loads rows"])
    assert set(around(Meter([1]))) == ALWAYS | {"core_seconds", "steal_seconds"}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 3})
    machine(BEFORE, {1: "2400000\n"})
    told = around(Meter([]), lambda: machine(AFTER))
    assert set(told) == ALWAYS | {"core_seconds", "steal_seconds"}
    assert told["steal_seconds"] == pytest.approx(0.14)


def test_the_spin_is_the_mean_of_before_and_after_of_each_the_shortest_try(monkeypatch):
    tries = iter([0.007, 0.002, 0.004, 0.006, 0.009, 0.004])
    monkeypatch.setattr(disturbance, "_spin", lambda: next(tries))
    assert around(Meter([0]))["spin_seconds"] == pytest.approx((0.002 + 0.004) / 2)


def test_another_process_on_the_same_core_shows_by_its_time_and_by_switches():
    def compute():
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass

    cores = os.sched_getaffinity(0)
    core = max(cores)
    os.sched_setaffinity(0, {core})
    # It inherits the core, and is ready when it says so.
    busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        busy.stdout.readline()
        told = around(Meter([core]), compute)
    finally:
        os.sched_setaffinity(0, cores)
        busy.kill()
        busy.communicate()
    assert 0.1 <= told["own_seconds"] < 0.13
    # The kernel gives each of them about half.
    assert told["busy_seconds"] - told["own_seconds"] > 0.05
    assert told["involuntary_switches"] > 0
