"""By which fields the leaderboard's picture can be coloured: those of what was run, settings of servers, figures."""

from __future__ import annotations

import re
from typing import Any

from inferbench_tasks.contracts.drawn import settled
from inferbench_tasks.dotted import flatten, value_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.fields import OPEN, SETTINGS, of_figure
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.provider.ui.short_lived import short_lived

#: Fields that tell every run from every other, or nothing of what ran: no colours.
_OF_ONE_RUN = ("run", "job", "invocation", "attempt")
#: What the picture is coloured by at first, which is offered whatever there is.
USUAL = "backend"
#: A field is offered that any of so many newest valid results has.
_LOOKED_AT = 500
#: Parts of settings' paths that a query can name.
_PART = re.compile(r"[A-Za-z0-9_-]{1,100}")


@short_lived
def colours(db: PerfDB) -> dict[str, list[str]]:
    """Heading -> the fields below it that newest valid results have a value of."""
    run = [f for f in SETTINGS if f.kind in ("text", "number") and f.name not in _OF_ONE_RUN]
    figures = [of_figure(figure) for figure in FIGURES.offered(streamed=True)]
    paths = [f.path for f in (*run, *figures)]
    where = {"verdict": "valid"}
    found = db.find_raw(where, NEWEST_FIRST, _LOOKED_AT, fields=[*paths, OPEN["settings"]])
    documents = [to_plain(document) for document in found]

    def told(path: str) -> bool:
        return any(value_at(document, path) is not None for document in documents)

    return {
        "What was run": [f.name for f in run if f.name == USUAL or told(f.path)],
        "Settings of the server": _settings(documents),
        "Figures": [f.name for f in figures if told(f.path)],
    }


def _settings(documents: list[dict[str, Any]]) -> list[str]:
    names = {
        f"settings.{path}"
        for document in documents
        for path, value in flatten(settled(value_at(document, OPEN["settings"]) or {})).items()
        if isinstance(value, str | int | float) and not path.startswith("env.")
        # A query has no words for others.
        and path.count(".") < 8 and all(map(_PART.fullmatch, path.split(".")))
    }  # fmt: skip
    return sorted(names)
