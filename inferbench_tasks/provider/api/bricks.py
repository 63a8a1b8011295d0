"""Bricks over REST: what is known of which device, one brick, a model's latency from them, a corpus' study."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs import queries
from inferbench_tasks.brick_jobs.advise import advised
from inferbench_tasks.brick_jobs.gaps import gaps
from inferbench_tasks.brick_jobs.shared import shared
from inferbench_tasks.brick_jobs.spec import Precision
from inferbench_tasks.brick_jobs.stored import predicted
from inferbench_tasks.bricks.bounds import MOST_BATCH
from inferbench_tasks.bricks.corpus import corpora
from inferbench_tasks.bricks.prediction import require_calibrating
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.api.problems import blame, not_found
from inferbench_tasks.provider.api.runs import Limit, Offset, following
from inferbench_tasks.regression.machines import drifts

router = APIRouter(tags=["bricks"], prefix="/bricks")
Text = Annotated[str, Query(max_length=300)]
Device = Annotated[str, Query(max_length=300, description="Part of the processor's name; any by default.")]

#: Up to bounds.MOST_GRANULARITY.
Granularity = Annotated[str, Query(pattern=r"^([1-9][0-9]{0,2}|1000|whole)$")]
Runtime = Annotated[str, Query(max_length=100, description="By which the bricks are executed.")]


@router.get("", summary="Times of bricks, a page at a time")
def list_bricks(
    request: Request,
    db: Store,
    device: Device = "",
    operators: Annotated[str, Query(max_length=300, description="Of the brick, such as Conv.")] = "",
    model: Annotated[str, Query(max_length=300, description="One whose bricks they are.")] = "",
    limit: Limit = 50,
    offset: Offset = 0,
    format: Format = None,
) -> Response:
    """``items``, the newest first, ``next_offset`` (null on the last page) and ``truncated``: there are more that no
    offset reaches. Times are ms. Where a device has times of several hosts each has its ``host``.
    """
    with blame("device"):
        rows = queries.listed(db, device, operators, model, limit + 1, offset)
    body = {"items": plain(rows[:limit]), **following(offset, limit, len(rows) > limit)}
    columns = queries.columns(rows[:limit])
    return table(request, format, plain(rows[:limit]), body, name="bricks", columns=columns)


@router.get("/devices", summary="How much is known of which device")
def devices(request: Request, db: Store, format: Format = None) -> Response:
    """A line for each setting: processor, instruction set, cores, threads, runtime, version of the method; where a
    device has times of several hosts, the names of those that measured at it (``hosts``)."""
    return table(request, format, queries.devices(db), name="brick-devices")


@router.get("/gaps", summary="What is missing on which device")
def brick_gaps(request: Request, db: Store, device: Device = "", format: Format = None) -> Response:
    """A line for each model, batch size, granularity and precision that was cut, and device where bricks of it have no
    time (``missing``), or one that is older than 30 days (``old``); both are null of what was not cut for it, which
    ``note`` says."""
    with blame("device"):
        rows = gaps(db, device)
    return table(request, format, rows, name="brick-gaps")


@router.get("/drift", summary="How fast each device was, session after session of bricks")
def drift(request: Request, db: Store, device: Device = "", format: Format = None) -> Response:
    """A line for each setting and host that anything was measured at (``host``: null where it is not known):
    ``level_ratio``, what the reference bricks took in the newest session over its first (1.1: a tenth slower), the same
    of each (``references``) and of each session (``points``), and its ``changes``, by E-Divisive at 1%."""
    return table(request, format, plain(drifts(db, device)), name="brick-drift")


@router.get("/shared", summary="What each two models have in common")
def shared_bricks(request: Request, db: Store, device: Device = "", format: Format = None) -> Response:
    """A line for each two of the models that were cut last, alike: ``jaccard_ratio``, the bricks that are timed once
    for both over those that either has, 0 to 1; with a model itself 1."""
    with blame("device"):
        found = shared(db, device)
    rows = [
        {"model": one, "other": other, "jaccard_ratio": found.grid[at][beside]}
        for at, one in enumerate(found.models)
        for beside, other in enumerate(found.models)
    ] if found else []  # fmt: skip
    return table(request, format, rows, name="brick-shared", columns=("model", "other", "jaccard_ratio"))


@router.get("/predict", summary="A model's latency from stored times; nothing is run")
def predict(
    request: Request,
    db: Store,
    model: Annotated[str, Query(min_length=1, max_length=300)],
    device: Device = "",
    batch_size: Annotated[int, Query(ge=1, le=MOST_BATCH)] = 1,
    granularity: Granularity = "1",
    precision: Precision = "fp32",
    runtime: Runtime = DEFAULT,
    threads: Annotated[int, Query(ge=1, le=4096, description="Of the runtime.")] = 1,
    calibrate_on: Annotated[int, Query(ge=0, le=100, description="Above 3 by class of bricks.")] = 3,
) -> Response:
    """``predicted_ms`` with its interval and its ``coverage_ratio``, the share of it that is measured: bricks that are
    ``missing`` are interpolated where the model is measured at a smaller and at a larger batch size
    (``interpolated_ratio``, ``interpolated_between``), else estimated. Below 90% a ``warning`` comes first; all are
    null where there is no estimate. ``calibrated_by``: the models whose factor it is; ``judged_by``: how many others
    tell how far it may be off, 0 where the interval is of the bricks' spread alone; ``state``: of the caches, in which
    the times are that are added up to ``constructed_ms`` (``warm_ms`` and ``streamed_ms`` are both sums);
    ``calibrated_by_class_ms``: with a factor for each class of bricks; ``origins``: on which hosts its times were
    measured, what was interpolated, what estimated, and from whose times; ``timed_on``: all these hosts, where they are
    several, or another than the leader. A model with free inputs is at the sizes of them at which it was cut last
    (``shapes``). 404 for a ``device`` that is part of several processors' names, with these, for ``threads`` that
    nothing was timed with there, and for a batch size beyond those that the model is measured at, with these."""
    with blame("calibrate_on"):
        require_calibrating(calibrate_on)
    try:
        found = predicted(
            db, model, device, batch_size, granularity, calibrate_on,
            precision=precision, runtime=runtime, threads=threads,
        )  # fmt: skip
    except InputError as error:
        raise not_found(str(error)) from error
    return table(request, "json", [], plain(found))


@router.get("/advise", summary="Which device for a model, or which model for a task; nothing is run")
def advise(
    request: Request,
    db: Store,
    model: Text = "",
    task: Text = "",
    device: Device = "",
    batch_size: Annotated[int, Query(ge=1, le=MOST_BATCH)] = 1,
    granularity: Granularity = "1",
    precision: Precision = "fp32",
    runtime: Annotated[str, Query(max_length=100, description="Of which alone; all that have times.")] = "",
    slo_ms: Annotated[float | None, Query(gt=0, le=1e9)] = None,
) -> Response:
    """``ranked``: the top three by predicted latency, with the probabilities that each is faster than the next and
    that its mean time is within ``slo_ms``, null where they can't be told, what 1,000 requests (``usd_per_1k``,
    ``g_per_1k``) and 1,000 samples (``_samples``) cost, and how old its times are (``oldest_at``, ``newest_at``,
    ``old``: so many of more than 30 days); ``left_out``: what is not measured enough, not calibrated where others are,
    or not cut for a device, and why. Models are compared on one processor, with one number of cores and of threads and
    one version of each runtime."""
    try:
        found = advised(db, model, task, device, batch_size, granularity, slo_ms, precision, runtime)
    except InputError as error:
        raise not_found(str(error)) from error
    return table(request, "json", [], plain(found))


@router.get("/study/{corpus}", summary="How much of a corpus recurs")
def study(request: Request, corpus: str) -> Response:
    """What `inferbench bricks study` found last, by view and granularity: ``studies``; their ``devices``: how near what
    is constructed came to the models' own times on each, and the speed-up, by granularity."""
    if corpus not in corpora():
        raise not_found(f"there is no corpus {corpus!r}; known: {', '.join(corpora())}")
    folder = settings.data_dir() / "bricks" / "studies"
    kept: list[Any] = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{corpus}-*.json"))]
    found = [study for study in kept if study["corpus"] == corpus]  # not of a file that is called alike
    if not found:
        raise not_found(f"{corpus} was not studied here; run: inferbench bricks study {corpus}")
    return table(request, "json", [], {"studies": found})


@router.get("/{key}", summary="One brick, with all that was measured of it")
def one_brick(key: str, request: Request, db: Store) -> Response:
    """By its key, or the unique start of it: operators, the shapes and types of its ``inputs``, ``outputs`` and
    ``weights`` (null of one that was measured before they were kept), ``flops`` (about; null where an
    operator's are not counted) and ``bytes`` of a run, the models that it is in, its times by device."""
    try:
        found = queries.shown(db, key)
    except InputError as error:
        raise not_found(str(error)) from error
    return table(request, "json", [], plain(found))
