"""What PerfDB keeps of nights: the sessions with their runs, and which side is the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pymongo.client_session import ClientSession

from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.monitors.environment import granted_cores
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.perfdb.values import to_plain, to_stored
from inferbench_tasks.regression.base import SeriesKey, Session
from inferbench_tasks.regression.sides import Side
from inferbench_tasks.regression.watched import watched
from inferbench_tasks.submission.base import DEFAULT_KIND

SESSIONS, BASELINES = "regression_sessions", "regression_baselines"
SideName = Literal["baseline", "candidate"]


class SessionRun(BaseModel):
    """One run of a session: which side, which job of the sweep, and its place in the order."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    side: SideName
    job: int
    position: int


class SessionDocument(BaseModel):
    """One night of one submission. ``kind``: ``confirmation`` was run because something was suspected. ``of_kind``:
    the submission's kind.
    """

    model_config = ConfigDict(extra="forbid")

    session_id: str
    name: str
    kind: Literal["night", "confirmation"] = "night"
    of_kind: str = DEFAULT_KIND
    started_at: datetime
    ended_at: datetime | None = None
    pairs: int
    baseline: Side
    candidate: Side
    runs: list[SessionRun] = []


def save_session(db: PerfDB, session: SessionDocument, lease: HeldLease | None = None) -> None:
    """Write it, or what is new of it. ``lease``: that of the device that it runs on, as of ``PerfDB.save_result``."""
    values = to_stored(session.model_dump(exclude={"session_id"}))
    _replace(db, SESSIONS, session.session_id, values, "writing a regression session", lease)


def require_held(db: PerfDB, lease: HeldLease | None) -> None:
    """LeaseLostError where that is held no more: whoever has the device now would be measured beside."""
    if lease is not None:
        db.write_once(lambda within: None, "looking at the device's lease", lease)


def sessions(db: PerfDB, names: Sequence[str] = ()) -> list[SessionDocument]:
    """All sessions in the order of their start, of these submissions or of all."""
    where = {"name": {"$in": list(names)}} if names else {}
    documents = db.retrying(
        lambda: list(db.collection(SESSIONS).find(where).sort([("started_at", 1), ("_id", 1)])),
        "reading regression sessions",
    )
    plain = [to_plain(document) for document in documents]
    return [SessionDocument.model_validate({"session_id": d.pop("_id"), **d}) for d in plain]


def baseline(db: PerfDB, name: str) -> Side | None:
    """The side that a submission's nights are compared with; None before its first night."""
    document = db.retrying(lambda: db.collection(BASELINES).find_one({"_id": name}), "reading a baseline")
    return Side.model_validate(to_plain(document)["side"]) if document else None


def move_baseline(db: PerfDB, name: str, side: Side, why: str, lease: HeldLease | None = None) -> None:
    """From now on nights are compared with that side. ``lease``: as of ``save_session``."""
    values = {"side": to_stored(side), "why": why}
    _replace(db, BASELINES, name, values, "moving a baseline", lease)


def _replace(
    db: PerfDB, collection: str, key: str, values: dict[str, Any], doing: str, lease: HeldLease | None
) -> None:
    def replace(within: ClientSession | None) -> None:
        db.collection(collection).replace_one({"_id": key}, values, upsert=True, session=within)

    # Of two that insert at once the second meets the first's document, and replaces it when it is repeated.
    if not db.write_once(replace, doing, lease) and not db.write_once(replace, doing, lease):
        raise PerfDBError(
            f"PerfDB, {doing}: {key!r} was inserted and removed by others meanwhile; try again."
        )


def results_of(
    db: PerfDB, documents: Sequence[SessionDocument], whole: bool = False
) -> dict[str, dict[str, Any]]:
    """The valid results of the sessions' runs, by run id; without ``whole`` only what series need."""
    results: dict[str, dict[str, Any]] = {}
    for kind in sorted({session.of_kind for session in documents}):
        ids = [run.run_id for session in documents if session.of_kind == kind for run in session.runs]
        of = watched(kind)
        needed = ["run_id", "submission", "device", "environment.hardware"]
        fields = None if whole else [*needed, *(figure.field_path for figure in of.figures)]
        raw = db.find_raw(
            {"run_id": {"$in": ids}, "verdict": "valid"},
            sort=[("attempt", 1)],
            fields=fields,
            collection=of.collection,
        )
        results |= {document["run_id"]: to_plain(document) for document in raw}
    return results


def histories(db: PerfDB, names: Sequence[str] = ()) -> dict[SeriesKey, list[Session]]:
    """Every series with its sessions in order.

    A run that isn't valid, or did not measure the figure, is left out, and so is one that had another device or another
    number of cores than its session's newest candidate: a ratio of the two would be the machine's.
    """
    documents = sessions(db, names)
    if names and (missing := set(names) - {s.name for s in documents}):
        raise InputError(
            f"No nights of {', '.join(sorted(missing))} in PerfDB; `inferbench regress run` makes one."
        )
    results = results_of(db, documents)
    histories_by_key: dict[SeriesKey, list[Session]] = {}
    for session in documents:
        for job in sorted({run.job for run in session.runs}):
            for key, values in _of_job(session, job, results).items():
                histories_by_key.setdefault(key, []).append(values)
    return histories_by_key


def measured_on(result: Mapping[str, Any]) -> tuple[str, float | None]:
    """The device of a plain result and the cores that its job had; older results tell these in their environment."""
    device = result["device"]
    cores = device.get("cores")
    if cores is None:
        cores = granted_cores((result.get("environment") or {}).get("hardware") or {})
    return device.get("name") or device["kind"], cores


def _of_job(
    session: SessionDocument, job: int, results: dict[str, dict[str, Any]]
) -> dict[SeriesKey, Session]:
    runs = sorted((r for r in session.runs if r.job == job and r.run_id in results), key=lambda r: r.position)
    candidates = [results[run.run_id] for run in runs if run.side == "candidate"]
    if not candidates:
        return {}
    newest, series = candidates[-1], {}
    device, cores = measured_on(newest)
    runs = [run for run in runs if measured_on(results[run.run_id]) == (device, cores)]
    for figure in watched(session.of_kind).figures:
        sides: dict[str, list[float]] = {"baseline": [], "candidate": []}
        for run in runs:
            if value := figure.stored(results[run.run_id]["summary"]):
                sides[run.side].append(value)
        if sides["baseline"] and sides["candidate"]:
            digest = newest["submission"].get("digest") or ""
            key = SeriesKey(session.name, digest, device, figure.name, cores)
            series[key] = Session(
                session.session_id, session.started_at, tuple(sides["baseline"]), tuple(sides["candidate"]),
                session.baseline.id,
            )  # fmt: skip
    return series
