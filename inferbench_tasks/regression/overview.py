"""Everything there is to say about the series, as plain data: for the report, the API, CI and notifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression import store
from inferbench_tasks.regression.attribution import COLD_START, attribute
from inferbench_tasks.regression.base import SeriesKey, Session, percent
from inferbench_tasks.regression.bisect.offer import DETECT_PERCENT
from inferbench_tasks.regression.decide import Event, Policy, State, decide, decides, usual_noise
from inferbench_tasks.regression.machine_changes import machine_changes
from inferbench_tasks.regression.power import ALPHA, minimum_detectable_effect
from inferbench_tasks.regression.store import SessionDocument, SessionRun
from inferbench_tasks.regression.surroundings import differences
from inferbench_tasks.regression.watched import figure_named, watched
from inferbench_tasks.submission.base import DEFAULT_KIND


def overview(db: PerfDB, names: Sequence[str] = (), policy: Policy | None = None) -> dict[str, Any]:
    """{series: [...], sessions: [...], regressions, improvements, suspicions, accepted}; see ``_series`` for a series.

    Changes are those confirmed in the newest night of their submission, by any of its sessions, with what a bisection
    of it starts from (``bisectable``); older ones stand in the series' events. ``accepted``: series with a confirmed
    change against the baseline that they are still compared with, ids; that baseline is due to move.
    """
    policy = policy or Policy()
    histories = store.histories(db, names)
    states = decide(histories, policy)
    documents = {session.session_id: session for session in store.sessions(db, names)}
    newest = newest_nights(documents.values())
    together = Counter(history[-1].id for history in histories.values())
    machine = machine_changes(histories)
    series = [
        _series(
            db, key, histories[key], states[key], documents,
            level=min(ALPHA, policy.suspect_rate / together[histories[key][-1].id]), machine=machine[key],
        )
        for key in sorted(histories, key=str)
    ]  # fmt: skip
    changes = [
        {"series": s["id"], **event, "bisect": bisectable(db, s, event, documents.get(event["session"]))}
        for s in series
        for event in s["events"]
        if event["session"] in newest[s["name"]] and event["kind"] == "confirmed"
    ]
    return {
        "series": series,
        "sessions": [
            {"id": d.session_id, "name": d.name, "kind": d.kind, "started_at": d.started_at, "pairs": d.pairs,
             "runs": len(d.runs), "baseline": d.baseline.id, "candidate": d.candidate.id}
            for d in documents.values()
        ],
        "regressions": [change for change in changes if change["worse"]],
        "improvements": [change for change in changes if not change["worse"]],
        "suspicions": [{"series": s["id"], **s["suspicion"]} for s in series if s["suspicion"]],
        "accepted": [key.id for key in sorted(states, key=str) if states[key].accepted],
    }  # fmt: skip


def bisectable(
    db: PerfDB, series: Mapping[str, Any], event: Mapping[str, Any], session: SessionDocument | None
) -> dict[str, Any] | None:
    """What a bisection of a confirmed change starts from: ``figure``, and the commits ``good`` and ``bad``.

    With them the ``job`` of the sweep, if it is not the first, and ``detect_percent``, if the change is smaller than
    what a bisection looks for unasked: it would call the ends equal. None where the sides are of one commit, or of
    none: what differs between them is then no commit.
    """
    if session is None:
        return None
    good, bad = session.baseline.git_sha, session.candidate.git_sha
    if not good or not bad or good == bad:
        return None
    start: dict[str, Any] = {"figure": series["figure"], "good": good, "bad": bad}
    if job := _job_of(db, series["digest"], session):
        start["job"] = job
    if (percent_ := abs(event["change_percent"])) < DETECT_PERCENT:
        start["detect_percent"] = round(percent_, 2)
    return start


def _job_of(db: PerfDB, digest: str, session: SessionDocument) -> int:
    """The place of a series' job in its submission; 0 where its results are gone."""
    results = store.results_of(db, [session])
    jobs = [
        run.job
        for run in session.runs
        if run.run_id in results and results[run.run_id]["submission"].get("digest") == digest
    ]
    return min(jobs, default=0)


def newest_nights(documents: Iterable[SessionDocument]) -> dict[str, set[str]]:
    """Submission -> the sessions of its newest night: that night's own, and the confirmations that followed it.

    ``documents`` in the order of their start.
    """
    nights: dict[str, set[str]] = {}
    for document in documents:
        if document.kind == "night":
            nights[document.name] = set()
        nights.setdefault(document.name, set()).add(document.session_id)
    return nights


