"""By which fields the leaderboard's picture can be coloured: those of what was run, settings of servers, figures."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from inferbench_tasks.contracts.drawn import settled
from inferbench_tasks.dotted import flatten, value_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.fields import OPEN, SETTINGS, Field, of_figure
from inferbench_tasks.perfdb.held import held, identity
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: Fields that tell every run from every other, or nothing of what ran: no colours.
_OF_ONE_RUN = ("run", "job", "invocation", "attempt")
#: What the picture is coloured by at first, which is offered whatever there is.
USUAL = "backend"
#: A field is offered that any of so many newest valid results has.
_LOOKED_AT = 500
#: What settings of servers begin with in queries, and parts of their paths that a query can name.
_SETTING = "settings."
_PART = re.compile(r"[A-Za-z0-9_-]{1,100}")


def colours(db: PerfDB) -> dict[str, list[str]]:
    """Heading -> the fields below it that newest valid results have a value of."""
    index = held(db)
    rows = index.rows()[:_LOOKED_AT]
    known: dict[tuple[str, int], frozenset[str]] = index.kept("colours", 10 * _LOOKED_AT)
    if missing := [identity(row) for row in rows if identity(row) not in known]:
        paths = [f.path for f in (*_of_runs(), *_of_figures())]
        where = {"run_id": {"$in": [run for run, _ in missing]}}
        for document in db.find_raw(where, BY_RUN, fields=["run_id", "attempt", *paths, OPEN["settings"]]):
            plain = to_plain(document)
            known[plain["run_id"], plain["attempt"]] = _told(plain)
    # Nearly all say the same: each such set once.
    told = frozenset().union(*{known.get(identity(row), frozenset()) for row in rows})
    return {
        "What was run": [f.name for f in _of_runs() if f.name == USUAL or f.name in told],
        "Settings of the server": sorted(name for name in told if name.startswith(_SETTING)),
        "Figures": [f.name for f in _of_figures() if f.name in told],
    }


@cache
def _of_runs() -> tuple[Field, ...]:
    return tuple(f for f in SETTINGS if f.kind in ("text", "number") and f.name not in _OF_ONE_RUN)


@cache
def _of_figures() -> tuple[Field, ...]:
    return tuple(of_figure(figure) for figure in FIGURES.offered(streamed=True))


def _told(document: dict[str, Any]) -> frozenset[str]:
    """The fields that a result has a value of, and the settings of its server."""
    there = (f.name for f in (*_of_runs(), *_of_figures()) if f.value(document) is not None)
    return frozenset((*there, *_settings(document)))


def _settings(document: dict[str, Any]) -> set[str]:
    return {
        f"{_SETTING}{path}"
        for path, value in flatten(settled(value_at(document, OPEN["settings"]) or {})).items()
        if isinstance(value, str | int | float) and not path.startswith("env.")
        # A query has no words for others.
        and path.count(".") < 8 and all(map(_PART.fullmatch, path.split(".")))
    }  # fmt: skip
