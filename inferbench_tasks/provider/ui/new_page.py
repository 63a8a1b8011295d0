"""New benchmark: the editor, what it begins with, and the gallery of the shipped submissions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from pathlib import Path
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.runs import find
from inferbench_tasks.provider.loader import submissions_dir
from inferbench_tasks.provider.submit.request import names
from inferbench_tasks.provider.ui.drawings import HEIGHT, WIDTH, Drawing, drawing
from inferbench_tasks.provider.ui.render import page
from inferbench_tasks.stamps import Stamp, stamp
from inferbench_tasks.submission.base import DEFAULT_KIND
from inferbench_tasks.submission.document import MAX_BYTES

router = APIRouter(include_in_schema=False)
#: What the editor begins with where nothing else is asked for.
FIRST = "quickstart"
#: Set where a submission becomes jobs, by nobody who writes one; and who asks again is who is logged in.
_NOBODYS = ("block", "user")
#: Of a picture: dots in a row and rows at most; a single axis is broken into rows of so many.
_MOST_DOTS, _ROW = 12, 8


@dataclass(frozen=True)
class Card:
    """A shipped submission in the gallery. ``axes``: what its sweep changes -> how many values.

    ``points``: of the whole sweep; ``dots``: its first two axes as ``columns`` by ``lines``, ``(x, y)`` each;
    ``drawing``: what it does.
    """

    name: str
    text: str
    kind: str
    model: str
    axes: tuple[tuple[str, int], ...]
    points: int
    columns: int
    lines: int
    dots: tuple[tuple[int, int], ...]
    drawing: Drawing


@router.get("/new", response_class=HTMLResponse)
def new(
    db: Store,
    name: Annotated[str, Query(alias="from", max_length=300)] = "",
    run: Annotated[str, Query(max_length=300)] = "",
) -> HTMLResponse:
    """The editor with a shipped submission, or with what a run asked for; nothing is sent by opening it."""
    folder = submissions_dir()
    shipped = names(folder) if folder.is_dir() else []
    problem, text, source = None, "", ""
    try:
        if run:
            text, source = again(db, run), f"run {run}"
        else:
            wanted = name or (FIRST if FIRST in shipped else "")
            if wanted:
                text, source = _shipped(folder, shipped, wanted), f"the submission {wanted}"
    except InputError as error:
        problem = str(error)
    except HTTPException as error:
        problem = str(error.detail)
    return page(
        "new.html",
        here="new",
        text=text,
        source=source,
        problem=problem,
        run=run,
        picture_size=(WIDTH, HEIGHT),
        cards=[card for each in shipped if (card := _card(folder, each))],
    )


def shipped_of(model: str) -> list[Card]:
    """The shipped submissions of a model."""
    folder = submissions_dir()
    shipped = names(folder) if folder.is_dir() else []
    return [card for each in shipped if (card := _card(folder, each)) and card.model == model]


def again(db: PerfDB, run: str) -> str:
    """What a run asked for, as YAML without what is the default anyway; one point, without its sweep."""
    record, _ = find(db, run)
    job = dict(record.job) if record else {}
    if not job:
        raise InputError(f"run {run!r} has no record of what was asked for")
    for field in _NOBODYS:
        job.pop(field, None)
    pipeline = pipeline_of(job)
    try:
        asked = pipeline.submission.model_validate(job).model_dump(mode="json", exclude_defaults=True)
    except ValidationError as error:
        raise InputError(f"run {run!r} was asked for in words that this version does not know") from error
    first = {"kind": pipeline.kind} if pipeline.kind != DEFAULT_KIND else {}
    first |= {key: asked.pop(key) for key in ("kind", "name", "description") if key in asked}
    return yaml.safe_dump({**first, **asked}, sort_keys=False, allow_unicode=True)


def _shipped(folder: Path, shipped: list[str], name: str) -> str:
    if name not in shipped:
        raise InputError(f"there is no submission {name[:100]!r} in the submissions folder")
    return _file(folder, name).read_text(encoding="utf-8", errors="replace")[:MAX_BYTES]


def _file(folder: Path, name: str) -> Path:
    return next(path for end in (".yaml", ".yml") if (path := folder / f"{name}{end}").exists())


def _card(folder: Path, name: str) -> Card | None:
    path = _file(folder, name)
    return _card_of(name, path, stamp(path))


@lru_cache(maxsize=500)
def _card_of(name: str, path: Path, read: Stamp) -> Card | None:
    """None of a file that is no mapping: the editor would only show what is wrong with it."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    if not isinstance(data, dict):
        return None
    axes = tuple(_axes(data.get("sweep")))
    across, down = ([count for _, count in axes] + [1, 1])[:2]
    if len(axes) == 1 and across > _ROW:
        across, down = _ROW, ceil(across / _ROW)
    dots = tuple((x, y) for y in range(min(down, _MOST_DOTS)) for x in range(min(across, _MOST_DOTS)))
    return Card(
        name=name,
        text=str(data.get("description", "")),
        kind=str(data.get("kind", "serving")),
        model=_model(data.get("model") or data.get("benchmark")),
        axes=axes,
        points=prod(count for _, count in axes),
        columns=min(_MOST_DOTS, across),
        lines=min(_MOST_DOTS, down),
        dots=dots[: axes[0][1]] if len(axes) == 1 else dots,
        drawing=drawing(data),
    )


def _axes(sweep: Any) -> list[tuple[str, int]]:
    if not isinstance(sweep, dict):
        return []
    grid = [
        (str(key), len(values)) for key, values in sweep.items() if key != "zip" and isinstance(values, list)
    ]
    groups = sweep.get("zip") or []
    rows = [group for group in ([groups] if isinstance(groups, dict) else groups) if isinstance(group, dict)]
    return grid + [
        (
            " with ".join(map(str, group)),
            max(len(values) for values in group.values() if isinstance(values, list)),
        )
        for group in rows
        if any(isinstance(values, list) for values in group.values())
    ]


def _model(model: Any) -> str:
    if not isinstance(model, dict):
        return str(model or "")
    return str(model.get("name") or model.get("family") or model.get("path") or "")
