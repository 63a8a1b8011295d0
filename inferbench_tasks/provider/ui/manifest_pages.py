"""The pages of manifests: the list by kind, name and version; one with what it needs, its hashes and its results."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.report.page import as_yaml
from inferbench_tasks.manifests.catalogue import Catalogue, parse_id
from inferbench_tasks.manifests.kinds.base import KINDS
from inferbench_tasks.manifests.results import results_of
from inferbench_tasks.manifests.used import UsedManifests
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.manifests import Word, entry_of
from inferbench_tasks.provider.api.output import CSV_ROWS
from inferbench_tasks.provider.ui.manifest_parts import needs, runs_on, sources
from inferbench_tasks.provider.ui.pager import leading_on
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.submission.finding import unknown

router = APIRouter(include_in_schema=False)
PAGE_SIZE = 100
#: Of the results that used one so many are on its page; of what it says in full so many characters; so many hashes.
MOST_RESULTS, MOST_CHARACTERS, MOST_PINS = 20, 20_000, 50


@router.get("/manifests", response_class=HTMLResponse)
def list_manifests(
    db: Store, kind: Word = "", name: Word = "", offset: Annotated[int, Query(ge=0, le=10_000)] = 0
) -> HTMLResponse:
    """By kind and name, the newest version first."""
    known = not kind or kind in KINDS
    catalogue = Catalogue.shown(db, kind if known else "")
    entries = catalogue.entries(kind, name.strip()) if known else []
    parameters = {"kind": kind, "name": name.strip()}
    more = len(entries) > offset + PAGE_SIZE
    return page(
        "manifests.html",
        here="manifests",
        problem=None if known else unknown(KINDS, kind),
        kind=kind,
        kinds=list(KINDS),
        name=name,
        rows=[entry.row() for entry in entries[offset : offset + PAGE_SIZE]],
        count=len(entries),
        wrong=catalogue.wrong,
        csv="/inferbench/api/manifests" + query(**parameters, limit=CSV_ROWS, format="csv"),
        previous=query(**parameters, offset=max(0, offset - PAGE_SIZE) or None) or "?" if offset else None,
        **leading_on(parameters, offset, PAGE_SIZE, more),
    )


@router.get("/manifest/{id}", response_class=HTMLResponse)
def one_manifest(id: str, db: Store) -> HTMLResponse:
    """The newest that fits ``KIND:NAME@CONSTRAINT``."""
    catalogue = Catalogue.shown(db)
    try:
        entry = entry_of(db, id, catalogue)
    except HTTPException as error:
        problem = str(error.detail)
        return page(
            "manifest.html", status=404, here="manifests", id=id, problem=problem, wrong=catalogue.wrong
        )
    manifest = entry.manifest
    content = manifest.content()
    text = as_yaml(content)
    results = results_of(db, manifest, MOST_RESULTS + 1)
    rest = f"/inferbench/api/manifests/{quote(manifest.id, safe='')}"
    served = runs_on(manifest)
    return page(
        "manifest.html",
        here="manifests",
        id=manifest.id,
        problem=None,
        asked=parse_id(id)[2],
        manifest=manifest,
        content=content,
        origin=entry.origin,
        wrong=catalogue.wrong,
        versions=[each.row() for each in catalogue.entries(manifest.kind, manifest.name)],
        needs=list(needs(catalogue, manifest)),
        sources=list(sources(manifest)),
        most_pins=MOST_PINS,
        text=text[:MOST_CHARACTERS],
        cut=len(text) > MOST_CHARACTERS,
        served="/inferbench/runs" + query(q=served) if served else None,
        results=results[:MOST_RESULTS],
        more_results=len(results) > MOST_RESULTS,
        noted_since=None if results else UsedManifests(db).since(),
        lock=_lock(db, results),
        json=rest,
        csv=f"{rest}/results" + query(limit=CSV_ROWS, format="csv"),
    )


def _lock(db: PerfDB, results: list[dict[str, Any]]) -> dict[str, str] | None:
    """That of the newest valid one, else of the newest, with its run."""
    locked = [row for row in results if row["lock"]]
    row = next((row for row in locked if row["verdict"] == "valid"), next(iter(locked), None))
    if row is None:
        return None
    result = db.get_result(row["run"], row["attempt"])
    return {"run": row["run"], "text": as_yaml(result.extensions["lock"])}
