"""The pages of models: which there are, and all that is known of one, with a way to each part of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.recommend.leaderboard import usual_figure
from inferbench_tasks.analysis.recommend.lines import SHOWN
from inferbench_tasks.analysis.report.measure_words import measure_text
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.models import MOST, about, models
from inferbench_tasks.provider.api.questions import board
from inferbench_tasks.provider.ui.moved import with_steadiness
from inferbench_tasks.provider.ui.new_page import shipped_of
from inferbench_tasks.provider.ui.render import page

router = APIRouter(include_in_schema=False)
#: What a model is, in a person's order, as results name it.
_FACTS = {
    "task": "task",
    "dataset": "trained for",
    "framework": "framework",
    "version": "version",
    "precision": "precision",
    "parameters": "parameters",
    "flops": "FLOPs of a sample",
    "bytes": "bytes of a sample",
    "accuracy_ratio": "accuracy of the source",
    "accuracy_reason": "why it has no accuracy",
    "batch_size": "samples of each call",
    "digest": "digest",
}


@router.get("/models", response_class=HTMLResponse)
def list_models(db: Store) -> HTMLResponse:
    """Every model that any result is of."""
    return page("models.html", here="models", models=models(db))


@router.get("/model", response_class=HTMLResponse)
def one_model(db: Store, name: Annotated[str, Query(max_length=300)] = "") -> HTMLResponse:
    """Results, evaluations, trainings, bricks, manifests and submissions of one model."""
    if not name.strip():
        return page(
            "model.html", status=422, here="models", name="", wrong=(), problem="The address names no model."
        )
    catalogue = Catalogue.shown(db, "model")
    try:
        known = about(db, name, catalogue)
    except InputError as error:  # a name that no model can have
        return page(
            "model.html", status=422, here="models", name=name, wrong=catalogue.wrong, problem=str(error)
        )
    except HTTPException as error:
        return page(
            "model.html",
            status=404,
            here="models",
            name=name,
            problem=str(error.detail),
            wrong=catalogue.wrong,
        )
    model = known["model"] or {}
    by, groups = _ranked(db, name) if known["valid_results"] else ("", [])
    return page(
        "model.html",
        here="models",
        name=name,
        problem=None,
        wrong=catalogue.wrong,
        known={**known, "runs": with_steadiness(db, known["runs"])},
        facts={title: model[field] for field, title in _FACTS.items() if model.get(field) is not None},
        by=FIGURES.named(by) if by else None,
        groups=groups,
        settings=[
            of
            for of in ("model_apart", *SHOWN)
            if of != "model" and any(r.get(of) is not None for g in groups for r in g["rows"])
        ],
        measures=_measure_lines(known["evaluations"]),
        shipped=shipped_of(name),
        shown=FIGURES.on("list"),
        most=MOST,
    )


def _ranked(db: PerfDB, name: str) -> tuple[str, list[dict[str, Any]]]:
    """The leaderboard's figure for this model, and its configurations by it, in the leaderboard's groups."""
    try:
        by = usual_figure(db, [f"model={name}"])
        # The query language would take a * in a name for a pattern.
        rows = [row for row in board(db, by, [f"model={name}"], MOST).rows if row["model"] == name]
    except InputError:
        return "", []
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        task = " on ".join(part for part in (row["task"], row["dataset"]) if part) or "No task named"
        groups.setdefault(f"{task}: {row['load']}", []).append(row)
    return by, [{"title": title, "rows": members} for title, members in groups.items()]


def _measure_lines(evaluations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each evaluation with its measures in words."""
    return [
        {
            **of,
            "words": "; ".join(
                f"{name} {measure_text(name, value)}" for name, value in of["measures"].items()
            ),
        }
        for of in evaluations
    ]
