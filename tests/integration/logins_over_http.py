"""Asks InferBench's API as several logins, on Airflow's metadata database and a PerfDB: writes {step: answer}.

Run with Airflow's settings in the environment and its metadata database made. The DAGs are the real ones, as the
dag-processor would write them into the database; no scheduler runs, so that everything stays as it is asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.invocation import dag_run_invocation

ROLES = {"ann": "submitter", "bob": "submitter", "vic": "viewer", "root": "admin"}
SUBMISSION = (
    "name: quick\nuser: the-boss\npriority: 90\nmodel: {kind: zoo, name: digits}\n"
    "load: {arrivals: {kind: poisson, rate_rps: 10}}\n"
)


class Site:
    """The API, asked by a login."""

    def __init__(self) -> None:
        from airflow.api_fastapi.app import create_app
        from fastapi.testclient import TestClient

        from inferbench_tasks.provider.api.app import app as ours

        theirs = create_app(apps="core")
        ours.state = theirs.state  # as where Airflow mounts it
        self.client = TestClient(ours, base_url="http://127.0.0.1:8080", raise_server_exceptions=False)
        self.answers: dict[str, Any] = {}

    def ask(self, step: str, login: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """POST, or GET without a body."""
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        user = SimpleAuthManagerUser(username=login, role=ROLES[login])
        headers = {"Authorization": f"Bearer {get_auth_manager().generate_jwt(user)}"}
        method = "GET" if body is None else "POST"
        answer = self.client.request(method, path, headers=headers, json=body)
        is_json = answer.headers["content-type"].startswith("application/json")
        self.answers[step] = {
            "status": answer.status_code,
            "retry": answer.headers.get("retry-after"),
            "body": answer.json() if is_json else answer.text,
        }
        return self.answers[step]["body"] if is_json else {}

    def submit(self, step: str, login: str) -> dict[str, Any]:
        return self.ask(step, login, "/api/submissions", {"submission": SUBMISSION})

    def cancel(self, step: str, login: str, run: str) -> None:
        self.ask(step, login, f"/api/submissions/{run}/cancel", {})


def main() -> None:
    keep_dags("submit")
    site = Site()
    db = PerfDB.connect(None, settings.data_dir())
    ask_for_quotas(site, db)
    end_submissions(site, db)
    Path(sys.argv[1]).write_text(json.dumps(site.answers))


def ask_for_quotas(site: Site, db: PerfDB) -> None:
    """Each quota used up by itself, then none; an admin has none."""
    with environment("INFERBENCH_MAX_WAITING_JOBS", "5"):
        Cluster(db).publish_waiting("scheduler", [], 5, {"ann": 5})
        site.submit("jobs", "ann")
        site.submit("jobs of another", "bob")
        Cluster(db).publish_waiting("scheduler", [], 0, {})
    with environment("INFERBENCH_MAX_SUBMISSIONS", "1"):
        site.submit("submissions", "bob")
    start_run(db, "used.000", "ann", minutes=10)
    with environment("INFERBENCH_MAX_DEVICE_MINUTES", "10"):
        site.submit("minutes", "ann")
        site.submit("minutes of an admin", "root")
    with environment("INFERBENCH_MAX_DEVICE_MINUTES", "11"):
        site.ask("minutes left", "ann", "/api/submissions", {"submission": "name: broken"})
    folder = settings.data_dir() / "runs" / "used.000"
    folder.mkdir(parents=True)
    (folder / "samples.parquet").write_bytes(b"x" * 10**6)
    with environment("INFERBENCH_MAX_LOGIN_GB", "0"):
        site.submit("room", "ann")
    (folder / "samples.parquet").unlink()


def end_submissions(site: Site, db: PerfDB) -> None:
    """Ann's and Bob's, by those who may and those who may not."""
    runs = {}
    for login in ("ann", "bob"):
        started = site.submit(f"submit {login}", login)
        keep_dags(started["dag"])
        trigger(started["dag"], started["run"], login)
        runs[login] = (started["dag"], started["run"])
    invocation = dag_run_invocation(*runs["bob"])
    start_run(db, f"{invocation}.000", "bob", minutes=0)
    for login in ("vic", "ann", "bob"):
        site.ask(f"page {login}", login, f"/run/{invocation}.000", None)
    dag, run = runs["ann"]
    by_hand = site.answers["minutes of an admin"]["body"]["dag"]
    keep_dags(by_hand)
    trigger(by_hand, run, "root")  # which may be called as the admin likes
    for login in ("vic", "bob", "ann", "ann again"):
        site.cancel(f"end {login}", login.split()[0], run)
        site.answers[f"end {login}"]["states"] = states(dag, run)
    site.answers["end ann"]["of root"] = states(by_hand, run)["tasks"]
    site.cancel("end bob's as ann", "ann", f"{invocation}.000")
    site.cancel("end bob's as root", "root", f"{invocation}.000")
    site.answers["end bob's as root"]["states"] = states(*runs["bob"])
    site.cancel("end nothing", "ann", "nothing")


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def start_run(db: PerfDB, run_id: str, login: str, *, minutes: float) -> None:
    """A run of PerfDB that holds a device, and has for so long."""
    db.start_run(
        run_id, run_id.rpartition(".")[0], "job-1", {"name": "quick", "user": "the-boss"}, login=login
    )
    db.stage_started(run_id, "serve")
    began = {"$set": {"stages.0.started_at": utc_now() - timedelta(minutes=minutes)}}
    db.collection("runs").update_one({"_id": run_id}, began)


def keep_dags(dag_id: str) -> None:
    """What the dag-processor would write of that DAG."""
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    from inferbench_tasks.provider.submit.dag import load_submit

    dag = load_submit()[dag_id]
    dag.fileloc = dag.relative_fileloc = "submit.py"
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        update_dag_parsing_results_in_db(
            "dags-folder", None, [LazyDeserializedDAG.from_dag(dag)], {}, None, set(), session=session
        )


def trigger(dag_id: str, run_id: str, login: str) -> None:
    """What the task ``run`` of the DAG ``submit`` does."""
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.utils.types import DagRunTriggeredByType

    trigger_dag(
        dag_id=dag_id, run_id=run_id, triggered_by=DagRunTriggeredByType.OPERATOR, triggering_user_name=login
    )


def states(dag_id: str, run_id: str) -> dict[str, Any]:
    """Of both DAG runs, and of the tasks of the second."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        runs = session.execute(select(DagRun.dag_id, DagRun.state).where(DagRun.run_id == run_id)).all()
        tasks = session.execute(
            select(TaskInstance.task_id, TaskInstance.state).where(
                TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id
            )
        ).all()
    return {
        "submit": next(str(state) for name, state in runs if name == "submit"),
        "tasks": {name: state and str(state) for name, state in tasks},
    }


if __name__ == "__main__":
    main()
