"""Nights in PerfDB: sessions and results with stage times, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored
from inferbench_tasks.regression import store
from inferbench_tasks.regression.sides import Side
from inferbench_tasks.regression.store import SessionDocument, SessionRun
from tests.unit.perfdb.builders import result

START = datetime(2026, 1, 1, tzinfo=UTC)
STAGES = {"preprocess": 1.0, "transmit": 2.0, "queue": 1.0, "inference": 5.0, "postprocess": 0.5}


def side(name: str) -> Side:
    return Side(id=name, tree=f"/trees/{name}", python="python")


def write_nights(
    db: PerfDB,
    extra_ms: Sequence[dict[str, float]],
    *,
    name: str = "quick",
    pairs: int = 6,
    seed: int = 1,
    baseline: str = "old",
    candidate: str = "new",
    first: int = 0,
    device: Mapping[str, Any] | None = None,
    hardware: Mapping[str, Any] | None = None,
) -> list[str]:
    """A session per entry: what the candidate takes longer in each stage, ms. The sessions' ids.

    ``first``: number of the first night; ``device`` and ``hardware``: what the results say they ran on.
    """
    rng = np.random.default_rng(seed)
    ids, results = [], []
    for night, extra in enumerate(extra_ms, first):
        at = START + timedelta(days=night)
        session = SessionDocument(
            session_id=f"{name}-{night:03d}", name=name, started_at=at, pairs=pairs,
            baseline=side(baseline), candidate=side(candidate),
        )  # fmt: skip
        for position in range(2 * pairs):
            who: store.SideName = "baseline" if position % 4 in (0, 3) else "candidate"
            added = extra if who == "candidate" else {}
            stages = {k: (v + added.get(k, 0)) * float(rng.normal(1, 0.02)) for k, v in STAGES.items()}
            total = sum(stages.values())
            run_id = f"{name}-{night:03d}-{position}.000"
            results.append(
                result(
                    run_id,
                    created_at=at + timedelta(minutes=position),
                    submission={"name": name, "digest": "ab" * 32},
                    summary={
                        "e2e_latency_ms": {"p50": total, "p95": 2 * total},
                        "throughput_rps": 100.0,
                        "stages_ms": {k: {"mean": v} for k, v in stages.items()},
                        "cold_start_ms": {"total_ms": 700 * float(rng.normal(1, 0.02))},
                    },
                    device=dict(device or {"kind": "cpu", "name": "Example CPU"}),
                    environment={"hardware": dict(hardware)} if hardware else {},
                    provenance={"versions": {"onnxruntime": "1.23" if who == "baseline" else "1.24"}},
                )
            )
            session.runs.append(SessionRun(run_id=run_id, side=who, job=0, position=position))
        store.save_session(db, session)
        ids.append(session.session_id)
    db.collection("results").insert_many([to_stored(document) for document in results])
    return ids


def write_session(
    db: PerfDB,
    shifts: Mapping[str, float],
    *,
    kind: Literal["night", "confirmation"],
    baseline: str,
    name: str = "quick",
    pairs: int = 8,
    streamed: bool = False,
) -> str:
    """One more session of a submission; ``shifts``: what the candidate's p50 and p95 are multiplied by. Its id.

    ``streamed``: its answers are streams of tokens, too few for a p99; ``ttft`` and ``tpot`` shift their medians.
    """
    number = len(store.sessions(db, [name])) if db.collection(store.SESSIONS).count_documents({}) else 0
    rng = np.random.default_rng(number)
    at = START + timedelta(hours=number)
    session = SessionDocument(
        session_id=f"{name}-{number:03d}", name=name, kind=kind, started_at=at, pairs=pairs,
        baseline=side(baseline), candidate=side("new"),
    )  # fmt: skip
    results = []
    for position in range(2 * pairs):
        who: store.SideName = "baseline" if position % 4 in (0, 3) else "candidate"
        latency = {
            quantile: value
            * float(rng.normal(1, 0.01))
            * (shifts.get(quantile, 1.0) if who == "candidate" else 1.0)
            for quantile, value in {"p50": 10.0, "p95": 20.0}.items()
        }
        run_id = f"{name}-{number:03d}-{position}.000"
        about = {"name": name, "digest": "ab" * 32}
        summary: dict[str, Any] = {"e2e_latency_ms": latency, "throughput_rps": 100.0}
        if streamed:
            summary["tokens"] = {
                f"{time}_ms": {
                    "p50": value
                    * float(rng.normal(1, 0.01))
                    * (shifts.get(time, 1.0) if who == "candidate" else 1.0),
                    "p99": None,
                }
                for time, value in {"ttft": 30.0, "tpot": 4.0}.items()
            }
        results.append(
            result(run_id, created_at=at + timedelta(minutes=position), submission=about, summary=summary)
        )
        session.runs.append(SessionRun(run_id=run_id, side=who, job=0, position=position))
    store.save_session(db, session)
    db.collection("results").insert_many([to_stored(document) for document in results])
    return session.session_id


def write_training_nights(
    db: PerfDB, extra_ms: Sequence[dict[str, float]], *, name: str = "epochs", pairs: int = 6
) -> None:
    """The same of trainings: what the candidate takes longer in each phase of its steps, ms."""
    rng = np.random.default_rng(2)
    results = []
    phases = {
        "loading": 2.0,
        "to_device": 0.2,
        "forward": 4.0,
        "loss": 0.2,
        "backward": 8.0,
        "optimiser": 1.0,
    }
    for night, extra in enumerate(extra_ms):
        session = SessionDocument(
            session_id=f"{name}-{night:03d}", name=name, of_kind="training", pairs=pairs,
            started_at=START + timedelta(days=night), baseline=side("old"), candidate=side("new"),
        )  # fmt: skip
        for position in range(2 * pairs):
            who: store.SideName = "baseline" if position % 4 in (0, 3) else "candidate"
            added = extra if who == "candidate" else {}
            means = {k: (v + added.get(k, 0)) * float(rng.normal(1, 0.01)) for k, v in phases.items()}
            step_ms = sum(means.values()) + 0.1
            run_id = f"{name}-{night:03d}-{position}.000"
            results.append(
                {
                    "run_id": run_id, "attempt": 1, "verdict": "valid",
                    "submission": {"name": name, "digest": "cd" * 32},
                    "device": {"kind": "cpu", "name": "Example CPU", "cores": 2.0},
                    "engine": {"kind": "torchrun", "version": "2.12" if who == "baseline" else "2.13"},
                    "summary": {
                        "bare": {"samples_per_s": 32e3 / step_ms},
                        "synchronised": {
                            "step_ms": {"mean": step_ms}, "unexplained_ms": 0.1,
                            "phases": {k: {"wall_ms": {"mean": v}} for k, v in means.items()},
                        },
                    },
                }
            )  # fmt: skip
            session.runs.append(SessionRun(run_id=run_id, side=who, job=0, position=position))
        store.save_session(db, session)
    db.collection("trainings").insert_many([to_stored(document) for document in results])
