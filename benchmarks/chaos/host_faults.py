"""What can happen to hosts that joined a leader, done for real."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import psutil

from benchmarks.chaos import wall_clock
from benchmarks.chaos.artifact_faults import corrupted_in_cache, corrupted_in_store
from benchmarks.chaos.fault import Amid, Done, Kind
from benchmarks.chaos.wall_clock import WallClock
from inferbench_tasks import settings
from inferbench_tasks.cluster.store import Cluster
from tests.joined_hosts import Joined, JoinedHost
from tests.local_system import Driver

#: Longer than a silent worker's lease lasts.
SILENT_S = (20, 45)
LOSS_RATIO = 0.05
STEP_S = 30
#: By the name of the host.
_CLOCKS: dict[str, WallClock] = {}
#: Causes of a job that failed since its host, or the way to it, was gone; what a program got wrong has other words.
GONE = r"connect|reach|network|\blink\b|lease|does not hold|silent|no answer|\baway\b|killed|without a word|timed out"
NO_ROOM = r"no space|no room|\bdisk\b|\bfull\b"


def holds_lease(joined: Joined, host: JoinedHost) -> bool:
    """Whether a job holds a device of that host now."""
    home = settings.home_id(host.home)
    return any(device.lease for device in Cluster(joined.driver.db).devices() if device.home == home)


@contextmanager
def link_down(seconds: int, amid: Amid) -> Iterator[Done]:
    """Its cable is out of the switch."""
    held = holds_lease(amid.joined, amid.host)
    amid.host.plugged(False)
    time.sleep(seconds)
    amid.host.plugged(True)
    yield Done(f"cable of {amid.host.name} out for {seconds} s", lambda: held)


@contextmanager
def host_killed(amid: Amid) -> Iterator[Done]:
    """All that runs there gets kill -9; after a while its worker is started again."""
    held = holds_lease(amid.joined, amid.host)
    amid.host.kill()
    away_s = amid.rng.randrange(2, 25)
    time.sleep(away_s)
    amid.host.start()
    yield Done(f"{amid.host.name} killed whole, back after {away_s} s", lambda: held)
    amid.joined.ready(amid.host)


@contextmanager
def leader_killed(amid: Amid) -> Iterator[Done]:
    """Airflow, broker, gateway and PerfDB get kill -9 at once, and are started again from what is on the disk."""
    joined = amid.joined
    data = str(joined.base / "leader")
    joined.driver.close()
    parts: set[int] = set()
    # Three times: what was being started meanwhile. A broker's title and environment do not say whose it is.
    for _ in range(3):
        parts |= {process.pid for process in joined.driver.system.running()}
        for process in psutil.process_iter(["cmdline", "environ"]):
            mine = process.pid in parts or (process.info["environ"] or {}).get(settings.DATA_DIR) == data
            if (mine or data in " ".join(process.info["cmdline"] or [])) and process.pid != os.getpid():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    process.wait(10)
    time.sleep(amid.rng.randrange(1, 8))
    joined.start_leader()
    joined.driver = Driver(joined.driver.system)
    yield Done("leader killed whole and started again", lambda: True)  # each job needs it
    joined.ready()


@contextmanager
def fenced(amid: Amid) -> Iterator[Done]:
    """It stands still for longer than its lease lasts, and then goes on where it was."""
    seconds = amid.rng.randrange(*SILENT_S)
    stopped = amid.host.pids()
    held = holds_lease(amid.joined, amid.host)
    amid.host.signal(signal.SIGSTOP)
    time.sleep(seconds)
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    yield Done(f"{amid.host.name} stood still for {seconds} s", lambda: held)
    amid.joined.ready(amid.host)


@contextmanager
def loss(amid: Amid) -> Iterator[Done]:
    """One packet in twenty that it is sent is lost."""
    held = holds_lease(amid.joined, amid.host)
    drop = ["-m", "statistic", "--mode", "random", "--probability", str(LOSS_RATIO), "-j", "DROP"]
    rule = ["INPUT", "-i", "eth0", *drop]
    there = ["ip", "netns", "exec", amid.host.namespace, "iptables"]
    subprocess.run([*there, "-A", *rule], check=True)
    try:
        words = f"{LOSS_RATIO:.0%} of the packets to {amid.host.name} lost until the job ended"
        yield Done(words, lambda: held)
    finally:
        subprocess.run([*there, "-D", *rule], check=True)


@contextmanager
def settable_clock(joined: Joined, host: JoinedHost) -> Iterator[None]:
    """Its worker, and all that gets its environment, has a wall clock that can be set: Airflow's processes and our
    stages; servers under test and what runs in a sandbox have the machine's."""
    _CLOCKS[host.name] = clock = WallClock(host.home)
    _start_again(joined, host, clock.environment)
    try:
        yield
    finally:
        _start_again(joined, host, {})


def _start_again(joined: Joined, host: JoinedHost, preload: dict[str, str]) -> None:
    host.kill()
    host.preload = preload
    host.start()
    joined.ready(host)


@contextmanager
def clock_steps(amid: Amid) -> Iterator[Done]:
    """The wall clock of a host that a job works on jumps by half a minute, to and fro, and stays ahead."""
    held = []
    for ahead_s in (STEP_S, -STEP_S, STEP_S):
        held.append(holds_lease(amid.joined, amid.host))
        _CLOCKS[amid.host.name].step(ahead_s)
        time.sleep(amid.rng.randrange(3, 8))
    times = f"{sum(held)} of {len(held)} times amid a job"
    yield Done(
        f"clock of {amid.host.name} stepped by {STEP_S} s to and fro, {times}, and stays ahead",
        lambda: any(held),
    )


@contextmanager
def disk_full(amid: Amid) -> Iterator[Done]:
    """No byte is left on the file system of its data directory, for a while."""
    seconds = amid.rng.randrange(10, 25)
    filler = amid.host.home / "filler"
    held = holds_lease(amid.joined, amid.host)
    with suppress(OSError), open(filler, "wb") as file:
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    time.sleep(seconds)
    filler.unlink()
    yield Done(f"disk of {amid.host.name} full for {seconds} s", lambda: held)


def missing(name: str) -> str | None:
    """Why a fault can't be done here."""
    if name == "clock steps" and (reason := wall_clock.missing()):
        return reason
    if name == "packets lost" and shutil.which("iptables") is None:
        return "needs iptables"
    return None


KINDS: dict[str, Kind] = {
    "link down 5 s": Kind(partial(link_down, 5), GONE),
    "link down 30 s": Kind(partial(link_down, 30), GONE),
    "link down 120 s": Kind(partial(link_down, 120), GONE),
    "host killed": Kind(host_killed, GONE),
    "leader killed": Kind(leader_killed, GONE),
    "lease expired": Kind(fenced, GONE),
    "packets lost": Kind(loss, GONE),
    "clock steps": Kind(clock_steps, ready=settable_clock),
    "disk full": Kind(disk_full, NO_ROOM),
    "store corrupted": Kind(corrupted_in_store, first=True),
    "cache corrupted": Kind(corrupted_in_cache, first=True),
}
