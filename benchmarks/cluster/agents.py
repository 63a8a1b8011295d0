"""Simulated agents: each speaks to PerfDB as a device's worker does, by the worker's own code, and has no device.

``python -m benchmarks.cluster.agents FIRST COUNT``: so many of them in one process, until SIGTERM; then a line of
JSON. They say what they are: ids ``simulated-0001``, names ``simulated agent``, hosts ``simulated-host-01``.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from inferbench_tasks import settings
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.workers.agent import POLL_S, Agent

#: Devices of one host.
PER_HOST = 8


def device(number: int) -> Device:
    """What a simulated agent registers."""
    return Device(
        device_id=f"simulated-{number:04d}",
        device_type="cpu",
        name="simulated agent",
        host=f"simulated-host-{number // PER_HOST:03d}",
    )


class SimulatedAgent(Agent):
    """Registers, beats, looks for a lease and answers it; nothing is started, checked or ended."""

    def __init__(self, number: int, cluster: Cluster) -> None:
        super().__init__(device(number), cluster, [], Path("/nonexistent"))

    def begin(self) -> None:
        """Enter the device."""
        self.cluster.register(self.device)

    def look(self) -> None:
        """What a worker does five times a second."""
        self._serve()

    def _look(self, now: float, accused: str = "") -> None:
        pass

    def _child_ready(self) -> bool:
        return True

    def _sweep(self) -> None:
        pass


def main(first: int, count: int) -> None:
    """Rounds over all of them, ``POLL_S`` apart, or as fast as this machine lets them."""
    going = True

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, stop)
    cluster = Cluster(PerfDB.connect(settings.perfdb_uri(), Path("/nonexistent")))
    agents = [SimulatedAgent(number, cluster) for number in range(first, first + count)]
    for agent in agents:
        agent.begin()
    print("ready", flush=True)
    rounds, began = 0, time.monotonic()
    while going:
        start = time.monotonic()
        for agent in agents:
            agent.look()
            if not going:
                break
        rounds += 1
        time.sleep(max(0.0, POLL_S - (time.monotonic() - start)))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = time.monotonic() - began
    cores = (usage.ru_utime + usage.ru_stime) / seconds
    print(json.dumps({"look_every_s": seconds / max(1, rounds), "cores": cores}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
