"""Evaluations over REST: how right answers were beside how fast, one with its samples, two in pairs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.evaluations.found import evaluations
from inferbench_tasks.analysis.evaluations.listed import evaluation_of, flat, row
from inferbench_tasks.analysis.evaluations.samples import Only, picked, rows
from inferbench_tasks.analysis.evaluations.stored import answers_of, compare_stored, together_stored
from inferbench_tasks.analysis.evaluations.varied import rows as varied_rows
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table, wants_csv
from inferbench_tasks.provider.api.problems import blame, not_found
from inferbench_tasks.provider.api.runs import Limit, Offset, Q, following
from inferbench_tasks.submission.part import MOST_PARTS

router = APIRouter(tags=["evaluations"])
#: Samples further in are asked for by their kind: whole files of answers are no page.
SampleOffset = Annotated[int, Query(ge=0, le=10_000_000)]
Dataset = Annotated[
    str, Query(max_length=200, description="What was asked: digits, words, folder; or a folder's name.")
]


@router.get("/evaluations", summary="Evaluated runs, a page at a time: measures beside speed")
def list_evaluations(
    request: Request, db: Store, q: Q = "", dataset: Dataset = "", limit: Limit = 50, offset: Offset = 0,
    format: Format = None,
) -> Response:  # fmt: skip
    """``items``, the newest first: each ``measures`` with value and 95% interval, or why they are ``withheld``.
    ``next_offset`` is null on the last page; ``truncated``: there are more that no offset reaches.

    Filters stand in ``q``: ``model=digits device=cpu backend=openvino verdict=valid``. CSV has a column for each
    measure and each end of its interval. The parts of one evaluation (``evaluate.parts``) are one item: ``run`` is the
    first of them, ``parts`` how many, and each had a load of its own, so that there is no speed.
    """
    with blame("q"):
        found = evaluations(db, q, dataset, limit + 1, offset)
    items = found[:limit]
    body = {"items": plain(items), **following(offset, limit, len(found) > limit)}
    return table(request, format, flat(items) if wants_csv(request, format) else [], body, name="evaluations")


@router.get("/evaluations/compare", summary="Two evaluations of the very same samples, in pairs")
def compare(
    request: Request,
    db: Store,
    run: Annotated[list[str], Query(max_length=2)],
    limit: Limit = 50,
    offset: SampleOffset = 0,
    format: Format = None,
) -> Response:
    """``measures`` with difference, interval and p; ``differ``: in how many samples; ``differing``: which.

    CSV has the measures.
    """
    with blame("run"):
        document = compare_stored(db, run, limit, offset)
    return table(request, format, document["measures"], plain(document), name="pairs")


@router.get("/evaluations/together", summary="The parts of one evaluation as one")
def in_one(
    request: Request,
    db: Store,
    run: Annotated[list[str], Query(min_length=1, max_length=MOST_PARTS)],
    format: Format = None,
) -> Response:
    """``measures`` over the samples of all parts, each made anew. One run stands for all parts of its invocation.

    CSV has the measures.
    """
    with blame("run"):
        document = together_stored(db, run)
    found = [{"measure": name, **each} for name, each in document["measures"].items()]
    return table(request, format, found, plain(document), name="together")


@router.get("/evaluations/{run}", summary="One evaluation, with a part of its samples")
def one_evaluation(
    run: str,
    request: Request,
    db: Store,
    only: Annotated[Only, Query(description="Which samples.")] = "all",
    limit: Limit = 50,
    offset: SampleOffset = 0,
    format: Format = None,
) -> Response:
    """``evaluation``: its row; ``document``: all that was found; ``varied``: a row for each change of
    ``evaluate.vary``; ``samples``: ``limit`` of ``count`` from ``offset``.

    ``only``: ``wrong`` (the surest first), ``otherwise`` (another class under load than alone, or further apart than
    the bound; the furthest first), ``unanswered``. ``apart_ratio`` of a sample is null where no number says how far.
    CSV has these samples.
    """
    try:
        result = db.get_result(db.resolve_run(run))
        document = evaluation_of(result)
        chosen = picked(answers_of(db, result), only)
    except InputError as error:
        raise not_found(str(error)) from error
    found = rows(chosen, limit, offset)
    following = offset + limit if offset + limit < chosen.num_rows else None
    body = {
        "evaluation": row(result.model_dump()),
        "document": document,
        "varied": varied_rows(document),
        "count": chosen.num_rows,
        "samples": found,
        "next_offset": following,
    }
    return table(request, format, found, plain(body), name="samples")
