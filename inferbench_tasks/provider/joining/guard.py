"""What a Celery worker of ours executes: importing this module is all of it (``celery_config``).

In a system with ``up --listen`` others write into its broker: it executes what the leader has signed, has no task but
Airflow's, and heeds of Celery's remote control what the executor uses. What is refused leaves no result: the executor
finds that its message is nowhere and sends a task of its own anew (``executors/lost.py``).
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import psutil
from airflow.providers.celery.executors.celery_executor_utils import app
from celery.exceptions import Reject
from celery.worker.control import Panel

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.signing import PUBLIC
from inferbench_tasks.provider.joining.verifying import Verifier, is_signed

log = logging.getLogger(__name__)

TASK = "execute_workload"
#: Of the executor (``active``, ``reserved``, ``revoke``), and of `airflow celery worker`, which looks for its namesake.
COMMANDS = frozenset({"active", "reserved", "revoke", "active_queues", "ping"})
#: Below AIRFLOW_HOME: ids of messages that have begun.
BEGUN = "begun"


def verifier() -> Verifier | None:
    """Of this worker's queue, which is named as its worker is; None in a system that does not listen."""
    if not (public := os.environ.get(PUBLIC)):
        return None
    queue = os.environ[settings.WORKER]
    return Verifier(public, queue, Path(os.environ["AIRFLOW_HOME"]) / BEGUN / queue.replace("/", "_"))


def install(verify: Verifier | None) -> None:
    """Put it before the task that Airflow has registered."""
    task = app.tasks[TASK]
    execute = task.run

    def guarded(input: str) -> None:
        message = task.request.id
        try:
            workload = _opened(verify, input, message)
        except InputError as error:
            log.error("refused a workload message=%s reason=%s", message, error)
            raise Reject(str(error), requeue=False) from None
        before = set(psutil.Process().children())
        try:
            execute(workload)
        except BaseException:
            _end_since(before)
            raise

    task.run = guarded
    if verify is not None:
        for name in set(app.tasks) - {TASK}:
            app.tasks.unregister(name)
        for name in set(Panel.data) - COMMANDS:
            del Panel.data[name]


def _end_since(before: set[psutil.Process]) -> None:
    """End the task's own process, and what it started: where Airflow's part in this one failed (no room for the task's
    log, say), it would go on with nobody who hears it, waits for its end or ends it."""
    ending: list[psutil.Process] = []
    for child in psutil.Process().children():
        if child not in before:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()  # it starts nothing more
                ending += [child, *child.children(recursive=True)]
    for process in ending:
        with contextlib.suppress(psutil.NoSuchProcess):
            log.warning("ending what a failed workload left pid=%s name=%s", process.pid, process.name())
            process.kill()
    psutil.wait_procs(ending, timeout=5)


def _opened(verify: Verifier | None, text: str, message: str | None) -> str:
    """The workload that came; InputError for one that is not to be executed."""
    if verify is not None:
        return verify.open(text, message)
    if is_signed(text):
        # Left in the broker by this system's earlier life, with --listen.
        raise InputError("it is signed, and this system does not listen for other hosts now")
    return text


install(verifier())
