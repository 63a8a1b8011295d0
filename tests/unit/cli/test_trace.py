"""``inferbench trace sources``: what tells of which level here, and what helps where nothing does."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from inferbench_tasks.cli.trace import app
from inferbench_tasks.monitors import perf_events, perf_samples
from inferbench_tasks.monitors.gpu import GpuMonitor
from inferbench_tasks.servers.sources import gpu_work
from inferbench_tasks.tracing.spans import LEVELS


def rows() -> list[dict[str, Any]]:
    """As the command lists them."""
    result = CliRunner().invoke(app, ["sources", "-o", "json"], catch_exceptions=False)
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_every_level_has_its_sources_and_what_is_missing_its_reason() -> None:
    """Those that are here have no reason, the others one in words."""
    found = rows()
    assert {row["level"] for row in found} == {*LEVELS, "hardware"}
    assert all(bool(row["why_not"]) != row["here"] and row["tells"] for row in found)
    known = {row["source"]: row["here"] for row in found if row["level"] == "hardware"}
    assert known["thread_use"] and known["process_use"] and "perf_counters" in known
    assert {"triton", "mlserver"} <= {row["of"] for row in found if row["level"] == "model"}


def test_what_tells_of_gpus_says_what_helps_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kernels by PyTorch's profiler and ONNX Runtime's, memory and power by NVML: each names what is missing."""
    monkeypatch.setattr(gpu_work, "_DRIVER", tmp_path / "none")
    monkeypatch.setattr(GpuMonitor, "unavailable", classmethod(lambda cls, target: "NVML: no library"))
    found = {row["source"]: row for row in rows() if "on a GPU" in row["of"]}
    assert set(found) == {"torch_profiler", "onnxruntime_profile", "nvml"}
    for row in found.values():
        assert (row["level"], row["here"]) == ("hardware", False)
        assert "it takes a worker with a GPU" in row["why_not"]


def test_where_no_samples_are_taken_the_level_of_samples_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's layers are told by its profile, what they ran by samples of the process alone."""
    monkeypatch.setattr(perf_samples, "unavailable", lambda: "kernel.perf_event_paranoid is 3")
    found = {row["level"]: row for row in rows() if row["source"] == "onnxruntime_profile"}
    assert not found["library"]["here"] and "paranoid is 3" in found["library"]["why_not"]
    assert found["layer"]["why_not"] != found["library"]["why_not"]


def test_a_machine_without_a_pmu_says_so_and_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel knows of no counters; where it has them the source is here."""

    def refused(event: perf_events.Event) -> int:
        raise OSError(errno.ENOENT, "No such file or directory")

    def counters() -> dict[str, Any]:
        (row,) = (row for row in rows() if row["source"] == "perf_counters")
        return row

    monkeypatch.setattr(perf_events, "_open", refused)
    assert (
        not counters()["here"]
        and "no PMU" in counters()["why_not"]
        and "use the host" in counters()["why_not"]
    )
    monkeypatch.setattr(perf_events, "opened", lambda events: {})
    assert counters()["here"]