def _series(
    db: PerfDB,
    key: SeriesKey,
    history: Sequence[Session],
    state: State,
    documents: Mapping[str, SessionDocument],
    level: float,
    machine: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """``level``: of the test that its stated effect is found by; stricter the more series a night has. ``machine``:
    what ``machine_changes`` says of it."""
    figure = figure_named(key.figure)
    pairs = int(np.median([len(session.log_ratios()) for session in history]))
    mde = None
    if state.epoch or state.pending:
        mde = percent(minimum_detectable_effect(usual_noise(state), pairs, alpha=level))
    return {
        "id": key.id, "name": key.name, "digest": key.digest, "device": key.device, "cores": key.cores,
        "figure": key.figure, "unit": figure.unit, "better": figure.better, "pairs": pairs,
        "minimum_detectable_effect_percent": mde, "detection_level": level,
        # With fewer pairs than that the newest session says neither that something changed nor that nothing did.
        "newest_pairs": len(history[-1].log_ratios()), "decided": decides(history[-1]),
        "points": [
            {
                "session": s.id, "at": s.at, "change_percent": percent(s.effect), "baseline_id": s.baseline_id,
                "baseline": float(np.median(s.baseline)), "candidate": float(np.median(s.candidate)),
            }
            for s in history
        ],
        "events": [_event(db, key, event, documents) for event in state.events],
        "suspicion": _event(db, key, state.suspicion, documents) if state.suspicion else None,
        "machine_changes": machine,
    }  # fmt: skip


def pair_of(db: PerfDB, key: SeriesKey, session: SessionDocument) -> list[str]:
    """The first run of each side that the series has of this session, baseline and candidate; [] where one is gone."""
    results = store.results_of(db, [session])
    first: dict[str, str] = {}
    for run in session.runs:
        if _of_series(run, key, results):
            first.setdefault(run.side, run.run_id)
    return [first[side] for side in ("baseline", "candidate")] if len(first) == 2 else []


def _event(
    db: PerfDB, key: SeriesKey, event: Event, documents: Mapping[str, SessionDocument]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": event.kind, "session": event.session, "change_percent": percent(event.effect),
        "p_value": event.p_value, "worse": event.worse, "by": event.by, "sessions": list(event.sessions),
        "stage": None, "follows": [], "parts": [], "environment": [],
    }  # fmt: skip
    if event.kind == "confirmed":
        row |= explain(db, key, event, documents)
    return row


def explain(
    db: PerfDB, key: SeriesKey, event: Event, documents: Mapping[str, SessionDocument]
) -> dict[str, Any]:
    """The stage that changed and what differs around it, from the sessions that the event rests on.

    Where the baseline's code is the same, a change against an accepted level shows its stages, too: the
    change is the newest one only.
    """
    sessions = [documents[id_] for id_ in event.sessions if id_ in documents]
    results = store.results_of(db, sessions, whole=True)
    runs = [run for session in sessions for run in session.runs if _of_series(run, key, results)]
    sides = {
        side: [results[run.run_id] for run in runs if run.side == side] for side in ("baseline", "candidate")
    }
    around = differences(sides["baseline"], sides["candidate"])
    if key.figure == "cold_start_ms":
        return {"stage": COLD_START, "follows": [], "parts": [], "environment": around}
    of = watched(sessions[-1].of_kind if sessions else DEFAULT_KIND)
    means = ([of.means(result) for result in sides[side]] for side in sides)
    parts = attribute(*means, slower=event.worse, parts=of.parts, work=of.work)
    return {
        "stage": parts.stage,
        "follows": list(parts.follows),
        "parts": [part.__dict__ for part in parts.parts],
        "environment": around,
    }


def _of_series(run: SessionRun, key: SeriesKey, results: Mapping[str, dict[str, Any]]) -> bool:
    """Whether it is a run of the series' job: sides of other code may have another digest, so by the job's place."""
    if run.run_id not in results or store.measured_on(results[run.run_id]) != (key.device, key.cores):
        return False
    same = {
        r["run_id"].rpartition(".")[2]
        for r in results.values()
        if r["submission"].get("digest") == key.digest
    }
    return run.run_id.rpartition(".")[2] in same
