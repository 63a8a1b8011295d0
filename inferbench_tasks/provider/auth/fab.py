"""Airflow's FAB auth manager (database, LDAP, OAuth) with the role ``Submitter`` and a limit on guesses.

For a team: ``docs/how-to/logins-of-a-team.md``. It needs ``apache-airflow-providers-fab``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager

from inferbench_tasks.provider.submit.notes import SUBMIT

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from fastapi import FastAPI

#: Its name alone is the right; what else its users may do is up to their other roles, ``Viewer`` at least.
SUBMITTER = "Submitter"
#: Tokens for passwords. The page of the login form has FAB's own limit (``AUTH_RATE_LIMIT``).
TOKEN_PATHS = ("/token", "/token/cli")


class AuthManager(FabAuthManager):
    """FAB's roles, and one more: its users may start the DAG ``submit``, and change nothing about it.

    By FAB's permissions alone whoever may start a DAG may pause it too, for everybody.
    """

    def is_authorized_dag(
        self,
        *,
        method: ResourceMethod,
        user: Any,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        """A submitter may start runs of ``submit``; all else is FAB's answer."""
        starts = method == "POST" and access_entity == DagAccessEntity.RUN
        if starts and details is not None and details.id == SUBMIT and _is_submitter(user):
            return True
        return bool(
            super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
        )

    def get_fastapi_app(self) -> FastAPI | None:
        """FAB's routes and pages, with the limit in front of its tokens."""
        from inferbench_tasks.provider.auth.throttle import Throttle

        app: FastAPI | None = super().get_fastapi_app()
        if app is not None:
            app.add_middleware(Throttle, paths=TOKEN_PATHS)
        return app


def _is_submitter(user: Any) -> bool:
    return any(role.name == SUBMITTER for role in getattr(user, "roles", ()))
