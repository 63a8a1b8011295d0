"""The plugin that Airflow finds through the package's entry point."""

from __future__ import annotations

from asyncio import to_thread
from threading import Lock
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from inferbench_tasks.provider.api.warm import Warm
from inferbench_tasks.provider.submit import notes
from inferbench_tasks.provider.ui.links import LINKS, InvocationReportLink
from inferbench_tasks.provider.weights import ShortestJobFirst

#: Path below /inferbench -> (name in the navigation, icon).
PAGES = {
    "leaderboard": "Leaderboard",
    "runs": "Runs",
    "compare": "Compare",
    "recommend": "Recommend",
    "cluster": "Cluster",
    "regression": "Regression",
}
_importing = Lock()
_imported: list[Any] = []


def application() -> Any:
    """InferBench's web application; imported by one thread, and whoever asks meanwhile waits for it.

    Of two threads that import modules which import each other (PyMongo's do), one would get a module that is half
    executed: that is how Python resolves the deadlock, and the page would be an error.
    """
    with _importing:
        if not _imported:
            from inferbench_tasks.provider.api.app import app

            _imported.append(app)
    return _imported[0]


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """InferBench's web application, imported once the API server has started (``Warm``), or at its first request.

    Every Airflow process loads every plugin, and only the API server serves pages. The import takes seconds, on a
    busy machine many: in a thread, because tasks that report to this server meanwhile would time out.
    """
    app = _imported[0] if _imported else await to_thread(application)
    await app(scope, receive, send)


class InferBenchPlugin(AirflowPlugin):
    """InferBench's pages and REST API under ``/inferbench``, the links to them, and notes on submissions."""

    name = "inferbench"
    fastapi_apps: list[Any] = [{"app": pages, "url_prefix": "/inferbench", "name": "InferBench"}]
    fastapi_root_middlewares: list[Any] = [{"middleware": Warm, "name": "InferBench"}]
    external_views: list[Any] = [
        {
            "name": title,
            "href": f"/inferbench/{path}",
            "url_route": f"inferbench-{path}",
            "destination": "nav",
            "category": "InferBench",
        }
        for path, title in PAGES.items()
    ]
    operator_extra_links: list[Any] = [*LINKS, InvocationReportLink()]
    listeners: list[Any] = [notes]
    priority_weight_strategies: list[Any] = [ShortestJobFirst]
