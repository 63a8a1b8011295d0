"""Profiles of traced runs in PerfDB, and the runs beside them at other batch sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.analysis.stack.about import about_of, source_of
from inferbench_tasks.analysis.stack.base import Point, Subject
from inferbench_tasks.analysis.stack.kernels import kernels_of
from inferbench_tasks.analysis.stack.one_precision import Precisions, called, precisions
from inferbench_tasks.analysis.stack.profile import profile_of
from inferbench_tasks.analysis.systems.found import SATURATING, saturated
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import asked_precision
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.tracing.batches import BATCH_SIZE
from inferbench_tasks.tracing.missing import missing_in_words
from inferbench_tasks.tracing.profiled import with_library, without_deeper
from inferbench_tasks.tracing.queries import spans_file, trace_of
from inferbench_tasks.tracing.spans import spans_of

_DIGEST, _STORED = "model.digest", "model.precision"
#: What of a traced run makes it another one: the model as it was served (by the precision that was asked for, and what
#: its weights are in), the runtime, or the device.
BY: dict[str, tuple[str, ...]] = {
    "stack": ("backend.kind", "format", asked_precision.PATH, _STORED, "backend.settings.threads"),
    "version": ("backend.kind", "backend.version"),
    "system": ("device.name", "device.kind", "device.cores"),
}
#: And whatever is set side by side: times of one batch are none of another.
_ALWAYS = (BATCH_SIZE,)
#: Traced runs whose layers are told and whose spans are there. That there is a trace at all is what an index tells.
_LAYERED: dict[str, Any] = {
    "extensions.trace": {"$exists": True},
    "extensions.trace.layers": {"$type": "object"},
    "extensions.trace.file": {"$exists": True},
}


def subject_of(db: PerfDB, result: ResultDocument, *, batches: bool = True) -> Subject:
    """One traced run; InputError where it has no trace, or none of layers that take time."""
    trace = trace_of(result)
    about = about_of(result)
    label = " ".join(str(about[name]) for name in ("backend", "version") if about[name])
    spans = list(spans_of(stored_table(db, spans_file(result))))
    profile = profile_of(without_deeper(spans), label, result.run_id, **about)
    if profile is None:
        raise InputError(
            f"nothing is known of the layers of {result.run_id}; its levels: {', '.join(trace['levels'])}, see "
            "`inferbench trace sources`",
            field="RUN",
        )
    if min(profile.framework_ms_by_round) <= 0:
        raise InputError(f"the runs of the runtime of {result.run_id} took no time in a round", field="RUN")
    threads = int(about["threads"]) if about["threads"] else None
    kernels = kernels_of(with_library(spans), trace.get("ceilings"), threads)
    if kernels is not None:
        kernels = replace(kernels, lacking=missing_in_words({**trace, "unseen": None}))
    return Subject(profile, _points(db, result) if batches else (), kernels)


def newest(db: PerfDB, models: Sequence[str], by: str) -> tuple[list[Subject], list[str]]:
    """The newest valid traced run with layers of each model, each stack, version or system, and each batch of traces,
    else the newest; and why those that can't be analysed are left out.

    InputError for a model of which there is none, with those that there are.
    """
    # All that there are, by what tells them apart alone: none is beyond a bound.
    fields = (
        "run_id",
        "attempt",
        "verdict",
        "model.name",
        _DIGEST,
        *asked_precision.PATHS,
        *BY[by],
        *_ALWAYS,
    )
    rows = db.find_raw({**_LAYERED, "model.name": {"$in": list(models)}}, fields=fields)
    of = precisions((value_at(row, _DIGEST), value_at(row, _STORED)) for row in reversed(rows))
    subjects: list[Subject] = []
    left_out: list[str] = []
    for model in models:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            if value_at(row, "model.name") == model:
                key = tuple(_telling(row, path, of) for path in (*BY[by], *_ALWAYS))
                groups.setdefault(key, []).append(row)
        if not groups:
            known = {value_at(row, "model.name") for row in db.find_raw(_LAYERED, fields=("model.name",))}
            raise InputError(
                f"no traced run of {model} tells of layers; of these models there are: "
                f"{', '.join(sorted(known)) or 'none'}",
                field="MODEL",
            )
        notes: list[str] = []
        usable = [
            replace(found, profile=called(found.profile, of))
            for group in groups.values()
            if (found := _first_usable(db, group, notes)) is not None
        ]
        if not usable:
            raise InputError(f"no traced run of {model} can be analysed: {'; '.join(notes)}", field="MODEL")
        subjects += usable
        left_out += notes
    return subjects, left_out


def _first_usable(db: PerfDB, rows: Sequence[Mapping[str, Any]], notes: list[str]) -> Subject | None:
    """The newest of them that can be analysed, valid ones before others. ``notes`` gets why those before it can't."""
    for row in sorted(rows, key=lambda row: row.get("verdict") != str(VALID)):
        try:
            return subject_of(db, db.get_result(row["run_id"], row["attempt"]))
        except InputError as error:
            notes.append(f"{row['run_id']}: {error.message}")
    return None


