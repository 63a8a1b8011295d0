"""A leader and hosts that joined it, on one machine: each host a network namespace with an address, a name, a clock,
cores and a data directory of its own, all of them on one switch.
Workers join by a token, through the leader's gateway alone.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.background import NICE
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.errors import InputError
from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.provider.joining.listening import Listening, listening
from inferbench_tasks.provider.system.local import LocalSystem, free_port
from inferbench_tasks.workers.checks import BUSY
from tests.local_system import ROOT, Driver
from tests.namespaces import AHEAD_S, missing

CLI = [sys.executable, "-m", "inferbench_tasks.cli.main"]


@dataclass
class JoinedHost:
    """``outer`` is the switch's end of its cable. ``preload``: variables that its processes get beside their own."""

    name: str
    address: str
    namespace: str
    outer: str
    home: Path
    device: str
    url: str
    token: Path
    preload: dict[str, str] = field(default_factory=dict)
    worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Its worker joins, as its user has it join: by the leader's address and a file with a token."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        env.pop(settings.PERFDB_URI, None)
        env |= {
            settings.DATA_DIR: str(self.home), settings.ONE_MACHINE_AS_HOSTS: "1", "PYTHONPATH": str(ROOT),
            **self.preload,
        }  # fmt: skip
        serve = [*CLI, "worker", "--join", self.url, "--token", str(self.token), "--device", self.device]
        there = [
            "ip",
            "netns",
            "exec",
            self.namespace,
            "unshare",
            "--uts",
            "--time",
            "--monotonic",
            str(AHEAD_S),
            "--fork",
        ]
        named = ["sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        with self._log() as log:
            self.worker = subprocess.Popen(
                [*there, "--kill-child", *named, *serve], env=env, stdout=log, stderr=log, cwd=self.home
            )

    def pids(self) -> list[int]:
        """All that runs in its namespace."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in found.stdout.split()]

    def signal(self, number: int) -> None:
        """To all that runs there."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """The host is gone: everything on it, at once."""
        while self.pids():
            self.signal(signal.SIGKILL)
            if self.worker is not None:
                self.worker.wait(timeout=60)

    def stop(self) -> None:
        """Its worker ends as its user ends it; what does not is killed."""
        if self.worker is not None and self.worker.poll() is None:
            for child in psutil.Process(self.worker.pid).children():
                child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.worker.wait(timeout=60)
        self.kill()

    def plugged(self, yes: bool) -> None:
        """Whether its cable is in the switch."""
        run("ip", "link", "set", self.outer, "up" if yes else "down")

    def said(self) -> str:
        """The end of what its worker wrote."""
        return (self.home / "worker.log").read_text(errors="replace")[-3000:]

    def _log(self) -> IO[bytes]:
        return open(self.home / "worker.log", "ab")


@dataclass
class Joined:
    """The leader is ``driver.system``."""

    driver: Driver
    hosts: list[JoinedHost]
    base: Path
    gateway: Listening

    def ready(self, *hosts: JoinedHost, timeout_s: float = 180) -> None:
        """Wait until the scheduler would give each of these a job."""
        cluster = Cluster(self.driver.db)

        def serving() -> set[str]:
            return {d.home for d in cluster.devices() if d.present(TTL_S) and d.health == "ok"}

        wanted = {settings.home_id(host.home) for host in hosts or self.hosts}
        self.driver.until(
            lambda: wanted <= serving(),
            lambda: "\n".join(host.said() for host in hosts or self.hosts),
            timeout_s,
        )

    def start_leader(self) -> None:
        """The whole system, from what its data directory holds."""
        self.driver.system.up(
            dags=ROOT / "dags", submissions=self.base / "submissions", port=None, say=print, workers=[],
            gateway=self.gateway,
        )  # fmt: skip


@contextmanager
def joined_hosts(base: Path, names: Sequence[str], write: Callable[[Path], object]) -> Iterator[Joined]:
    """A leader and hosts of these names whose workers serve; skips, with the reason, where none can be made. ``write``
    puts submissions into its folder. Nothing of it is left afterwards.
    """
    if reason := missing():
        pytest.skip(reason)
    folder, cores = base / "submissions", sorted(os.sched_getaffinity(0))
    folder.mkdir()
    write(folder)
    with switch(len(names)) as (near, cables), pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.DATA_DIR, str(base / "leader"))
        patch.delenv(settings.PERFDB_URI, raising=False)
        for name, value in {MODE: "note", BUSY: "2", NICE: "0", settings.ONE_MACHINE_AS_HOSTS: "1"}.items():
            patch.setenv(name, value)
        system, gateway = LocalSystem(base / "leader"), four_ports(near)
        hosts: list[JoinedHost] = []
        system.up(dags=ROOT / "dags", submissions=folder, port=None, say=print, workers=[], gateway=gateway)
        try:
            driver = Driver(system)
            for at, (name, cable) in enumerate(zip(names, cables, strict=True)):
                home, token = base / name, base / f"{name}.token"
                home.mkdir(exist_ok=True)
                subprocess.run(
                    [*CLI, "tokens", "create", name, "--to", str(token)], check=True, stdout=subprocess.PIPE
                )
                device = f"cpu:{cores[at % len(cores)]}"
                hosts.append(JoinedHost(name, *cable, home, device, gateway.url, token))
                hosts[-1].start()
            joined = Joined(driver, hosts, base, gateway)
            joined.ready()
            yield joined
            joined.driver.close()
        finally:
            for host in hosts:
                host.signal(signal.SIGCONT)
                host.plugged(True)
                host.stop()
            system.down(say=print)


@contextmanager
def switch(ports: int) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A bridge with this machine's address on it, and for each port address, namespace and the switch's end."""
    tag = secrets.token_hex(2)
    # Of the range for tests of network devices (RFC 2544): no machine's own.
    network = f"198.{18 + secrets.randbelow(2)}.{secrets.randbelow(256)}"
    bridge, near = f"ibb{tag}", f"{network}.1"
    cables = [(f"{network}.{10 + at}", f"ib-{tag}-{at}", f"ibv{tag}{at}") for at in range(ports)]
    try:
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "addr", "add", f"{near}/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
        for address, namespace, outer in cables:
            run("ip", "netns", "add", namespace)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            run("ip", "link", "set", outer, "master", bridge, "up")
            run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", namespace, "link", "set", "eth0", "up")
            run("ip", "-n", namespace, "link", "set", "lo", "up")
        yield near, cables
    finally:
        for _, namespace, outer in cables:
            for command in (("ip", "link", "del", outer), ("ip", "netns", "del", namespace)):
                subprocess.run(command, capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)


def four_ports(address: str) -> Listening:
    """Four free ports of it in a row."""
    for attempt in range(20):
        try:
            return listening(f"{address}:{free_port()}")
        except InputError:
            if attempt == 19:
                raise
    raise AssertionError


def run(*command: str) -> str:
    """What it writes; skips where the system has no such thing."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no hosts of namespaces: `{' '.join(command)}`: {(done.stderr or done.stdout).strip()}")
    return done.stdout
