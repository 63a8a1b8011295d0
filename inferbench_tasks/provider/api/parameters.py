"""A request's parameters are those that its route declares, pages and REST alike: whatever else is asked is refused.

What is ignored looks like an answer: ``?verdikt=valid`` would list all runs as if they were valid.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.dependencies.utils import get_flat_dependant

from inferbench_tasks.problem import did_you_mean
from inferbench_tasks.provider.api.problems import FieldError

#: Files of the pages: their addresses may have a version in them, and Perfetto's page is somebody else's program.
_FILES = ("/static/{name}", "/perfetto/{path:path}")
_OfScripts = Annotated[str, Query(max_length=300)]


def _declared(request: Request) -> None:
    """FieldError for a parameter that the route does not have, with those that it has."""
    route = request.scope["route"]
    if not request.query_params or route.path in _FILES:
        return
    known = list(dict.fromkeys(field.alias for field in get_flat_dependant(route.dependant).query_params))
    for name in request.query_params:
        if name not in known:
            near = did_you_mean(name, known) or ";"
            allowed = f"{near} allowed: {', '.join(known)}" if known else ": it takes none"
            raise FieldError(name[:100], f"there is no such parameter here{allowed}")


def _ticked(ticked: Annotated[list[str], Query(max_length=500)] = []) -> None:  # noqa: B006
    pass


def _one_request(request: _OfScripts = "") -> None:
    pass


def _of_a_trace(
    request: _OfScripts = "",
    levels: _OfScripts = "",
    alone: _OfScripts = "",
    part: _OfScripts = "",
    name: _OfScripts = "",
    level: _OfScripts = "",
) -> None:
    pass


#: Of the whole application: every route refuses what it does not declare.
DECLARED: Any = Depends(_declared)
#: What a page's scripts keep in its own address, so that it opens as it was left; the server only knows of it.
TICKED: Any = Depends(_ticked)
ONE_REQUEST: Any = Depends(_one_request)
OF_A_TRACE: Any = Depends(_of_a_trace)
