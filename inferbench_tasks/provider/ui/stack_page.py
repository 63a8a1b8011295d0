"""The page of traced models across the stack: analyses of two stacks side by side, and what makes the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.stack.base import Subject
from inferbench_tasks.analysis.stack.document import Document, analysed, labelled, outlined, summary
from inferbench_tasks.analysis.stack.stored import BY, newest, traced_models
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.stack import MOST_MODELS, By
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.provider.ui.titled import titled

router = APIRouter(include_in_schema=False)
#: Rows of each analysis on the page; CSV has all.
MOST_ROWS = 30


@router.get("/stack", response_class=HTMLResponse)
def stack(
    db: Store,
    model: Annotated[str, Query(max_length=2000)] = "",
    by: By = "stack",
    run: Annotated[list[str], Query(max_length=2)] = [],  # noqa: B006
) -> HTMLResponse:
    """``model``: names, separated by spaces; without any the models that were traced. ``run``: the one or two of the
    stacks whose analyses are shown; the fastest of a model and the next one unless asked.
    """
    names, problem, document = model.split(), None, None
    shown: list[Document] = []
    try:
        if len(names) > MOST_MODELS:
            raise InputError(f"{len(names)} models are more than are set side by side ({MOST_MODELS})")
        if names:
            found, left_out = newest(db, names, by)
            subjects = labelled(found)
            document = outlined(subjects, left_out)
            shown = _shown(subjects, document, [text for text in run if text])
    except InputError as error:
        problem = str(error)
    asked = {"model": names, "by": by}
    return page(
        "stack.html",
        here="stack",
        model=model,
        by=by,
        ways=tuple(BY),
        traced=[] if names else traced_models(db),
        problem=problem,
        rows=summary(document) if document else [],
        sides=shown,
        parts=_parts(shown),
        comparisons=document["comparisons"] if document else [],
        left_out=document["left_out"] if document else [],
        csv="/inferbench/api/stack" + query(**asked, format="csv"),
        json="/inferbench/api/stack" + query(**asked),
    )


@dataclass(frozen=True)
class Cells:
    """The beginning of a table: its columns, each with whether it has numbers, and of how many rows these are."""

    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[Any]]
    of: int


def cells(rows: Sequence[dict[str, Any]]) -> Cells:
    """The first ``MOST_ROWS`` of an analysis, whose rows have the same columns."""
    names = list(rows[0]) if rows else []
    columns = [(name, any(_is_number(row[name]) for row in rows)) for name in names]
    return Cells(columns, [[row[name] for name in names] for row in rows[:MOST_ROWS]], len(rows))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(subjects: Sequence[Subject], document: Document, runs: Sequence[str]) -> list[Document]:
    """The analyses of these runs, in the order of the runs; of the usual ones without any. InputError for another run.

    ``document``: ``outlined`` of all.
    """
    by_run = {subject.profile.run_id: subject for subject in subjects}
    if not runs and document["comparisons"]:
        runs = [document["comparisons"][0][side] for side in ("left", "right")]
    elif not runs:
        runs = list(by_run)[:1]
    for run in runs:
        if run not in by_run:
            raise InputError(f"{run} is none of these stacks; they are {', '.join(by_run)}", field="run")
    return [analysed(by_run[run]) for run in dict.fromkeys(runs)]


def _parts(shown: Sequence[Document]) -> list[dict[str, Any]]:
    """The analyses in their order, each with a side for each stack."""
    return [
        {
            **{name: of_all[0][name] for name in ("name", "number", "title", "formula")},
            "sides": [_side(stack, each) for stack, each in zip(shown, of_all, strict=True)],
        }
        for of_all in zip(*(stack["analyses"] for stack in shown), strict=True)
    ]


def _side(stack: Document, analysis: Document) -> dict[str, Any]:
    run, name = (quote(of, safe="") for of in (stack["run"], analysis["name"]))
    return {
        "label": stack["label"],
        "run": stack["run"],
        "sentence": analysis["sentence"],
        "missing": analysis["missing"],
        "drawing": titled(analysis["figure"]),
        "table": cells(analysis["rows"]),
        "csv": f"/inferbench/api/traces/{run}/analyses/{name}" + query(format="csv"),
    }
