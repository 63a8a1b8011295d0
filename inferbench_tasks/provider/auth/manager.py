"""Airflow's simple auth manager with one role more, and a limit on guesses.

``submitter`` sees what a viewer sees, and may start the DAG ``submit``, which validates and then runs a submission
under its login: no other DAG, no connections, variables, pools or settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import (
    SimpleAuthManager,
    SimpleAuthManagerRole,
)
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

from inferbench_tasks.provider.submit.notes import SUBMIT

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from fastapi import FastAPI

SUBMITTER = "submitter"


class AuthManager(SimpleAuthManager):
    """Roles viewer < submitter < user < op < admin; all but submitter are Airflow's."""

    @staticmethod
    def _is_authorized(
        *,
        method: ResourceMethod,
        allow_role: SimpleAuthManagerRole,
        user: SimpleAuthManagerUser,
        allow_get_role: SimpleAuthManagerRole | None = None,
        team_name: str | None = None,
    ) -> bool:
        if _is_submitter(user):
            user = SimpleAuthManagerUser(username=user.username, role="viewer", teams=user.teams)
        return bool(
            SimpleAuthManager._is_authorized(
                method=method, allow_role=allow_role, user=user, allow_get_role=allow_get_role,
                team_name=team_name,
            )
        )  # fmt: skip

    def is_authorized_dag(
        self,
        *,
        method: ResourceMethod,
        user: SimpleAuthManagerUser,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        """A submitter may start runs of ``submit``; it may not change them, or other DAGs' runs."""
        if _is_submitter(user) and method == "POST" and access_entity == DagAccessEntity.RUN:
            return details is not None and details.id == SUBMIT
        return bool(
            super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
        )

    def get_fastapi_app(self) -> FastAPI | None:
        """The login routes, with the limit in front."""
        from inferbench_tasks.provider.auth.throttle import Throttle

        app = super().get_fastapi_app()
        if app is not None:
            app.add_middleware(Throttle)
        return app


def role_of(login: str) -> str | None:
    """The role of a login by the settings of the simple auth manager; None for one that they don't name."""
    users: list[Any] = SimpleAuthManager.get_users()
    return next((str(user.role).lower() for user in users if user.username == login), None)


def _is_submitter(user: SimpleAuthManagerUser) -> bool:
    return (user.role or "").lower() == SUBMITTER