def _telling(row: Mapping[str, Any], path: str, of: Precisions) -> Any:
    if path == asked_precision.PATH:
        return asked_precision.asked_precision(row)
    if path == BATCH_SIZE:
        return value_at(row, path) or 1  # of before it was kept: requests asked one by one had one sample
    if path == _STORED and (digest := value_at(row, _DIGEST)) is not None:
        return of[digest]
    return value_at(row, path)


def traced_models(db: PerfDB) -> list[dict[str, Any]]:
    """A row for each model with traced runs that tell of layers, the one that was traced last first."""
    fields = ("run_id", "model.name", "backend.kind", "created_at")
    rows: dict[str, dict[str, Any]] = {}
    for each in db.find_raw(_LAYERED, fields=fields):
        found = to_plain(each)
        model = str(value_at(found, "model.name"))
        nothing = {"model": model, "runs": 0, "backends": [], "newest": found["created_at"]}
        row = rows.setdefault(model, nothing)
        row["runs"] += 1
        row["backends"] = sorted({*row["backends"], str(value_at(found, "backend.kind"))})
    return list(rows.values())


def _points(db: PerfDB, result: ResultDocument) -> list[Point]:
    """Valid runs of the same model on the same stack and device that ask for all that it gives."""
    where = {
        "model.name": result.model.name,
        "backend.kind": result.backend.kind,
        "backend.version": result.backend.version,
        "device.name": result.device.name,
        "verdict": str(VALID),
        "load.arrivals.kind": {"$in": list(SATURATING)},
    }
    points = []
    for each in db.find_results(where):
        rate, latency = each.summary.throughput_samples_per_s, each.summary.e2e_latency_ms.p50
        at_once = each.load.arrivals.get("kind") == "offline"
        if (
            saturated({"load": each.load.model_dump()})
            and _same_model(each, result)
            and _served(each) == _served(result)
            and rate
            and (latency or at_once)
            and each.load.batch_size
        ):
            latency = None if at_once else latency
            points.append(Point(each.run_id, each.load.batch_size, rate, latency))
    return points


def _same_model(one: ResultDocument, other: ResultDocument) -> bool:
    """Whether both served one content: another version has the name of the one before it."""
    if (source := source_of(one)) is not None and source_of(other) is not None:
        return source == source_of(other)
    return one.model.digest == other.model.digest


def _served(result: ResultDocument) -> tuple[Any, ...]:
    """What makes it another server, or other work for it, at the same batch size."""
    settings = result.backend.settings
    job = (result.provenance.model_extra or {}).get("job") or {}
    return (
        result.format,
        (job.get("convert") or {}).get("precision") or result.model.precision,
        *(settings.get(name) for name in ("engine", "threads", "instances", "engine_settings")),
        # One that merges requests executes other batches than it is asked for.
        (job.get("serve") or {}).get("batching"),
        (job.get("requests") or {}).get("sizes"),
        job.get("processors"),
        result.device.cores,
        result.load.network,
        result.load.protocol,
        result.load.transport or "network",
        # Of what the others on its device left it a run tells nothing of a model alone.
        bool(result.extensions.get("sharing")),
    )
