"""Networks that killed runs left."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from inferbench_tasks.networks import netem
from inferbench_tasks.upkeep.clean import networks_left

_HOLDS = """
import sys, time
from inferbench_tasks.networks import netem
from inferbench_tasks.networks.network import Network
netem.qdisc = lambda network, mbit_s: ["pfifo", "limit", "1000"]
with netem.namespace(Network(name="x", latency_ms=1, source="s", date="2024")) as path:
    print(path.name, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_leaves_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace with both interfaces; nothing while the process lives."""
    monkeypatch.setattr(netem, "qdisc", lambda network, mbit_s: ["pfifo", "limit", "1000"])
    netem.unavailable.cache_clear()
    try:
        if reason := netem.unavailable():
            pytest.skip(f"no network namespace can be made here: {reason}")
    finally:
        netem.unavailable.cache_clear()
    with subprocess.Popen([sys.executable, "-c", _HOLDS], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            name = holder.stdout.readline().strip()
            interface = f"ibh{name.split('-')[1]}"
            assert name not in netem.left_behind() and interface in os.listdir("/sys/class/net")
        finally:
            holder.kill()
    assert name in netem.left_behind()
    (dry,) = [each for each in networks_left(time.time(), dry_run=True) if each.path.name == name]
    assert dry.reason == "the run that made it was killed" and name in netem.left_behind()
    (done,) = [each for each in networks_left(time.time(), dry_run=False) if each.path.name == name]
    assert (
        done.kept == ""
        and not (netem.NAMED / name).exists()
        and interface not in os.listdir("/sys/class/net")
    )
