"""The web application, imported when it is first needed: every Airflow process loads the plugin."""

from __future__ import annotations

from asyncio import to_thread
from threading import Lock
from typing import Any

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
