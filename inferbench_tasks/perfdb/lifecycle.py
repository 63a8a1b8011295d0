"""How runs went: written by whoever executes their stages, while they execute.

Every write may safely be repeated, so a mongod that is killed and started again between or during
stages loses nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.perfdb.documents import (
    InvocationDocument,
    RunDocument,
    RunStatus,
    StageRecord,
    StageState,
    SubmissionInfo,
)
from inferbench_tasks.perfdb.files import Files
from inferbench_tasks.perfdb.session import PATIENCE_S, Session
from inferbench_tasks.perfdb.values import Attachment, to_plain, to_stored


class Lifecycle:
    """The part of PerfDB that records invocations, runs and stages; their moments are by PerfDB's clock."""

    _session: Session
    files: Files

    def now(self, patience_s: float = PATIENCE_S) -> datetime:
        """The moment of this call by PerfDB's clock, to the millisecond: hosts' clocks need not agree."""
        return self._session.moment(patience_s).at

    def keep_submission(self, invocation_id: str, submission: dict[str, Any]) -> None:
        """Keep an invocation's submission (plain JSON values): its report can be made again from PerfDB alone."""
        self._update("invocations", invocation_id, {"$set": {"document": to_stored(submission)}})

    def end_invocation(self, invocation_id: str, status: RunStatus) -> None:
        """Record how an invocation ended."""
        self._update("invocations", invocation_id, {"$set": {"status": status, "ended_at": self.now()}})

    def get_invocation(self, invocation_id: str) -> InvocationDocument:
        """Raises InputError if there is none of that id."""
        document = self._find_one("invocations", invocation_id)
        return InvocationDocument.model_validate({"invocation_id": document.pop("_id"), **document})

    def attach(self, invocation_id: str, path: Path, name: str | None = None) -> Attachment:
        """Keep a file (a report) with an invocation; one of the same name is replaced."""
        stored = self.files.put(path, name or path.name, invocation_id=invocation_id)
        entry = stored.model_dump()
        before = self._find_one("invocations", invocation_id).get("attachments", [])
        self._update("invocations", invocation_id, {"$pull": {"attachments": {"name": stored.name}}})
        self._update("invocations", invocation_id, {"$addToSet": {"attachments": entry}})
        for old in before:
            if old["name"] == stored.name and old["id"] != stored.id:
                self.files.delete(old["id"])
        return stored

    def start_run(
        self,
        run_id: str,
        invocation_id: str,
        job_id: str,
        job: dict[str, Any],
        submission_digest: str | None = None,
        *,
        login: str | None = None,
    ) -> None:
        """Record a run, and its invocation if nobody did; harmless when repeated (each stage calls it).

        ``login``: who started it, where that is known.
        """
        now, info = self.now(), _info(job, submission_digest, login)
        self._write(
            "runs",
            run_id,
            {
                "$setOnInsert": {
                    "invocation_id": invocation_id,
                    "job_id": job_id,
                    "submission": info,
                    "job": to_stored(job),
                    "status": "running",
                    "started_at": now,
                    "stages": [],
                },
                "$set": {"updated_at": now},
            },
        )
        self._write(
            "invocations",
            invocation_id,
            {
                "$setOnInsert": {"submission": info, "status": "running", "started_at": now},
                "$addToSet": {"run_ids": run_id},
            },
        )

    def stage_started(
        self, run_id: str, stage: str, attempt: int = 1, *, cleans_up: bool = False
    ) -> str | None:
        """Record that a stage runs now, in this process; the run's ``lease``, by which the stage ends it later.

        It sets a run that had failed back to running, unless it only cleans up after the failure.
        """
        now = self._session.moment()
        record = StageRecord(
            stage=stage,
            attempt=attempt,
            state="running",
            started_at=now.at,
            pid=os.getpid(),
            host=socket.gethostname(),
            clock=now.clock,
        )
        self._record(run_id, record)
        if not cleans_up:
            self._update(
                "runs",
                run_id,
                {"$set": {"status": "running"}, "$unset": {"ended_at": "", "verdict": "", "judgement": ""}},
                only_if={"status": {"$in": ["failed", "cancelled"]}},
            )
        lease: str | None = self._find_one("runs", run_id, {"lease": 1}).get("lease")
        return lease

    def stage_holds(
        self, run_id: str, stage: str, attempt: int, devices: Sequence[str], lease: str | None = None
    ) -> None:
        """Record on which devices a stage that runs works: known from its beginning, whatever becomes of it.

        ``lease``: the nonce of what its job holds them by, which is the run's from now on.
        """
        where = {"_id": run_id, "stages": {"$elemMatch": {"stage": stage, "attempt": attempt}}}
        fields: dict[str, Any] = {"stages.$.devices": list(devices)} | ({"lease": lease} if lease else {})
        self._session.retrying(
            lambda: self._session.database()["runs"].update_one(where, {"$set": fields}),
            f"recording stage {stage}",
        )

    def stage_finished(
        self,
        run_id: str,
        stage: str,
        attempt: int = 1,
        *,
        output: dict[str, Any],
        duration_s: float,
        last: bool = False,
        lease: str | None = None,
    ) -> None:
        """Record a stage's output; the job's ``last`` one ends the run, unless an earlier one failed.

        ``lease``: what the stage began or worked under; a run that goes on under another one by now is not ended.
        """
        now = self._end_stage(run_id, stage, attempt, state="done", output=output, duration_s=duration_s)
        if last:
            self._update(
                "runs",
                run_id,
                {"$set": {"status": "done", "ended_at": now}},
                only_if={"status": "running", "lease": lease},
            )

    def stage_failed(
        self,
        run_id: str,
        stage: str,
        attempt: int = 1,
        *,
        state: StageState = "failed",
        error: str,
        lease: str | None = None,
        ends_run: bool = True,
    ) -> None:
        """Record that a stage failed or was cancelled, and with it the run; the first cause is kept.

        ``lease``: what the stage began or worked under; a run that goes on under another one by now has not failed, nor
        one whose job is known to (not ``ends_run``).
        """
        now = self._end_stage(run_id, stage, attempt, state=state, error=error)
        if not ends_run:
            return
        cause = error.strip().split("\n")[0][:500] or "no cause given"
        verdict = Verdict.cancelled(stage) if state == "cancelled" else Verdict.failed(stage, cause)
        self._update(
            "runs",
            run_id,
            {
                "$set": {
                    "status": _status_after(verdict),
                    **to_stored(verdict.as_stored()),
                    "ended_at": now,
                }
            },
            only_if={"status": "running", "lease": lease},
        )

    def end_run(self, run_id: str, verdict: Verdict) -> None:
        """End a run whose stages could not do it (their process was killed, a stage was never reached)."""
        status, now = _status_after(verdict), self.now()
        end = {**to_stored(verdict.as_stored()), "status": status, "ended_at": now}
        self._update("runs", run_id, {"$set": end})
        if status == "done":  # it has its figures: the stage behind them did not come to its end
            self._update_running_stages(run_id, "failed", "its process was killed", now)
        else:
            self._update_running_stages(run_id, status, str(verdict), now)

    def get_run(self, run_id: str) -> RunDocument:
        """Raises InputError if there is none of that id."""
        return _run(self._find_one("runs", run_id))

    def find_runs(
        self, query: dict[str, Any] | None = None, limit: int = 0, sort: list[tuple[str, int]] | None = None
    ) -> list[RunDocument]:
        """Runs that match a MongoDB filter, newest first; ``limit`` 0 = all."""
        order = sort or [("started_at", -1), ("_id", 1)]
        documents = self._session.retrying(
            lambda: list(self._session.database()["runs"].find(query or {}, sort=order, limit=limit)),
            "finding runs",
        )
        return [_run(to_plain(document)) for document in documents]

    def find_runs_without_result(
        self, query: dict[str, Any], limit: int = 0, *, oldest_first: bool = False
    ) -> list[dict[str, Any]]:
        """Runs that match a MongoDB filter and have no result (yet), as plain mappings, newest first unless asked."""
        pipeline: list[dict[str, Any]] = [
            # Only a run that ended with all its stages has a result for certain.
            {"$match": {"$and": [{"status": {"$ne": "done"}}, query]}},
            {"$sort": {"started_at": 1 if oldest_first else -1}},
            {
                "$lookup": {
                    "from": "results",
                    "localField": "_id",
                    "foreignField": "run_id",
                    "pipeline": [{"$project": {"_id": 1}}, {"$limit": 1}],
                    "as": "result",
                }
            },
            {"$match": {"result": []}},
            {"$project": {"stages": 0, "result": 0}},
        ]
        if limit:
            pipeline.append({"$limit": limit})
        return self._session.retrying(
            lambda: [to_plain(d) for d in self._session.database()["runs"].aggregate(pipeline)],
            "finding runs",
        )

    # -- writing ------------------------------------------------------------------------------------

    def _record(self, run_id: str, record: StageRecord) -> None:
        """Put a stage's record in the place of the same stage and attempt, else at the end."""
        same = {"stage": record.stage, "attempt": record.attempt}
        entry, now = to_stored(record), record.started_at

        def write() -> bool:
            runs = self._session.database()["runs"]
            replaced = runs.update_one(
                {"_id": run_id, "stages": {"$elemMatch": same}},
                {"$set": {"stages.$": entry, "updated_at": now}},
            )
            added = replaced.matched_count or (
                runs.update_one(
                    {"_id": run_id, "stages": {"$not": {"$elemMatch": same}}},
                    {"$push": {"stages": entry}, "$set": {"updated_at": now}},
                ).matched_count
            )
            return bool(added)

        if not self._session.retrying(write, f"recording stage {record.stage}"):
            raise PerfDBError(f"PerfDB has no run {run_id!r}; start_run comes before its stages.")

    def _end_stage(self, run_id: str, stage: str, attempt: int, **fields: Any) -> datetime:
        """When it ended."""
        now = self.now()
        entry = {f"stages.$.{name}": to_stored(value) for name, value in fields.items()}
        where = {"_id": run_id, "stages": {"$elemMatch": {"stage": stage, "attempt": attempt}}}
        # One that was taken for killed and ends by itself was not.
        entry |= {"stages.$.ended_at": now, "stages.$.settled": False, "updated_at": now}
        outcome = self._session.retrying(
            lambda: self._session.database()["runs"].update_one(where, {"$set": entry}),
            f"recording stage {stage}",
        )
        if not outcome.matched_count:
            raise PerfDBError(
                f"PerfDB has no stage {stage} (attempt {attempt}) of run {run_id!r}; "
                "stage_started comes first."
            )
        return now

    def _update_running_stages(self, run_id: str, state: RunStatus, error: str, now: datetime) -> None:
        fields = {"state": state, "error": error, "ended_at": now, "settled": True}
        change = {"$set": {f"stages.$[open].{name}": value for name, value in fields.items()}}
        self._session.retrying(
            lambda: self._session.database()["runs"].update_one(
                {"_id": run_id}, change, array_filters=[{"open.state": "running"}]
            ),
            "ending stages",
        )

    def _write(self, collection: str, document_id: str, change: dict[str, Any]) -> None:
        # Two that insert at once: the loser's upsert fails as a duplicate, and updates when repeated.
        from pymongo.errors import DuplicateKeyError

        def write() -> None:
            documents = self._session.database()[collection]
            try:
                documents.update_one({"_id": document_id}, change, upsert=True)
            except DuplicateKeyError:
                documents.update_one({"_id": document_id}, change, upsert=True)

        self._session.retrying(write, f"writing {collection}")

    def _update(
        self,
        collection: str,
        document_id: str,
        change: dict[str, Any],
        only_if: dict[str, Any] | None = None,
    ) -> None:
        where = {"_id": document_id, **(only_if or {})}
        outcome = self._session.retrying(
            lambda: self._session.database()[collection].update_one(where, change), f"writing {collection}"
        )
        if not outcome.matched_count and only_if is None:
            raise InputError(f"PerfDB has no {collection.removesuffix('s')} {document_id!r}.")

    def _find_one(
        self, collection: str, document_id: str, fields: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        document = self._session.retrying(
            lambda: self._session.database()[collection].find_one({"_id": document_id}, fields),
            f"reading {collection}",
        )
        if document is None:
            raise InputError(f"PerfDB has no {collection.removesuffix('s')} {document_id!r}.")
        plain: dict[str, Any] = to_plain(document)
        return plain


def _status_after(verdict: Verdict) -> RunStatus:
    """How the execution of a run with that verdict went: whether its figures count is another question."""
    if verdict.measured:
        return "done"
    return "cancelled" if verdict.kind == "cancelled" else "failed"


def _info(spec: dict[str, Any], digest: str | None, login: str | None) -> dict[str, Any]:
    name, user = spec.get("name", "unnamed"), spec.get("user", "anonymous")
    return SubmissionInfo(name=name, user=user, login=login, digest=digest).model_dump()


def _run(document: dict[str, Any]) -> RunDocument:
    return RunDocument.model_validate({"run_id": document.pop("_id"), **document})
