"""Analyses across the stack over REST: models that were traced, several stacks side by side, one analysis of a run."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.stack.base import ANALYSES
from inferbench_tasks.analysis.stack.document import analysis, labelled, stacks, summary
from inferbench_tasks.analysis.stack.stored import newest, subject_of, traced_models
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table, wants_csv
from inferbench_tasks.provider.api.problems import blame, not_found
from inferbench_tasks.submission.finding import unknown
from inferbench_tasks.tracing.stored import refuse_imported

router = APIRouter(tags=["traces"])
By = Literal["stack", "version", "system"]
#: So many models are set side by side at most.
MOST_MODELS = 20


@router.get("/stack", summary="Models across stacks, versions or systems, layer by layer")
def stack(
    request: Request,
    db: Store,
    model: Annotated[list[str], Query(max_length=MOST_MODELS)],
    by: By = "stack",
    format: Format = None,
) -> Response:
    """``stacks``: the newest valid traced run of each, else the newest; ``comparisons``: each with the fastest valid
    one of its model; ``left_out``: which runs can't be analysed, and why.

    CSV has a row for each of ``stacks``.
    """
    with blame("model"):
        subjects, left_out = newest(db, model, by)
        document = stacks(labelled(subjects), left_out)
    rows = summary(document) if wants_csv(request, format) else []
    return table(request, format, rows, plain(document), name="stack")


@router.get("/stack/models", summary="The models whose traced runs tell of layers")
def list_models(request: Request, db: Store, format: Format = None) -> Response:
    """The one that was traced last first: how many runs there are, on which backends."""
    rows = traced_models(db)
    return table(request, format, rows, plain({"items": rows}), name="traced-models")


@router.get("/traces/{run}/analyses/{name}", summary="One analysis across the stack of a traced run")
def one_analysis(run: str, name: str, request: Request, db: Store, format: Format = None) -> Response:
    """Its table (``rows``), formula, sentence and figure, or what is ``missing``; CSV has the table, or is a 404 that
    says what is missing.
    """
    try:
        if name not in ANALYSES:
            raise InputError(unknown(ANALYSES, name))
        refuse_imported(run)
        result = db.get_result(db.resolve_run(run))
        document = analysis(name, subject_of(db, result))
        if document["missing"] and wants_csv(request, format):
            raise InputError(f"{name} of {result.run_id} needs {document['missing']}")
    except InputError as error:
        raise not_found(str(error)) from error
    return table(request, format, document["rows"], plain(document), name=name)
