"""How long a login has had devices."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from inferbench_tasks.provider.submit.device_time import _left_at, devices_of, leases


def run(
    *stages: tuple[str, float, float | None], status: str = "done", ended: float = 99.0
) -> dict[str, Any]:
    """A run's document, of stages that began and ended at these seconds."""

    def at(seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC)

    return {
        "job": {"kind": "serving"},
        "status": status,
        "updated_at": at(ended),
        "ended_at": at(ended) if status != "running" else None,
        "stages": [
            {"stage": name, "started_at": at(start), "ended_at": None if end is None else at(end)}
            for name, start, end in stages
        ],
    }


def test_a_lease_lasts_from_serve_to_release() -> None:
    """What is done without a device does not count; a lease that was lost and taken again is two, and what the job
    waited between them is no time of a device."""
    once = [("generate", 0, 5), ("serve", 5, 6), ("load", 6, 20), ("collect", 20, 21), ("release", 20, 21)]
    assert leases(run(*once), 1000.0) == [(5, 21)]
    assert leases(run(*once[:3], *[("serve", 50, 51), ("load", 51, 60), ("release", 60, 61)]), 1000.0) == [
        (5, 20),
        (50, 61),
    ]
    assert leases(run(("generate", 0, 5)), 1000.0) == []
    lost = [("serve", 5, 6), ("standby", 6, 8), ("standby_2", 8, 9)]
    assert leases(run(*lost, ("serve", 50, 51), ("release", 60, 61)), 1000.0) == [(5, 9), (50, 61)]
    assert leases({**run(*once), "job": {"kind": "not-installed"}}, 1000.0) == []


def test_a_lease_without_its_end_lasts_until_the_run_ended_or_until_now() -> None:
    """A job that runs counts as long as it has run."""
    begun = [("serve", 5, 6), ("load", 6, None)]
    assert leases(run(*begun, status="running"), 1000.0) == [(5, 1000)]
    assert leases(run(*begun, status="failed"), 1000.0) == [(5, 99)]


def test_a_job_of_several_devices_uses_the_time_of_each() -> None:
    """As its document says; one of before the field, or of a kind without, has one."""
    training = {"kind": "training", "devices": {"count": 3}}
    assert devices_of({"job": training}) == 3
    assert devices_of({"job": {"kind": "training", "devices": {"processes": 4}}}) == 1
    assert devices_of({"job": {"kind": "serving"}}) == 1


def test_when_enough_of_it_is_past() -> None:
    """Of leases on two devices at once each second counts twice."""
    spans = [(0.0, 10.0), (5.0, 10.0), (20.0, 30.0)]
    assert _left_at(spans, 5) == 5
    assert _left_at(spans, 9) == pytest.approx(7)
    assert _left_at(spans, 15) == 10
    assert _left_at(spans, 16) == pytest.approx(21)
    assert _left_at(spans, 25) == 30
