"""What a worker tells of its machine."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any

from inferbench_tasks.cores import usable_cores
from inferbench_tasks.workers.host_facts import facts, interfaces


def state(*, isup: bool = True, speed: int = 0, flags: str = "up,broadcast,running") -> Any:
    return SimpleNamespace(isup=isup, speed=speed, mtu=1500, flags=flags)


def address(family: int, text: str) -> Any:
    return SimpleNamespace(family=family, address=text)


def test_links_are_those_that_carry_something() -> None:
    """Up, with an address, no loopback; a speed that a driver does not know is none, and no 0 Mbit/s."""
    stats = {
        "eth0": state(speed=1000), "wlan0": state(), "virt": state(speed=65535), "down0": state(isup=False, speed=1000),
        "bare": state(speed=1000), "lo": state(flags="up,loopback,running"),
    }  # fmt: skip
    v4 = [address(socket.AF_INET, "10.0.0.1")]
    addresses = dict.fromkeys(("wlan0", "virt", "down0", "lo"), v4) | {
        "eth0": [
            *v4,
            address(socket.AF_INET6, "fe80::1%eth0"),
            address(socket.AF_PACKET, "00:11:22:33:44:55"),
        ]
    }
    found = {i.name: i for i in interfaces(stats, addresses)}
    assert list(found) == ["eth0", "virt", "wlan0"]
    assert (found["eth0"].addresses, found["eth0"].speed_mbit_s) == (["10.0.0.1", "fe80::1"], 1000)
    assert found["wlan0"].speed_mbit_s is None and found["virt"].speed_mbit_s is None


def test_this_machine_s_facts() -> None:
    """As the system tells them."""
    found = facts()
    assert found.host == socket.gethostname() and found.cores_usable == usable_cores()
    assert found.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found.gpus or found.gpus_unknown or found.gpus == []
