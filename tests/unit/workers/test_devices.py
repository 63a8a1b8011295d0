"""Finding this machine's devices."""

from __future__ import annotations

import os
from typing import Any

import pytest

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError
from inferbench_tasks.workers import devices
from inferbench_tasks.workers.agent import gpu_environment


def test_a_cpu_partition_names_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """``cpu:1-2`` is a device pinned to these cores, whose id is fit for a queue's name."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr("socket.gethostname", lambda: "Node_7.example.org")
    found = devices.find("cpu:1-2")
    assert (found.device_id, found.device_type, found.cores) == ("Node-7.cpu-1-2", "cpu", (1, 2))
    assert found.capabilities["cores"] == 2 and found.memory_bytes > 0 and found.name
    assert devices.find("cpu").cores == (0, 1, 2, 3)
    assert devices.find("cpu:3").device_id == "Node-7.cpu-3"


@pytest.mark.parametrize("text", ["cpu:9", "cpu:2-1", "cpu:x", "tpu", "", "cpu:0,1"])
def test_what_is_not_there_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that may not be used here, or no device at all: an error that says what is allowed."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(InputError, match="--device"):
        devices.find(text)


def test_a_gpu_without_a_driver_is_refused() -> None:
    """The message names the driver or the extra, whichever is missing."""
    pytest.importorskip("pynvml")
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        with pytest.raises(InputError, match="no NVIDIA driver"):
            devices.find("gpu:0")
    else:
        assert devices.find("gpu:0").gpu_index == 0


@pytest.mark.parametrize(
    ("about", "seen"),
    [
        ({"gpu_index": 1, "capabilities": {"uuid": "GPU-bbb"}}, "GPU-bbb"),
        ({"gpu_index": 1}, "1"),
        ({}, ""),
    ],
)
def test_a_worker_s_jobs_see_its_gpu_alone(about: dict[str, Any], seen: str) -> None:
    """By its UUID; else by its index, counted as NVML does; a CPU's jobs see none."""
    device = Device(device_id="h.gpu-1", device_type="t4", name="Tesla T4", host="h", **about)
    assert gpu_environment(device) == {"CUDA_VISIBLE_DEVICES": seen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("cores", "workers", "expected"),
    [
        (1, 1, ["cpu:0"]),
        (2, 1, ["cpu:1"]),
        (2, 2, ["cpu:0", "cpu:1"]),
        (4, 2, ["cpu:1", "cpu:2"]),
        (8, 3, ["cpu:1-2", "cpu:3-4", "cpu:5-6"]),
    ],
)
def test_workers_get_cores_of_their_own(
    cores: int, workers: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No core twice; one is left for the system where that is possible."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert devices.partitions(workers) == expected


def test_more_workers_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two on one core would measure each other."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(InputError, match=r"2 core\(s\)"):
        devices.partitions(3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Tesla T4", "t4"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm4-40gb"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H200", "h200"),
    ],
)
def test_a_gpu_s_type_is_what_a_submission_writes(name: str, expected: str) -> None:
    """``gpu:t4`` is a Tesla T4."""
    assert devices.gpu_type(name) == expected


def test_the_rest_of_the_system_gets_the_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no device has is for Airflow; nothing, where the devices have all."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    found = [devices.find(text) for text in devices.partitions(3)]
    assert devices.spare_cores(found) == [0]
    assert devices.spare_cores([devices.find(text) for text in devices.partitions(4)]) == []
    assert devices.spare_cores([devices.find("cpu:1"), devices.find("cpu:2")]) == [0, 3]


def test_auto_is_the_gpus_or_else_the_cores_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs alone where there are some: a CPU device would run on the cores that feed them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(devices, "gpu_count", lambda: 0)
    assert devices.chosen(["auto"]) == ["cpu:1-3"]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5})
    assert devices.chosen(["auto"]) == ["cpu:5"]
    monkeypatch.setattr(devices, "gpu_count", lambda: 2)
    assert devices.chosen(["auto"]) == ["gpu:0", "gpu:1"]
    with pytest.raises(InputError, match="name no other beside it"):
        devices.chosen(["auto", "cpu"])


def test_two_devices_have_no_core_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one of them served twice."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert devices.chosen(["cpu:0-1", "cpu:2-3"]) == ["cpu:0-1", "cpu:2-3"]
    for second in ("cpu:1-2", "cpu:0-1", "cpu"):
        with pytest.raises(InputError, match="shares cores with 'cpu:0-1'"):
            devices.chosen(["cpu:0-1", second])
