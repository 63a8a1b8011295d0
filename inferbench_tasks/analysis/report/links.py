"""Where a report leads to on InferBench's pages: its submission, its models, its rows of the leaderboard.

The paths are drawn as links only where the report is served beside those pages; in a file on disk they would be dead.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from inferbench_tasks.analysis.report.runs import RunView


def links(views: Sequence[RunView], submission: dict[str, Any]) -> list[tuple[str, str]]:
    """What each is called, and its path on the server.

    A model is on the leaderboard where one of its runs is valid; its rows of this invocation are marked there.
    """
    name = submission.get("name") or next((of.job["name"] for of in views if of.job.get("name")), None)
    paths = {}
    if name:
        paths[f"Submission {name}"] = _path("runs", q=f"submission={shlex.quote(str(name))}")
    results = [(of, of.result) for of in views if of.result is not None]
    for _, result in results:
        paths[f"Model {result.model.name}"] = _path("model", name=result.model.name)
    for view, result in results:
        if view.valid:
            title = f"{result.model.name} on the leaderboard"
            where = {"model": result.model.name, "mark": result.invocation_id}
            paths.setdefault(title, _path("leaderboard", **where))
    return list(paths.items())


def _path(page: str, **values: str | None) -> str:
    return f"/inferbench/{page}?{urlencode({key: value for key, value in values.items() if value})}"
