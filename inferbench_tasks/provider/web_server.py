"""Airflow's own server (uvicorn, by ``airflow api-server``) with limits that its command has no options for."""

from __future__ import annotations

from typing import Any

#: In place of uvicorn's choice, which is the class that this one extends.
PROTOCOL = "inferbench_tasks.provider.api.connections:BoundedConnection"
#: The application of a server that only tasks ask.
EXECUTION_APP = "inferbench_tasks.provider.execution_api:bounded"


def bound(*, execution_only: bool) -> None:
    """Have this process's server start so; to be called before Airflow's command runs."""
    import uvicorn

    run = uvicorn.run

    def run_bounded(app: str, **options: Any) -> None:
        limits: dict[str, Any] = {"http": PROTOCOL, "ws": "none"}
        if execution_only:
            run(EXECUTION_APP, factory=True, **options, **limits)
        else:
            run(app, **options, **limits)

    uvicorn.run = run_bounded  # type: ignore[assignment]
