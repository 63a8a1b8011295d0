"""InferBench's plugin; ``plugins_folder.py`` tells how Airflow gets to it."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from inferbench_tasks.provider.api.application import pages
from inferbench_tasks.provider.api.limits import BodyLimit
from inferbench_tasks.provider.api.warm import Warm
from inferbench_tasks.provider.links import LINKS, InvocationReportLink
from inferbench_tasks.provider.navigation import PAGES
from inferbench_tasks.provider.submit import notes
from inferbench_tasks.provider.weights import ShortestJobFirst


def _view(path: str, title: str) -> dict[str, Any]:
    """A page in Airflow's navigation: the home at its first level, the others below *Plugins*."""
    view = {"href": f"/inferbench/{path}", "url_route": f"inferbench-{path}", "destination": "nav"}
    if path != "home":
        return {**view, "name": title, "category": "InferBench"}
    icons = {
        "icon": "/inferbench/static/inferbench.svg",
        "icon_dark_mode": "/inferbench/static/inferbench-dark.svg",
    }
    return {**view, "name": "InferBench", "nav_top_level": True, **icons}


class InferBenchPlugin(AirflowPlugin):
    """InferBench's pages and REST API under ``/inferbench``, the links to them, and notes on submissions."""

    name = "inferbench"
    fastapi_apps: list[Any] = [{"app": pages, "url_prefix": "/inferbench", "name": "InferBench"}]
    fastapi_root_middlewares: list[Any] = [
        {"middleware": Warm, "name": "InferBench"},
        {"middleware": BodyLimit, "name": "InferBench's limit of a body"},
    ]
    external_views: list[Any] = [_view(path, title) for path, title in PAGES.items()]
    operator_extra_links: list[Any] = [*LINKS, InvocationReportLink()]
    listeners: list[Any] = [notes]
    priority_weight_strategies: list[Any] = [ShortestJobFirst]
