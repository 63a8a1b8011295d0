"""Why jobs wait, for many of them."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.cluster import waiting
from inferbench_tasks.cluster.device import Lease
from inferbench_tasks.cluster.waiting import LISTED, waiting_jobs, why
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import DEFAULT_POLICY, POLICIES
from tests.schedulers import device, job


def test_jobs_that_ask_for_the_same_have_their_reason_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of each is what it is alone, by its place; the devices are gone through once for jobs alike."""
    lease = Lease(job="dag|x|000", token=1, nonce="n", granted_s=1.0, est_end_s=2060.0, state="confirmed")
    devices = {name: device(name, lease=lease) for name in ("a", "b")} | {
        "q": device("q", device_type="t4", health="quarantined", reason="hot")
    }
    index = POLICIES.load(DEFAULT_POLICY)().new_index()
    kinds: list[dict[str, Any]] = [
        {},
        {"n_devices": 3},
        {"device_types": frozenset({"t4"})},
        {"avoid": frozenset({"a", "b"})},
    ]
    for number in range(LISTED + 40):
        index.apply(ev.Submitted(1.0, job(f"j{number}", 1.0 + number, **kinds[number % 4])))
    rows, total = waiting_jobs(index, devices, 2000.0)
    assert total == LISTED + 40 and len(rows) == LISTED
    specs = {entry.spec.job_id: entry.spec for entry in index.jobs.values()}
    assert [row["why"] for row in rows] == [
        why(specs[row["job"]], place, devices, 2000.0) for place, row in enumerate(rows)
    ]
    assert len({row["why"] for row in rows if "come first" not in row["why"]}) == 4
    looks: list[str] = []
    kept_by = waiting._kept_by

    def counted(spec: QueuedJob, *of: Any) -> Any:
        looks.append(spec.job_id)
        return kept_by(spec, *of)

    monkeypatch.setattr(waiting, "_kept_by", counted)
    assert waiting_jobs(index, devices, 2000.0)[0] == rows
    assert len(looks) == len(kinds)
