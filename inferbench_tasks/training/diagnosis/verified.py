"""What verified remedies brought: kept in PerfDB beside the run that they are of, a document for each remedied run."""

from __future__ import annotations

from datetime import datetime

from inferbench_tasks.perfdb.documents import Document
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored

COLLECTION = "verified_remedies"


class Verified(Document):
    """A remedy that was run, of one attempt of a run. Times are of a step, ms, of as many samples as before; the
    measured ones are None where the new run is not valid, which ``verdict`` says, or was made by another machine or
    torch, which ``reason`` says; the predicted ones where the rule predicts nothing. ``changes``: fields of the
    submission. ``sentence``: the cause. ``created_at``: when it was kept, None until then.
    """

    run: str
    attempt: int
    rule: str
    remedied: str
    sentence: str = ""
    changes: dict[str, object] = {}
    step_ms: float
    predicted_ms: float | None
    measured_ms: float | None = None
    predicted_by_measured: float | None = None
    predicted_gain_ms: float | None
    measured_gain_ms: float | None = None
    verdict: str
    reason: str | None = None
    created_at: datetime | None = None

    @property
    def unmeasured(self) -> str:
        """Why nothing was measured."""
        return self.reason or f"the run is {self.verdict}"


def keep(db: PerfDB, verified: Verified) -> Verified:
    """Write it, as of now; a second look at the same remedied run replaces the first. As it is kept."""
    verified = verified.model_copy(update={"created_at": db.now()})
    stored = to_stored(verified.model_dump())
    db.retrying(
        lambda: db.collection(COLLECTION).replace_one(
            {"_id": f"{verified.run}/{verified.attempt}/{verified.remedied}"}, stored, upsert=True
        ),
        "keeping a verified remedy",
    )
    return verified


def of_run(db: PerfDB, run_id: str, attempt: int) -> list[Verified]:
    """Of an attempt of a run, the newest first: another attempt is another measurement, with causes of its own."""
    documents = db.retrying(
        lambda: list(
            db.collection(COLLECTION).find({"run": run_id, "attempt": attempt}).sort("created_at", -1)
        ),
        "reading verified remedies",
    )
    return [
        Verified.model_validate({name: value for name, value in to_plain(of).items() if name != "_id"})
        for of in documents
    ]
