"""What the scheduler writes on a run of ``submit``: why it was refused, or how it ended.

A task can't write notes; the scheduler tells listeners when a run ends, and there they are written.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.listeners import hookimpl

#: Of Airflow's own column.
_MOST_CHARACTERS = 1000
SUBMIT = "submit"
#: In the settings of a run that a DAG started: that DAG.
STARTED_BY = "started_by"


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """A refused submission: its problems, on the run and on its first task."""
    _write(dag_run)


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Write the verdicts into the note of the run and of its task."""
    _write(dag_run)


def _write(dag_run: Any) -> None:
    if dag_run.dag_id != SUBMIT:
        return
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return
    rows = session.scalars(
        select(XComModel).where(
            XComModel.dag_id == SUBMIT,
            XComModel.run_id == dag_run.run_id,
            XComModel.key.in_(("problems", "outcome")),
        )
    )
    messages = {row.key: XComModel.deserialize_value(row) for row in rows}
    text, task = note_of(messages)
    if not text:
        return
    dag_run.note = text
    for ti in dag_run.get_task_instances(session=session):
        if ti.task_id == task:
            ti.note = text


def note_of(messages: dict[str, Any]) -> tuple[str, str]:
    """The note and the task that it belongs to; "" if there is nothing to say."""
    if problems := messages.get("problems"):
        lines = [
            ": ".join(str(part) for part in (_place(p), p["field"], p["message"]) if part) for p in problems
        ]
        # Airflow shows the first paragraph, the others when it is opened.
        text, task = "Not valid, nothing was started. " + "\n\n".join(lines), "validate"
    elif outcome := messages.get("outcome"):
        invocation = quote(outcome["invocation"])
        links = f"[Report](/inferbench/report/{invocation}), [runs](/inferbench/runs?q=invocation%3D{invocation}), " \
                f"[leaderboard](/inferbench/leaderboard?mark={invocation})"  # fmt: skip
        # Airflow shows notes as Markdown: a line of its own needs a paragraph of its own.
        lines = [links, *(f"{run}: {verdict}" for run, verdict in outcome["verdicts"].items())]
        text, task = "\n\n".join(lines), "outcome"
    else:
        return "", ""
    return (text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 2] + " …"), task


def _place(problem: dict[str, Any]) -> str:
    return f"line {problem['line']}" if problem["line"] else ""
