"""Files of the pages: the report of an invocation, styles, scripts, and plotly from its own package."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from importlib import resources

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import FileResponse

from inferbench_tasks import settings

router = APIRouter(include_in_schema=False)
_INVOCATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_STATIC = (
    "inferbench.css",
    "theme.js",
    "charts.js",
    "inferbench.js",
    "yaml.js",
    "editor.js",
    "graph.js",
    "plan.js",
    "board.js",
    "board_picture.js",
    "chosen.js",
    "live.js",
    "folds.js",
    "paper.js",
    "sliders.js",
    "boxes.js",
    "spans.js",
    "trace.js",
    "compare_traces.js",
    "perfetto.js",
    "plotly.min.js",
    "inferbench.svg",
    "inferbench-dark.svg",
)
#: Files that are not, or not alone, among the pages' own: what reports have too is theirs.
_ELSEWHERE = {
    "plotly.min.js": (("plotly", "package_data/plotly.min.js"),),
    "charts.js": (("inferbench_tasks.analysis.report", "static/charts.js"),),
    "inferbench.css": (
        ("inferbench_tasks.analysis.report", "static/look.css"),
        ("inferbench_tasks.provider.ui", "static/inferbench.css"),
    ),
}


@router.get("/report/{invocation_id}", response_class=FileResponse)
def report(invocation_id: str) -> FileResponse:
    """The HTML report of an invocation; 404 if there is none (yet)."""
    if not _INVOCATION.fullmatch(invocation_id) or ".." in invocation_id:
        raise HTTPException(404, f"{invocation_id!r} is no invocation's id")
    path = settings.data_dir() / "invocations" / invocation_id / "report.html"
    if not path.is_file():
        raise HTTPException(404, f"invocation {invocation_id} has no report yet")
    # The report holds text of users; without scripts from elsewhere and without our cookies in reach. What its charts
    # hand out (CSV, PNG) is made in the page.
    headers = {"Content-Security-Policy": "sandbox allow-scripts allow-downloads; default-src 'none'; "
               "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"}  # fmt: skip
    return FileResponse(path, media_type="text/html", headers=headers)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """One of the pages' own files."""
    if name not in _STATIC:
        raise HTTPException(404, f"there is no file {name!r}")
    headers = {"Content-Encoding": "gzip", "Cache-Control": "private, max-age=600", "Vary": "Accept-Encoding"}
    return Response(_compressed(name), media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


@lru_cache(maxsize=len(_STATIC))
def _compressed(name: str) -> bytes:
    places = _ELSEWHERE.get(name, ()) or (("inferbench_tasks.provider.ui", f"static/{name}"),)
    parts = [resources.files(package).joinpath(path).read_bytes() for package, path in places]
    return gzip.compress(b"\n".join(parts), 6, mtime=0)
