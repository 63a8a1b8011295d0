"""What a night writes under: the lease of its device, handed on by its tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import LeaseLostError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.running.fence import Fence, Holding

pytestmark = pytest.mark.airflow
LEASE = HeldLease(("a.cpu-0",), "nonce")
DB = SimpleNamespace(now=lambda: None)


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[Fence]:
    """The fences that were entered by a worker of the device; its job holds it."""
    fences: list[Fence] = []

    def enter(self: Fence, db: PerfDB) -> Holding:
        fences.append(self)
        return Holding(1, (), LEASE.device_ids, nonce=LEASE.nonce)

    monkeypatch.setattr(PerfDB, "connect", lambda uri, data_dir: nullcontext(DB))
    monkeypatch.setattr(Fence, "enter", enter)
    monkeypatch.setenv(settings.WORKER, "a.cpu-0")
    return fences


def context() -> dict[str, Any]:
    pushed: list[Any] = []
    ti = SimpleNamespace(dag_id="nightly.digits", run_id="r", xcom_push=lambda **given: pushed.append(given))
    return {"ti": ti, "params": {}}


def night_of_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[], HeldLease | None]:
    """The task that measures a submission; what its night was given."""
    from inferbench_tasks.provider.nightly.operators import MeasureNight
    from inferbench_tasks.regression import session

    given: list[HeldLease | None] = []

    def run_night(night: Any, db: Any, data_dir: Any, say: Any, stopped: Any, lease: Any = None) -> Any:
        given.append(lease)
        return {"sessions": []}

    monkeypatch.setattr(session, "run_night", run_night)

    def lease() -> HeldLease | None:
        MeasureNight(task_id="measure", file="/n/digits.yaml").execute(context())  # type: ignore[arg-type]
        return given[-1]

    return lease


def night_of_bricks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], HeldLease | None]:
    """The task that times bricks; what its results are written under."""
    from inferbench_tasks.brick_jobs import night, places
    from inferbench_tasks.provider.nightly.bricks import MeasureBricks

    given: list[HeldLease | None] = []

    def run_night(db: Any, results: Any, *rest: Any, **more: Any) -> night.Night:
        given.append(results._lease)
        return night.Night()

    monkeypatch.setattr(night, "run_night", run_night)
    monkeypatch.setattr(places, "place_here", lambda db, data_dir: places.Place())

    def lease() -> HeldLease | None:
        MeasureBricks(task_id="measure").execute(context())  # type: ignore[arg-type]
        return given[-1]

    return lease


def bisection(monkeypatch: pytest.MonkeyPatch) -> Callable[[], HeldLease | None]:
    """The task that looks for a commit; what its bisection was given."""
    from inferbench_tasks.provider.nightly.operators import BisectCommits
    from inferbench_tasks.regression.bisect import session, start, text

    given: list[HeldLease | None] = []

    def bisect(request: Any, db: Any, data_dir: Any, say: Any, stopped: Any, lease: Any = None) -> Any:
        given.append(lease)
        return None, None

    monkeypatch.setattr(session, "bisect", bisect)
    monkeypatch.setattr(start, "request_of", lambda file, params: None)
    monkeypatch.setattr(text, "sentences", lambda state, answer: [])
    monkeypatch.setattr(text, "as_mapping", lambda state, answer: {})

    def lease() -> HeldLease | None:
        BisectCommits(task_id="bisect", file="/n/digits.yaml").execute(context())  # type: ignore[arg-type]
        return given[-1]

    return lease


NIGHTS = [night_of_runs, night_of_bricks, bisection]


@pytest.mark.parametrize("night", NIGHTS)
def test_a_night_writes_under_its_job_s_lease(
    night: Callable[[pytest.MonkeyPatch], Callable[[], HeldLease | None]],
    entered: list[Fence],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of its worker's device and its DAG's run; under none where nobody leases devices."""
    lease = night(monkeypatch)
    assert lease() == LEASE
    assert [(fence.device_id, fence.job) for fence in entered] == [("a.cpu-0", "nightly.digits|r|000")]
    monkeypatch.delenv(settings.WORKER)
    assert lease() is None and len(entered) == 1


@pytest.mark.parametrize("night", NIGHTS)
def test_a_night_whose_device_was_lost_fails_with_the_reason(
    night: Callable[[pytest.MonkeyPatch], Callable[[], HeldLease | None]],
    entered: list[Fence],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a stage does: it is no error of ours, and trying the task again would not bring the device back."""
    from airflow.sdk.exceptions import AirflowFailException

    def enter(self: Fence, db: PerfDB) -> Holding:
        raise LeaseLostError("This job does not hold device a.cpu-0")

    lease = night(monkeypatch)
    monkeypatch.setattr(Fence, "enter", enter)
    with pytest.raises(AirflowFailException, match="does not hold device a.cpu-0"):
        lease()
