"""The plugin that Airflow finds through the package's entry point."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from inferbench_tasks.provider.ui.links import ReportLink


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """InferBench's web application, imported at its first request.

    Every Airflow process loads every plugin, and only the API server serves pages.
    """
    from inferbench_tasks.provider.ui.app import app

    await app(scope, receive, send)


class InferBenchPlugin(AirflowPlugin):
    """InferBench's pages under ``/inferbench``, and the links to them."""

    name = "inferbench"
    fastapi_apps: list[Any] = [{"app": pages, "url_prefix": "/inferbench", "name": "InferBench"}]
    operator_extra_links: list[Any] = [ReportLink()]
