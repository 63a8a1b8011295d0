"""What can happen to hosts that joined a leader, done for real: each a context that ends with the fault's end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

from inferbench_tasks import settings
from inferbench_tasks.stores.gridfs_store import BUCKET
from inferbench_tasks.stores.holdings import FETCHED
from tests.joined_hosts import Joined, JoinedHost
from tests.local_system import Driver

#: Gives what was done, in words.
Fault = Callable[[Joined, JoinedHost, random.Random], AbstractContextManager[str]]
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
#: Longer than a silent worker's lease lasts.
SILENT_S = (20, 45)
LOSS_RATIO = 0.05
STEP_S = 30


@contextmanager
def link_down(seconds: int, joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """Its cable is out of the switch."""
    host.plugged(False)
    time.sleep(seconds)
    host.plugged(True)
    yield f"cable of {host.name} out for {seconds} s"


@contextmanager
def host_killed(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """All that runs there gets kill -9; after a while its worker is started again."""
    host.kill()
    away_s = rng.randrange(2, 25)
    time.sleep(away_s)
    host.start()
    yield f"{host.name} killed whole, back after {away_s} s"
    joined.ready(host)


@contextmanager
def leader_killed(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """Airflow, broker, gateway and PerfDB get kill -9 at once, and are started again from what is on the disk."""
    data = str(joined.base / "leader")
    joined.driver.close()
    parts: set[int] = set()
    for _ in range(
        3
    ):  # what was being started meanwhile; a broker's title and environment do not say whose it is
        parts |= {process.pid for process in joined.driver.system.running()}
        for process in psutil.process_iter(["cmdline", "environ"]):
            mine = process.pid in parts or (process.info["environ"] or {}).get(settings.DATA_DIR) == data
            if (mine or data in " ".join(process.info["cmdline"] or [])) and process.pid != os.getpid():
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    process.wait(10)
    time.sleep(rng.randrange(1, 8))
    joined.start_leader()
    joined.driver = Driver(joined.driver.system)
    yield "leader killed whole and started again"
    joined.ready()


@contextmanager
def fenced(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """It stands still for longer than its lease lasts, and then goes on where it was."""
    seconds = rng.randrange(*SILENT_S)
    stopped = host.pids()
    host.signal(signal.SIGSTOP)
    time.sleep(seconds)
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    yield f"{host.name} stood still for {seconds} s"
    joined.ready(host)


@contextmanager
def loss(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """One packet in twenty that it is sent is lost."""
    rule = [
        "INPUT",
        "-i",
        "eth0",
        "-m",
        "statistic",
        "--mode",
        "random",
        "--probability",
        str(LOSS_RATIO),
        "-j",
        "DROP",
    ]
    there = ["ip", "netns", "exec", host.namespace, "iptables"]
    subprocess.run([*there, "-A", *rule], check=True)
    try:
        yield f"{LOSS_RATIO:.0%} of the packets to {host.name} lost until the job ended"
    finally:
        subprocess.run([*there, "-D", *rule], check=True)


@contextmanager
def clock_steps(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """Its wall clock jumps by half a minute, to and fro: of all its processes, by libfaketime."""
    told = host.home / "wall-clock"
    told.write_text("+0")
    host.kill()
    host.preload = {
        "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(told), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    host.start()
    joined.ready(host)
    for ahead_s in (STEP_S, -STEP_S, STEP_S):
        told.write_text(f"{ahead_s:+d}")
        time.sleep(rng.randrange(3, 8))
    yield f"clock of {host.name} stepped by {STEP_S} s to and fro, and stays ahead"
    host.kill()
    host.preload = {}
    host.start()
    joined.ready(host)


@contextmanager
def disk_full(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """No byte is left on the file system of its data directory, for a while."""
    seconds = rng.randrange(10, 25)
    filler = host.home / "filler"
    with suppress(OSError), open(filler, "wb") as file:
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    time.sleep(seconds)
    filler.unlink()
    yield f"disk of {host.name} full for {seconds} s"


@contextmanager
def corrupted_in_store(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """A byte of each of some contents in PerfDB is another, and the hosts have no copies; put right afterwards."""
    for each in joined.hosts:
        shutil.rmtree(each.home / FETCHED, ignore_errors=True)
    chunks = joined.driver.db.collection(f"{BUCKET}.chunks")
    chosen = list(chunks.aggregate([{"$sample": {"size": 3}}]))
    for chunk in chosen:
        chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": _flipped(chunk["data"], rng)}})
    try:
        yield f"{len(chosen)} contents in the store changed by a byte"
    finally:
        for chunk in chosen:
            chunks.update_one({"_id": chunk["_id"]}, {"$set": {"data": chunk["data"]}})


@contextmanager
def corrupted_in_cache(joined: Joined, host: JoinedHost, rng: random.Random) -> Iterator[str]:
    """A byte of each file that it fetched is another."""
    files = [path for path in (host.home / FETCHED).rglob("*") if path.is_file() and path.stat().st_size]
    changed = 0
    for path in files:
        with suppress(OSError):
            path.chmod(0o600)
            path.write_bytes(_flipped(path.read_bytes(), rng))
            changed += 1
    yield f"{changed} fetched files of {host.name} changed by a byte"


def _flipped(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def missing(name: str) -> str | None:
    """Why a fault can't be done here."""
    if name == "clock steps" and not FAKETIME.is_file():
        return "needs libfaketime (Debian's package libfaketime)"
    if name == "packets lost" and shutil.which("iptables") is None:
        return "needs iptables"
    return None


FAULTS: dict[str, Fault] = {
    "link down 5 s": partial(link_down, 5),
    "link down 30 s": partial(link_down, 30),
    "link down 120 s": partial(link_down, 120),
    "host killed": host_killed,
    "leader killed": leader_killed,
    "lease expired": fenced,
    "packets lost": loss,
    "clock steps": clock_steps,
    "disk full": disk_full,
    "store corrupted": corrupted_in_store,
    "cache corrupted": corrupted_in_cache,
}
