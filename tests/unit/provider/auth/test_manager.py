"""What each role may do, by Airflow's own questions to its auth manager."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

from inferbench_tasks.provider.auth.manager import AuthManager, role_of
from inferbench_tasks.provider.system.config import TUNED

METHODS = ("GET", "POST", "PUT", "DELETE")
#: Whom a role without rights of its own must not touch.
THINGS = ("configuration", "connection", "asset", "asset_alias", "pool", "variable")
#: Things that only an operator of Airflow sees.
HIDDEN = ("connection", "variable")
ROLES = ("viewer", "submitter", "user", "op", "admin")


def manager() -> AuthManager:
    """Not started: it has no passwords."""
    return AuthManager()  # type: ignore[no-untyped-call]


def user(role: str) -> SimpleAuthManagerUser:
    return SimpleAuthManagerUser(username=role, role=role)


def may(role: str, thing: str, method: str, **more: Any) -> bool:
    return bool(getattr(manager(), f"is_authorized_{thing}")(method=method, user=user(role), **more))


@pytest.mark.parametrize(("role", "thing", "method"), list(itertools.product(ROLES, THINGS, METHODS)))
def test_what_is_not_a_dag(role: str, thing: str, method: str) -> None:
    """Viewer and submitter look at pools, assets and settings, and change none; two are hidden from them."""
    looks = method == "GET" and thing not in HIDDEN
    assert may(role, thing, method) == (role in ("op", "admin") or looks)


@pytest.mark.parametrize(
    ("role", "method", "entity", "dag_id"),
    list(itertools.product(ROLES, METHODS, [None, *DagAccessEntity], ["submit", "resnet", None])),
)
def test_dags(role: str, method: str, entity: DagAccessEntity | None, dag_id: str | None) -> None:
    """A submitter starts runs of ``submit``, and changes or ends no run of anybody; a viewer changes nothing."""
    details = DagDetails(id=dag_id) if dag_id else None
    submits = (role, method, entity, dag_id) == ("submitter", "POST", DagAccessEntity.RUN, "submit")
    expected = method == "GET" or role in ("user", "op", "admin") or submits
    assert may(role, "dag", method, access_entity=entity, details=details) == expected


@pytest.mark.parametrize("view", list(AccessView))
def test_a_submitter_sees_what_a_viewer_sees(view: AccessView) -> None:
    """Every view of Airflow's."""
    seen = [
        manager().is_authorized_view(access_view=view, user=user(role)) for role in ("viewer", "submitter")
    ]
    assert seen[0] == seen[1]


def test_the_role_comes_from_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a login that nobody knows has none."""
    monkeypatch.setenv(
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", TUNED["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]
    )
    assert [role_of(login) for login in ("admin", "submitter", "stranger")] == ["admin", "submitter", None]
