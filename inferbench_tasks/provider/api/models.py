"""Models over REST: which there are, and all that PerfDB knows of one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.evaluations.listed import PART, TRAINING
from inferbench_tasks.brick_jobs.queries import cuts_of_model
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.dotted import value_at
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.held import Row, configuration, held, identity
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.api.runs import page_of
from inferbench_tasks.training.listing import listed, row

router = APIRouter(tags=["models"])
COLUMNS = ("model", "task", "valid_results", "configurations", "devices", "newest")
#: Of each kind of line that is told of one model.
MOST = 20
_NAME, _TASK = "model.name", "model.task"
_EVALUATED = judged_on.DATA_PATHS[0]


@router.get("/models", summary="The models that PerfDB has results of")
def list_models(request: Request, db: Store, format: Format = None) -> Response:
    """The one with the newest valid result first: how many there are of it, of how many configurations, on which
    devices. A model without a valid result is there, too.
    """
    return table(request, format, models(db), name="models", columns=COLUMNS)


@router.get("/model", summary="All that is known of one model")
def one_model(request: Request, db: Store, name: Annotated[str, Query(max_length=300)]) -> Response:
    """``model`` as it was served last, its newest ``runs``, ``evaluations``, ``trainings``, ``bricks``, ``manifests``
    and the ``submissions`` that asked for it. 404 for a model of which nothing is known.
    """
    return table(request, "json", [], plain(about(db, name, Catalogue.here(db, "model"))))


def models(db: PerfDB) -> list[dict[str, Any]]:
    """A line for each model that any result is of, valid or not."""
    index = held(db)
    name, task, device, created = map(index.values, (_NAME, _TASK, "device.name", "created_at"))
    rows_by_model: dict[str, list[Row]] = {}
    for each in index.rows():
        rows_by_model.setdefault(str(name(each)), []).append(each)
    lines = [
        {
            "model": model,
            "task": task(members[0]),
            "valid_results": len(members),
            "configurations": len({configuration(each) for each in members}),
            "devices": sorted({str(device(each)) for each in members if device(each)}),
            "newest": created(members[0]),
        }
        for model, members in rows_by_model.items()
    ]

    def names() -> list[Any]:
        return list(db.collection("results").distinct(_NAME))

    others = {str(of) for of in db.retrying(names, "asking which models there are")} - rows_by_model.keys()
    nothing: dict[str, Any] = {
        "task": None,
        "valid_results": 0,
        "configurations": 0,
        "devices": [],
        "newest": None,
    }
    return lines + [{"model": model, **nothing} for model in sorted(others)]


def about(db: PerfDB, name: str, catalogue: Catalogue) -> dict[str, Any]:
    """What ``GET /model`` answers, with these manifests; 404 where nothing is known of such a model."""
    results = db.find_results({_NAME: name}, limit=1)
    valid = _valid(db, name)
    # The query language would take a * in a name for a pattern.
    runs = [of for of in page_of(db, [f"model={name}"], "", MOST, 0)[0] if of["model"] == name]
    cuts = cuts_of_model(db, name, MOST)
    known: dict[str, Any] = {
        "model": results[0].model.model_dump(mode="json") if results else None,
        "results": db.count_results({_NAME: name}),
        "valid_results": len(valid),
        "runs": runs,
        "evaluations": _evaluations(db, valid),
        "trainings": [row(of) for of in listed(db, {"model": name}, limit=MOST)],
        "bricks": {"cuts": cuts, "predictions": _predictions(db, name)},
        "manifests": [entry.row() for entry in catalogue.entries("model", name)],
        "submissions": _submissions(db, valid),
    }
    if not any((results, runs, known["trainings"], cuts, known["manifests"])):
        raise not_found(
            f"nothing is known of a model {name[:100]!r}; GET /models lists those that have results"
        )
    return {"name": name, **known}


def _valid(db: PerfDB, name: str) -> list[Row]:
    """Its valid results, newest first."""
    return list(held(db).rows({_NAME: {"$in": [name]}}))


def _evaluations(db: PerfDB, valid: list[Row]) -> list[dict[str, Any]]:
    """The newest valid results with answers that were judged: on which samples, and each measure."""
    evaluated = held(db).values(_EVALUATED)
    runs = [identity(each)[0] for each in valid if evaluated(each)][:MOST]
    fields = (
        "run_id",
        "attempt",
        "verdict",
        "created_at",
        "format",
        "backend.kind",
        "model.precision",
        *judged_on.PATHS,
        PART,
        TRAINING,
    )
    found = db.find_raw(
        {"run_id": {"$in": runs}}, fields=(*fields, "extensions.evaluation.under_load.measures")
    )
    return lines_of([to_plain(each) for each in found])


def lines_of(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of all attempts of evaluated runs a line for each run whose last attempt is valid: that is what a run opens.

    ``part``: of a run that asked only that, ``1/8``; ``training``: models are usually trained on these very samples.
    """
    last: dict[str, int] = {}
    for document in documents:
        run = document["run_id"]
        last[run] = max(document["attempt"], last.get(run, 0))
    lines = []
    for document in documents:
        if document["verdict"] != "valid" or document["attempt"] != last[document["run_id"]]:
            continue
        evaluation = (document.get("extensions") or {}).get("evaluation") or {}
        measures = (evaluation.get("under_load") or {}).get("measures") or {}
        lines.append(
            {
                "run": document["run_id"],
                "attempt": document["attempt"],
                "created": document["created_at"],
                "format": document.get("format"),
                "precision": (document.get("model") or {}).get("precision"),
                "backend": (document.get("backend") or {}).get("kind"),
                "judged_on": judged_on.of_document(document),
                "part": value_at(document, PART),
                "training": bool(value_at(document, TRAINING)),
                "measures": measures,
            }
        )
    return lines


def _predictions(db: PerfDB, name: str) -> list[dict[str, Any]]:
    """The newest that its bricks gave, for each batch size, granularity, precision and setting."""
    where = {"role": "model", "verdict": "valid", _NAME: name}
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for result in db.results_of(BricksResult, where, NEWEST_FIRST, MOST):
        for one in result.predictions:
            of = (
                one.batch_size,
                one.granularity,
                result.precision,
                result.setting.get("processor"),
                result.setting.get("threads"),
                result.setting.get("runtime"),
            )
            names = ("batch_size", "granularity", "precision", "device", "threads", "runtime")
            line = {
                "run": result.run_id,
                **dict(zip(names, of, strict=True)),
                "ms": one.best.ms,
                "ci95_ms": [one.best.low_ms, one.best.high_ms],
                "measured_ms": one.measured.ms if one.measured else None,
            }
            lines.setdefault(of, line)
    return list(lines.values())


def _submissions(db: PerfDB, valid: list[Row]) -> list[dict[str, Any]]:
    """The submissions of its valid results, those that came last first."""
    of = held(db).values("submission.name")
    counts: dict[str, int] = {}
    for each in valid:
        counts[str(of(each))] = counts.get(str(of(each)), 0) + 1
    return [{"name": name, "valid_results": count} for name, count in list(counts.items())[:MOST]]
