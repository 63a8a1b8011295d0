"""Documents that an earlier version stored, and what it made of them: see ``tests/data/golden/README.md``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from bson import json_util

from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain

FOLDER = Path(__file__).parents[2] / "data" / "golden"
_OPTIONS = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True)


@cache
def expected() -> dict[str, Any]:
    """What that version made of the documents, by the names of then."""
    read: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    return read


def collections() -> list[str]:
    """The collections that there are documents of."""
    return sorted(path.stem for path in (FOLDER / "documents").glob("*.json"))


@cache
def stored(collection: str) -> list[dict[str, Any]]:
    """A collection's documents as MongoDB gives them; not to be changed."""
    text = (FOLDER / "documents" / f"{collection}.json").read_text(encoding="utf-8")
    documents: list[dict[str, Any]] = json_util.loads(text, json_options=_OPTIONS)
    return documents


def key(run: str, attempt: int) -> str:
    """Names a result here."""
    return f"{run}#{attempt}"


@cache
def results() -> dict[str, ResultDocument]:
    """Every result as today's code reads it, by ``key``."""
    plain = [{name: value for name, value in to_plain(d).items() if name != "_id"} for d in stored("results")]
    return {key(d["run_id"], d["attempt"]): ResultDocument.model_validate(d) for d in plain}


def fill(db: PerfDB) -> PerfDB:
    """A PerfDB that holds all of it."""
    for name in collections():
        db.collection(name).insert_many(stored(name))
    return db
