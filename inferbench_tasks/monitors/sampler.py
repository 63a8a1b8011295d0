"""The sampler: a small process that reads all monitors until its standard input closes.

``python -m inferbench_tasks.monitors.sampler CONFIG`` where CONFIG is JSON. One line of JSON per sample goes
into the spool file; standard input closes when the session ends, and when its process dies. Standard output ends when
all monitors have been read once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import dataclass
from typing import Any

import orjson

from inferbench_tasks.monitors.base import MONITORS, ROUNDS_PER_RATE, Monitor, Target

_FLUSH_S = 1.0


@dataclass
class _Watch:
    monitor: Monitor
    interval_ns: int
    due_ns: int
    samples: int = 0


def sample_until_closed(config: dict[str, Any]) -> None:
    """Read each monitor at its own interval; write what it says with the time of its reading."""
    target = Target(
        **{**config["target"], "exporters": tuple(tuple(pair) for pair in config["target"]["exporters"])}
    )
    wanted_ns = int(config["interval_s"] * 1e9)
    unavailable: dict[str, str] = {}
    watches: list[_Watch] = []
    now_ns = time.monotonic_ns()
    for kind in config["kinds"]:
        plug = MONITORS.load(kind)
        reason = plug.unavailable(target)
        if reason:
            unavailable[kind] = reason
        else:
            own_ns = int(plug.interval_s * 1e9)
            watches.append(_Watch(plug(target), own_ns if plug.fine else max(wanted_ns, own_ns), now_ns))
    poller = select.poll()
    poller.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    rounds, cpu_ns, last_flush_ns = 0, time.process_time_ns(), now_ns
    started_ns, started_cpu_ns = now_ns, cpu_ns
    with open(config["spool"], "wb") as spool:
        side = {} if target.side == "both" else {"side": target.side}
        spool.write(_line({"unavailable": unavailable, **side}))
        spool.flush()
        while True:
            due_ns = min((watch.due_ns for watch in watches), default=time.monotonic_ns() + wanted_ns)
            wait_ms = max(0.0, (due_ns - time.monotonic_ns()) / 1e6)
            if poller.poll(wait_ms):
                break
            now_ns = time.monotonic_ns()
            for watch in watches:
                if watch.due_ns > now_ns:
                    continue
                values = watch.monitor.sample()
                if values:
                    spool.write(_line([time.monotonic_ns(), watch.monitor.source, values]))
                # Never later than the next multiple: a slow reading doesn't shift the others.
                gaps = (now_ns - watch.due_ns) // watch.interval_ns
                watch.due_ns += (gaps + 1) * watch.interval_ns
                watch.samples += 1
                if watch.samples % ROUNDS_PER_RATE == 0:
                    watch.interval_ns *= 2
            if not rounds:
                # Who started this waits for the end of its standard output.
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            rounds += 1
            if now_ns - last_flush_ns >= _FLUSH_S * 1e9:
                used_ns = time.process_time_ns()
                share = (used_ns - cpu_ns) / max(1, now_ns - last_flush_ns)
                spool.write(_line([now_ns, "monitor", {"cpu_cores": share}]))
                spool.flush()
                cpu_ns, last_flush_ns = used_ns, now_ns
        ended_ns = time.monotonic_ns()
        share = (time.process_time_ns() - started_cpu_ns) / max(1, ended_ns - started_ns)
        spool.write(_line({"cpu_cores": share, "rounds": rounds}))
    for watch in watches:
        watch.monitor.close()


def _line(entry: Any) -> bytes:
    return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    sample_until_closed(json.loads(sys.argv[1]))
