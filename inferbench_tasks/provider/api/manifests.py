"""Manifests over REST: what there is by name and version, and which results used it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.catalogue import Catalogue, Entry, parse_id
from inferbench_tasks.manifests.results import results_of
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.api.runs import Limit, Offset, following

router = APIRouter(tags=["manifests"])
Word = Annotated[str, Query(max_length=100)]


@router.get("/manifests", summary="Manifests by kind and name, the newest version first")
def list_manifests(
    request: Request,
    db: Store,
    kind: Word = "",
    name: Word = "",
    limit: Limit = 50,
    offset: Offset = 0,
    format: Format = None,
) -> Response:
    """``items`` with digest and origin, ``next_offset`` (null on the last page) and ``truncated``: there are more that
    no offset reaches.
    """
    entries = Catalogue.here(db).entries(kind, name)
    rows = [entry.row() for entry in entries[offset : offset + limit]]
    body = {"items": rows, **following(offset, limit, len(entries) > offset + limit)}
    return table(request, format, rows, body, name="manifests")


@router.get("/manifests/{id}", summary="One manifest in full")
def one_manifest(id: str, request: Request, db: Store) -> Response:
    """``id``: ``KIND:NAME@CONSTRAINT``, such as ``model:digits@^1``: the newest that fits. 404 says what there is."""
    entry = entry_of(db, id)
    document: dict[str, Any] = {
        **entry.manifest.content(),
        "digest": entry.manifest.digest,
        "origin": entry.origin,
    }
    return table(request, "json", [], document)


@router.get("/manifests/{id}/results", summary="The results that used a manifest")
def results(
    id: str, request: Request, db: Store, limit: Limit = 50, offset: Offset = 0, format: Format = None
) -> Response:
    """``items``, the newest first: as which name each asked for it, whether the manifest says the same now, and the
    digest of its lock. Of a data set all that were judged on it.
    """
    entry = entry_of(db, id)
    rows = results_of(db, entry.manifest, limit + 1, offset)
    body = {"items": plain(rows[:limit]), **following(offset, limit, len(rows) > limit)}
    return table(request, format, rows[:limit], body, name="results")


def entry_of(db: PerfDB, id: str, known: Catalogue | None = None) -> Entry:
    """The manifest that an id means, among all that there are (``known``, where they were read); 404 says what there
    is."""
    try:
        kind, name, constraint = parse_id(id)
        if not kind:
            raise InputError("name the kind, too: KIND:NAME@CONSTRAINT, such as model:digits@^1")
        return (known or Catalogue.here(db)).resolve(kind, name, constraint).entry
    except InputError as error:
        raise not_found(str(error)) from error
