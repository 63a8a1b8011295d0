"""Whether a device is fit for a measurement."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError
from inferbench_tasks.workers import checks

CPU = Device(device_id="d", device_type="cpu", name="c", host="h", cores=(1, 2))
HERE = Path("/")


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However full this machine's disk is."""
    monkeypatch.setenv(settings.MAX_DISK_PERCENT, "100")


def _busy(monkeypatch: pytest.MonkeyPatch, shares: list[float]) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda percpu: [100 * s for s in shares])


def test_only_its_own_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy core that is not the device's does not matter; a busy one of its own does."""
    monkeypatch.delenv(checks.BUSY, raising=False)
    _busy(monkeypatch, [1.0, 0.1, 0.2, 1.0])
    check = checks.Check(CPU, HERE)
    assert check() == ""
    _busy(monkeypatch, [0.0, 1.0, 0.9, 0.0])
    assert check() == "others use 95% of its core(s) (at most 80%)"


def test_the_bound_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment; nonsense there is refused."""
    _busy(monkeypatch, [0.0, 1.0, 0.9, 0.0])
    monkeypatch.setenv(checks.BUSY, "1")
    assert checks.Check(CPU, HERE)() == ""
    monkeypatch.setenv(checks.BUSY, "much")
    with pytest.raises(InputError, match=checks.BUSY):
        checks.Check(CPU, HERE)


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said with both figures."""
    _busy(monkeypatch, [0.0] * 4)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=100e6))
    assert checks.Check(CPU, HERE)() == "only 100 MB of memory are free, 268 are needed"


def test_a_full_disk_of_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bound of the leader's own, with what is full and the remedy; fit again once there is room."""
    _busy(monkeypatch, [0.0] * 4)
    monkeypatch.delenv(settings.MAX_DISK_PERCENT)
    asked: list[Path] = []

    def disk(free: int) -> None:
        sizes = SimpleNamespace(f_blocks=100, f_bfree=free, f_bavail=free, f_frsize=2**20)

        def statvfs(path: Path) -> SimpleNamespace:
            asked.append(path)
            return sizes

        monkeypatch.setattr(os, "statvfs", statvfs)

    disk(6)
    check = checks.Check(CPU, tmp_path)
    assert check() == ""
    disk(5)
    assert check().startswith(
        f"The file system of {tmp_path} is 95% full, with 5 MB free; from 95% on nothing new"
    )
    disk(6)
    assert check() == "" and set(asked) == {tmp_path}
    monkeypatch.setenv(settings.MAX_DISK_PERCENT, "much")
    with pytest.raises(InputError, match=settings.MAX_DISK_PERCENT):
        checks.Check(CPU, tmp_path)


class FakeNvml:
    """Stands for NVML where there is no GPU: answers what the test says."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=5e8),
            "nvmlDeviceGetCurrentClocksEventReasons": 0,
            "nvmlDeviceGetTotalEccErrors": 0,
        } | answers

    def __getattr__(self, name: str) -> Any:
        answer = self.answers[name]

        def ask(*arguments: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ({}, ""),
        (
            {"nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=77)]},
            "foreign process(es) on the GPU: 77",
        ),
        (
            {"nvmlDeviceGetMemoryInfo": SimpleNamespace(used=8e9)},
            "8.0 GB of the GPU's memory are taken",
        ),
        (
            {"nvmlDeviceGetCurrentClocksEventReasons": 0x40},
            "the GPU is held back: hardware thermal slow-down",
        ),
        ({"nvmlDeviceGetCurrentClocksEventReasons": 0x4}, ""),
        ({"nvmlDeviceGetTotalEccErrors": 3}, "3 uncorrected ECC error(s) since the driver was loaded"),
        ({"nvmlDeviceGetTotalEccErrors": RuntimeError("Not Supported")}, ""),
    ],
)
def test_what_is_wrong_with_a_gpu(answers: dict[str, Any], fault: str) -> None:
    """A foreign process, memory, throttling, ECC: each is named; a power cap and a board without ECC are normal."""
    assert checks.gpu_fault(FakeNvml(**answers), object()) == fault


def test_an_unknown_error_of_nvml_is_not_swallowed() -> None:
    """It would hide a sick device."""
    with pytest.raises(RuntimeError, match="lost"):
        checks.gpu_fault(FakeNvml(nvmlDeviceGetTotalEccErrors=RuntimeError("GPU is lost")), object())
