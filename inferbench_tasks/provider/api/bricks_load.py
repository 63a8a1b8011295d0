"""Bricks over REST: what a serving submission would measure that has never run, from what is stored alone."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable
from threading import BoundedSemaphore
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi import Request as HttpRequest

from inferbench_tasks.brick_jobs.under_load import stored
from inferbench_tasks.brick_jobs.under_load.apart import Order, rows_apart
from inferbench_tasks.brick_jobs.under_load.limits import refuse
from inferbench_tasks.brick_jobs.under_load.rows import none_of
from inferbench_tasks.brick_jobs.under_load.timed import Timed
from inferbench_tasks.bricks.constructors import constructor_of
from inferbench_tasks.bricks.prediction import require_calibrating
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store, User
from inferbench_tasks.provider.api.bricks import Granularity
from inferbench_tasks.provider.api.output import plain, table
from inferbench_tasks.provider.api.problems import FieldError, blame, not_found
from inferbench_tasks.provider.api.submissions import REFUSED, Request, resolved_jobs
from inferbench_tasks.provider.submit.request import SOURCE
from inferbench_tasks.submission.document import Document, read_document
from inferbench_tasks.submission.schema import JobSpec, serving_only
from inferbench_tasks.submission.sweep import Job, expand

router = APIRouter(tags=["bricks"], prefix="/bricks")
#: Jobs of one question, and seconds of simulation for all of them: the command has neither bound.
MOST_JOBS, MOST_S = 20, 300.0
#: Questions that are answered at once, each by a core of this machine.
_AT_ONCE = BoundedSemaphore(2)
_SHAPE = re.compile(r"(.{1,200})=([1-9][0-9]{0,7}(?:x[1-9][0-9]{0,7}){0,15})")


@router.post(
    "/predict",
    summary="A submission's latencies under its load, from stored times; nothing is run",
    responses={
        **REFUSED,
        404: {"description": "Something has to be measured first; it says what, and the command."},
        503: {"description": "Others' questions are simulated at the moment."},
    },
)
def predict_load(
    http: HttpRequest,
    request: Request,
    user: User,
    db: Store,
    device: Annotated[str, Query(max_length=300, description="Part of the processor's name.")] = "",
    cores: Annotated[
        int | None,
        Query(
            ge=1,
            le=4096,
            description="That may be used there, where its server was measured on several numbers.",
        ),
    ] = None,
    granularity: Granularity = "1",
    calibrate_on: Annotated[int, Query(ge=0, le=100, description="Above 3 by class of bricks.")] = 3,
    constructor: Annotated[str, Query(max_length=50)] = "sequential",
    shape: Annotated[
        list[str] | None, Query(max_length=100, description="INPUT=SIZES of a free input: input_ids=128.")
    ] = None,
) -> Response:
    """``jobs``: of each job of its sweep first ``warning`` (below 90% measured) and ``coverage_ratio``, then ``state``,
    ``p50_ms``, ``p95_ms``, ``p99_ms`` with their intervals, ``capacity_rps`` and what they are made of, as
    `inferbench bricks predict FILE.yaml -o json` has them; percentiles are null where the queue grows. A job that has
    no prediction (never cut, a time missing, refused) has a ``state`` that begins with ``no prediction: `` and says
    why, in its place beside the others; 404 where that is so of every job. ``missing``: these whys, once each, with the
    command where something has to be measured. Jobs that were not simulated in time have a ``state`` that begins with
    ``not predicted: time``, beside those that were.

    No server is started, and no model is made, converted or opened: it has to have been cut before, as it is now.
    """
    with blame("constructor"):
        constructor_of(constructor)
    with blame("calibrate_on"):
        require_calibrating(calibrate_on)
    resolved, _ = resolved_jobs(request, user, db)
    jobs = expand(serving_only(resolved.submission, "POST /bricks/predict"))
    if len(jobs) > MOST_JOBS:
        raise InputError(
            f"{len(jobs)} jobs; at most {MOST_JOBS} are predicted by one request, and any number by "
            "`inferbench bricks predict FILE.yaml`",
            field="sweep",
        )
    document = _document(request)
    refuse(document, jobs, None)
    asked = stored.Asked(device, cores, granularity, calibrate_on, constructor, _shapes(shape or []))
    if not _AT_ONCE.acquire(blocking=False):
        raise HTTPException(
            503, "predictions under load of others are simulated here; try again", {"Retry-After": "10"}
        )
    try:
        rows = _rows(db, jobs, resolved.base_dir, asked, document)
    finally:
        _AT_ONCE.release()
    return table(http, "json", [], plain({"jobs": rows, "missing": stored.missing_of(rows)}))


def _rows(
    db: Any, jobs: list[Job[JobSpec]], base_dir: Any, asked: stored.Asked, document: Document
) -> list[dict[str, Any]]:
    until = time.monotonic() + MOST_S
    times: dict[Hashable, Timed | InputError] = {}
    orders: dict[int, Order] = {}
    whys: dict[int, InputError] = {}
    try:
        processor = stored.processor_of(db, asked.device)
    except InputError as error:
        raise not_found(str(error)) from error
    for at, job in enumerate(jobs):
        try:
            timed = _timed(db, job.spec, base_dir, processor, asked, times)
            overhead = stored.overhead_stored(db, job.spec, processor, asked.cores)
            orders[at] = Order(job.spec, timed, overhead, base_dir, asked.shapes or {})
        except InputError as error:
            whys[at] = error
    if not orders:
        raise not_found("; ".join(dict.fromkeys(map(str, whys.values()))))
    refuse(
        document, [jobs[at] for at in orders], min(one.overhead.conditions.cores for one in orders.values())
    )
    simulated = rows_apart(list(orders.values()), max(1.0, until - time.monotonic()))
    rows = {at: none_of(str(why)) for at, why in whys.items()} | dict(zip(orders, simulated, strict=True))
    return [{"job": job.job_id, "point": job.point, **rows[at]} for at, job in enumerate(jobs)]


def _timed(
    db: Any,
    job: JobSpec,
    base_dir: Any,
    processor: str,
    asked: stored.Asked,
    times: dict[Hashable, Timed | InputError],
) -> Timed:
    """As ``timed_uncut``, which is asked once of jobs with one answer: ``times``."""
    key = stored.model_key(job)
    if key not in times:
        try:
            times[key] = stored.timed_uncut(db, job, base_dir, processor, asked)
        except InputError as error:
            times[key] = error
    if isinstance(timed := times[key], InputError):
        raise timed
    return timed


def _document(request: Request) -> Document:
    """Its text, for the lines of what is wrong; a submission as data, or of the folder, has none here."""
    return (
        read_document(request.submission, SOURCE) if isinstance(request.submission, str) else Document(SOURCE)
    )


def _shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for text in texts:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise FieldError("shape", "no INPUT=SIZES; for instance image=3x224x224, or input_ids=128")
        shapes[match[1]] = tuple(int(size) for size in match[2].split("x"))
    return shapes
