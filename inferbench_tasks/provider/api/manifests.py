"""Manifests over REST: what there is by name and version."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.catalogue import Catalogue, parse_id
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table
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
    try:
        kind, name, constraint = parse_id(id)
        if not kind:
            raise InputError("name the kind, too: KIND:NAME@CONSTRAINT, such as model:digits@^1")
        entry = Catalogue.here(db).resolve(kind, name, constraint).entry
    except InputError as error:
        raise not_found(str(error)) from error
    document: dict[str, Any] = {
        **entry.manifest.content(),
        "digest": entry.manifest.digest,
        "origin": entry.origin,
    }
    return table(request, "json", [], document)
