"""Who may call a route, by Airflow's own access checks; and the store that routes read."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_dag,
    requires_access_view,
)
from fastapi import Depends

from inferbench_tasks import settings
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.submit.notes import SUBMIT

#: 401 for who has no login, 403 for who may not see Airflow's website.
READER: Any = Depends(requires_access_view(AccessView.WEBSITE))
#: 403 for who may not start a run of ``submit``.
SUBMITTER: Any = Depends(requires_access_dag("POST", DagAccessEntity.RUN, SUBMIT))
User = GetUserDep


def may_change(user: User) -> Callable[[str], bool]:
    """Whether the user may change and end runs of a DAG, by its id, whoever started them."""

    def may(dag_id: str) -> bool:
        return bool(
            get_auth_manager().is_authorized_dag(
                method="PUT", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=user
            )
        )

    return may


def sees_logs(user: User) -> bool:
    """Whether the user may read the logs of tasks that run submissions."""
    return bool(
        get_auth_manager().is_authorized_dag(
            method="GET", access_entity=DagAccessEntity.TASK_LOGS, details=DagDetails(id=SUBMIT), user=user
        )
    )


SeesLogs = Annotated[bool, Depends(sees_logs)]
MayChange = Annotated[Callable[[str], bool], Depends(may_change)]


@lru_cache(maxsize=1)
def _store(uri: str | None, data_dir: str) -> PerfDB:
    return PerfDB.connect(uri, settings.data_dir())


def store() -> PerfDB:
    """The process's PerfDB; PerfDBError if it can't be reached."""
    return _store(settings.perfdb_uri(), str(settings.data_dir()))


Store = Annotated[PerfDB, Depends(store)]
