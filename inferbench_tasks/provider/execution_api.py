"""Airflow's execution API, by which tasks speak to it, where server and clients are of one installation."""

from __future__ import annotations

from typing import Any


def drop_old_versions() -> None:
    """Make this process offer the newest version only: its clients, of the same installation, speak no other.

    Airflow derives the routes of all nine versions at the first request, 5 to 7 s of CPU. Those stay that hold a route
    which the newest has no longer: without them none can be derived.
    """
    from airflow.api_fastapi.execution_api.versions import bundle
    from cadwyn.structure.endpoints import EndpointExistedInstruction

    restoring = [
        index
        for index, version in enumerate(bundle.versions)
        for change in version.changes
        if any(isinstance(i, EndpointExistedInstruction) for i in change.alter_endpoint_instructions)
    ]
    bundle.versions = bundle.versions[: max(restoring, default=-1) + 2]


def bounded() -> Any:
    """Airflow's application, as its own command serves it, behind the limits of a request.

    The public server has them by our plugin; without the UI, Airflow asks no plugin.
    """
    from airflow.api_fastapi.main import app

    from inferbench_tasks.provider.api.limits import BodyLimit, PlainAddress

    return BodyLimit(PlainAddress(app))
