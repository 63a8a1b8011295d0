"""What waits for devices, on the home page."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.provider.ui import home


class NoRuns:
    """A PerfDB in which nothing runs."""

    def find_runs(self, *_: Any, **__: Any) -> list[Any]:
        return []


def test_a_job_that_fits_on_two_types_is_work_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the queues of both types, with its 300 s in each: 300 s of work wait, and not 600."""
    queues = [
        {"device_type": name, "waiting": 1, "expected_s": 300.0, "devices": 1} for name in ("t4", "v100")
    ]
    waiting = [{"job": "one", "device_types": ["t4", "v100"], "expected_s": 300.0}]
    cluster = {"devices": [], "queues": queues, "waiting": waiting, "running": [], "coming": []}
    monkeypatch.setattr(home, "cluster_now", lambda db: cluster)
    monkeypatch.setattr(home, "regression_now", lambda db: {"series": []})
    monkeypatch.setattr(home, "last_verdicts", lambda db: [])
    db: Any = NoRuns()
    assert home.home_part(db)["queued_s"] == 300.0
