"""Which results used a version of a manifest, by the locks that they keep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.manifests.used import UsedManifests
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain

_LOCK = "extensions.lock"
_NAMED, _DATA = f"{_LOCK}.manifests", f"{_LOCK}.data.evaluation.manifest"
_FIELDS = (
    "run_id", "attempt", "created_at", "model.name", "format", "backend.kind", "backend.version", "device.name",
    "device.kind", "verdict", _NAMED, _DATA, f"{_LOCK}.digest",
)  # fmt: skip
#: Clocks of hosts are not further apart.
_APART = timedelta(days=1)


def results_of(db: PerfDB, manifest: Manifest, limit: int, offset: int = 0) -> list[dict[str, Any]]:
    """A row for each attempt that the manifest was named for, of a data set for each that was judged on it; the newest
    first.

    ``asked``: as it was named, None where a data set was taken without a constraint. ``digest``: of what the manifest
    said then; ``same``: whether it says that now. ``lock``: the digest of all that the result was of.
    """
    where = _judged(manifest) if manifest.kind == "dataset" else _named(db, manifest)
    if where is None:
        return []
    return [
        _row(manifest, to_plain(each)) for each in db.find_raw(where, NEWEST_FIRST, limit, offset, _FIELDS)
    ]


def _judged(manifest: Manifest) -> dict[str, Any]:
    """Of a data set: whoever asks it keeps its manifest, named or not."""
    one = {f"{_DATA}.name": manifest.name, f"{_DATA}.version": manifest.version}
    return {"extensions.evaluation": {"$exists": True}, **one}  # of which there is an index


def _named(db: PerfDB, manifest: Manifest) -> dict[str, Any] | None:
    """None where no run is noted to have named it. No index has the names in locks: what is older than the first run
    that is noted is not looked at, so results of before uses were noted (``UsedManifests.since``) are not among these.
    """
    first = UsedManifests(db).first(manifest.id)
    if first is None:
        return None
    one = {"kind": manifest.kind, "name": manifest.name, "version": manifest.version}
    return {"created_at": {"$gte": first - _APART}, _NAMED: {"$elemMatch": one}}


def _row(manifest: Manifest, result: dict[str, Any]) -> dict[str, Any]:
    named = next(
        (
            record
            for record in value_at(result, _NAMED) or ()
            if (record["kind"], record["name"], record["version"])
            == (manifest.kind, manifest.name, manifest.version)
        ),
        None,
    )
    digest = (named or value_at(result, _DATA))["digest"]
    return {
        "run": result["run_id"],
        "attempt": result["attempt"],
        "created": result["created_at"],
        "model": value_at(result, "model.name"),
        "format": result.get("format"),
        "backend": value_at(result, "backend.kind"),
        "version": value_at(result, "backend.version"),
        "device": value_at(result, "device.name") or value_at(result, "device.kind"),
        "verdict": result["verdict"],
        "asked": named and named["asked"],
        "digest": digest,
        "same": digest == manifest.digest,
        "lock": value_at(result, f"{_LOCK}.digest"),
    }
