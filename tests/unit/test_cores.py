"""Cores that a container is granted, by files as cgroups have them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from inferbench_tasks import cores
from inferbench_tasks.errors import InputError
from inferbench_tasks.workers import devices
from tests.load_servers import endpoint, load_plan


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight cores, and an empty tree of cgroups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(cores, "_CGROUPS", tmp_path)
    monkeypatch.setattr(cores, "_OWN", tmp_path / "own")
    return tmp_path


def put(folder: Path, own: str, **files: str) -> None:
    """``own``: the text of /proc/self/cgroup; files by their path, ``/`` written as ``__``."""
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "limit", "usable"),
    [
        ("0::/\n", {}, None, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None, 8),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2.0, 2),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 64.0, 8),
        ("0::/a/b\n", {"a__cpu.max": "300000 100000", "a__b__cpu.max": "max 100000"}, 3.0, 3),
        ("0::/a/b\n", {"a__cpu.max": "300000 100000", "a__b__cpu.max": "150000 100000"}, 1.5, 1),
        ("0::/../c\n", {"cpu.max": "400000 100000"}, 4.0, 4),
        ("3:cpuset:/\n1:cpu,cpuacct:/\n0::/\n",
         {"cpu__cpu.cfs_quota_us": "-1", "cpu__cpu.cfs_period_us": "100000"}, None, 8),
        ("1:cpu,cpuacct:/docker/x\n0::/\n",
         {"cpu__cpu.cfs_quota_us": "300000", "cpu__cpu.cfs_period_us": "100000"}, 3.0, 3),
        ("1:cpu,cpuacct:/docker/x\n",
         {"cpu,cpuacct__docker__x__cpu.cfs_quota_us": "200000", "cpu,cpuacct__docker__x__cpu.cfs_period_us": "100000"},
         2.0, 2),
        ("", {"cpu.max": "200000 100000"}, 2.0, 2),
        ("0::/\n", {"cpu.max": "nonsense"}, None, 8),
    ],
)  # fmt: skip
def test_a_quota_is_cores(
    machine: Path, own: str, files: dict[str, str], limit: float | None, usable: int
) -> None:
    """Quota over period, the smallest on the way up, in both versions; whole cores, one at least, and no more than may
    be run on.
    """
    put(machine, own, **files)
    assert (cores.cpu_limit_cores(), cores.usable_cores()) == (limit, usable)
    assert cores.granted() == list(range(usable))


def test_devices_are_made_of_what_is_granted(machine: Path) -> None:
    """Of a quota of 4 on 8 cores: one for the system, three for a worker; no fifth worker, no device of 5 cores, and no
    two devices of 5 together.
    """
    put(machine, "0::/\n", **{"cpu.max": "400000 100000"})
    assert devices.partitions(1) == ["cpu:1-3"]
    assert devices.find("cpu").cores == (0, 1, 2, 3)
    assert devices.find("cpu:4-7").cores == (4, 5, 6, 7)
    with pytest.raises(InputError, match=r"this machine has 4 core\(s\)"):
        devices.partitions(5)
    with pytest.raises(InputError, match="5 cores, and a CPU quota grants 4"):
        devices.find("cpu:0-4")
    assert devices.chosen(["cpu:0-1", "cpu:2-3"]) == ["cpu:0-1", "cpu:2-3"]
    with pytest.raises(InputError, match="5 cores together, and a CPU quota grants 4"):
        devices.chosen(["cpu:0-1", "cpu:2-4"])


def test_a_gpu_has_the_cores_that_are_granted(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quota of 2 on 8 cores two, and none is spare for the rest of the system: it would use up the same quota.
    (On a FAKE driver.)
    """
    put(machine, "0::/\n", **{"cpu.max": "200000 100000"})
    fake = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetName=lambda handle: "NVIDIA H100 80GB HBM3",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=1 << 36),
        nvmlSystemGetDriverVersion=lambda: "550.54",
        nvmlDeviceGetUUID=lambda handle: "GPU-aaa",
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    device = devices.find("gpu:0")
    assert device.cores == (0, 1) and device.device_type == "h100"
    assert devices.spare_cores([device]) == []


def test_senders_leave_half_of_what_is_granted(machine: Path, tmp_path: Path) -> None:
    """A rate for five senders: on 8 cores four, within a quota of 4 two, within one of 1 one."""
    arrivals = {"kind": "constant", "rate_rps": 40_000}
    for quota, shards in (("max", 4), ("400000", 2), ("100000", 1)):
        put(machine, "0::/\n", **{"cpu.max": f"{quota} 100000"})
        assert load_plan(tmp_path, endpoint("http", 1), arrivals=arrivals).shards == shards
