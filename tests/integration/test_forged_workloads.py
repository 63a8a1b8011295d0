"""A real Celery worker of a system that listens, and what others put into its queue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.provider.joining.signing import SigningKey
from inferbench_tasks.provider.queues import HOST
from inferbench_tasks.provider.system import broker
from inferbench_tasks.provider.system.config import broker_password, environment
from inferbench_tasks.provider.system.local import free_port
from inferbench_tasks.provider.system.ready import consumes
from inferbench_tasks.workers.agent import celery_command

pytestmark = pytest.mark.integration
BEGINS = "Executing workload in Celery"


@dataclass(frozen=True)
class Worker:
    """The host worker; ``app``: another Celery with a login at its broker, as each worker that joined has one."""

    key: SigningKey
    app: Any
    log: Path
    process: subprocess.Popen[bytes]

    def send(self, text: str, task_id: str, task: str = "execute_workload", **more: Any) -> None:
        self.app.send_task(task, args=[text], queue=HOST, task_id=task_id, **more)

    def said(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in self.log.read_text().splitlines())


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """Of a broker and a key of its own; nothing else of the system is needed."""
    from celery import Celery

    data_dir = tmp_path_factory.mktemp("listening")
    home, port = data_dir / "system", free_port()
    (data_dir / "dags").mkdir()
    key = SigningKey.of(home)
    variables = environment(
        home, port=free_port(), execution_port=free_port(), broker_port=port, dags=data_dir / "dags",
        submissions=data_dir / "dags", data_dir=data_dir,
    )  # fmt: skip
    # No execution API answers here: a task that has begun ends soon.
    variables["AIRFLOW__WORKERS__EXECUTION_API_RETRIES"] = "1"
    env = os.environ | variables | key.environment | {settings.WORKER: HOST}
    log = data_dir / "worker.log"
    with open(log, "wb") as output:
        started = [
            subprocess.Popen(command, env=env, stdout=output, stderr=output)
            for command in (broker.command(home, port, broker_password(home)), celery_command(HOST, HOST, 1))
        ]
    app = Celery(broker=variables["AIRFLOW__CELERY__BROKER_URL"])
    found = Worker(key, app, log, started[1])
    try:
        until(lambda: found.said("host@", "ready"), found)
        yield found
    finally:
        app.close()
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def until(check: Callable[[], object], worker: Worker) -> None:
    deadline = time.monotonic() + 60.0
    while not check():
        assert time.monotonic() < deadline and worker.process.poll() is None, worker.log.read_text()[-3000:]
        time.sleep(0.1)


def task(mark: Path) -> str:
    """A task of Airflow's, as the scheduler sends it; its DAG file would leave ``mark``."""
    ti = {
        "id": str(uuid.uuid4()), "dag_version_id": str(uuid.uuid4()), "task_id": "t", "dag_id": "d", "run_id": "r",
        "try_number": 1, "map_index": -1, "pool_slots": 1, "queue": HOST, "priority_weight": 1,
    }  # fmt: skip
    return json.dumps(
        {
            "type": "ExecuteTask", "token": "", "ti": ti, "dag_rel_path": str(mark), "log_path": None,
            "bundle_info": {"name": "dags-folder"},
        }
    )  # fmt: skip


def callback(mark: Path) -> str:
    """What calls any function that can be imported."""
    data = {"path": "subprocess.check_output", "kwargs": {"args": ["touch", str(mark)]}}
    return json.dumps(
        {
            "type": "ExecuteCallback", "token": "", "dag_rel_path": "x.py", "log_path": None,
            "bundle_info": {"name": "dags-folder"},
            "callback": {"id": str(uuid.uuid4()), "fetch_method": "import_path", "data": data},
        }
    )  # fmt: skip


def test_a_worker_executes_what_its_leader_signed_for_it_once_and_nothing_else(
    worker: Worker, tmp_path: Path
) -> None:
    """Forged callbacks and tasks, a signed one of another queue, one again: none begins; the signed task does."""
    mark, stranger = tmp_path / "mark", SigningKey.of(tmp_path / "stranger")
    forged = {
        str(uuid.uuid4()): text
        for text in (
            callback(mark), task(mark), stranger.sign(callback(mark), HOST, str(uuid.uuid4())),
            worker.key.sign(task(mark), "node:cpu", str(uuid.uuid4())),
        )
    }  # fmt: skip
    signed_callback, signed_task = str(uuid.uuid4()), str(uuid.uuid4())
    forged[signed_callback] = worker.key.sign(callback(mark), HOST, signed_callback)
    for task_id, text in forged.items():
        worker.send(text, task_id)
    until(lambda: all(worker.said("refused a workload", task_id) for task_id in forged), worker)
    assert not worker.said(BEGINS)
    sent = worker.key.sign(task(mark), HOST, signed_task)
    worker.send(sent, signed_task)
    until(lambda: worker.said(BEGINS, signed_task), worker)
    worker.send(sent, signed_task)
    until(lambda: worker.said("refused a workload", signed_task, "has begun before"), worker)
    assert worker.log.read_text().count(BEGINS) == 1 and not mark.exists()


def test_other_tasks_and_commands_of_celery_s_do_nothing(worker: Worker, tmp_path: Path) -> None:
    """Neither a task of Celery's own that calls ours, nor remote control that ends it or gives it other queues; that it
    takes tasks is told, as a starting system asks it.
    """
    mark, task_id = tmp_path / "mark", str(uuid.uuid4())
    ours = worker.app.signature("execute_workload", args=[callback(mark)])
    worker.app.send_task("celery.map", args=[dict(ours), [callback(mark)]], queue=HOST, task_id=task_id)
    until(lambda: worker.said("unregistered task", "celery.map"), worker)
    worker.app.control.add_consumer("other")
    worker.app.control.shutdown()
    assert consumes(worker.app)
    replies = worker.app.control.inspect(timeout=3.0).active_queues()
    assert [[q["name"] for q in queues] for queues in replies.values()] == [[HOST]]
    time.sleep(1.0)
    assert worker.process.poll() is None and not mark.exists()
