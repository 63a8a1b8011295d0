"""InferBench's own pages within Airflow's web server; a plugin's routes are open unless each is protected."""

from __future__ import annotations

import re

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse

from inferbench_tasks import settings

_INVOCATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

app = FastAPI(title="InferBench", dependencies=[Depends(requires_access_view(AccessView.WEBSITE))])


@app.get("/report/{invocation_id}", response_class=FileResponse)
def report(invocation_id: str) -> FileResponse:
    """The HTML report of an invocation; 404 if there is none (yet)."""
    if not _INVOCATION.fullmatch(invocation_id) or ".." in invocation_id:
        raise HTTPException(404, f"{invocation_id!r} is no invocation's id")
    path = settings.data_dir() / "invocations" / invocation_id / "report.html"
    if not path.is_file():
        raise HTTPException(404, f"invocation {invocation_id} has no report yet")
    # The report holds text of users; without scripts from elsewhere and without our cookies in reach.
    headers = {"Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
               "style-src 'unsafe-inline'; img-src data:"}  # fmt: skip
    return FileResponse(path, media_type="text/html", headers=headers)
