"""Waiting for a system that was started: until all of it is healthy, one of its processes died, or nothing moves."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from inferbench_tasks import settings
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.errors import ServerError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.queues import HOST
from inferbench_tasks.provider.system import processes
from inferbench_tasks.provider.system.health import execution_health, health
from inferbench_tasks.provider.system.processes import Process

if TYPE_CHECKING:
    from celery import Celery

#: What generates, converts and analyses: a Celery worker, without a device.
HOST_WORKER = "worker-host"
#: Running tasks have a server of their own: questions of the web port can't keep it from answering them.
EXECUTION_API = "execution-api"
#: As Airflow's monitor names them, and ours.
PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer", EXECUTION_API)
#: Without a part that became healthy. A cold import of Airflow on two busy cores takes half a minute; three processes
#: do it at once.
STUCK_AFTER_S = 240.0
#: How often it is said what is still waited for.
SAID_EVERY_S = 30.0


def wait_until_healthy(
    missing: Iterator[Sequence[str]],
    logs: Path,
    say: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Until ``missing`` (asked again and again) gives nothing; ServerError where it got no shorter for so long."""
    told_s = moved_s = clock()
    least: int | None = None
    for names in missing:
        if not names:
            return
        now_s = clock()
        if least is None or len(names) < least:  # on a busy machine they come one by one
            least, moved_s = len(names), now_s
        if now_s - moved_s > STUCK_AFTER_S:
            raise ServerError(
                f"The system is not healthy, and nothing more of it became so for {STUCK_AFTER_S:.0f} s. Missing: "
                f"{', '.join(names)}; logs: {logs}"
            )
        if now_s - told_s > SAID_EVERY_S:
            told_s = now_s
            say(f"still waiting for {', '.join(names)}")


def consumes(broker: Celery) -> bool:
    """Whether this host's worker for tasks without a device takes tasks from its queue. Takes a second where not."""
    from kombu.exceptions import OperationalError

    name = f"{HOST}@{socket.gethostname()}"
    with broker.connection_for_write() as connection:
        away = (*connection.connection_errors, *connection.channel_errors, OperationalError)
        try:
            asked = broker.control.inspect([name], timeout=1.0, limit=1, connection=connection)
            queues = (asked.active_queues() or {}).get(name, [])
        except away:
            return False
    return any(queue["name"] == HOST for queue in queues)


def missing_of(
    url: str, execution_url: str, broker_url: str, data_dir: Path, started: Sequence[Process], workers: int
) -> Iterator[list[str]]:
    """What is not healthy yet, twice a second; a process that died is raised with the end of its log."""
    from celery import Celery

    consuming = False
    # One client: each new one reads the certificates of the whole web.
    with (
        PerfDB.connect(settings.perfdb_uri(), data_dir) as db,
        httpx.Client() as client,
        Celery(broker=broker_url) as broker,
    ):
        while True:
            for process in started:
                if not process.alive():
                    raise processes.died(process)
            state = health(url, client) | {EXECUTION_API: execution_health(execution_url, client)}
            missing = [f"{part} ({state.get(part)})" for part in PARTS if state.get(part) != "healthy"]
            # It comes last: at the lowest priority it may begin minutes after all others, and reads what is submitted.
            consuming = consuming or consumes(broker)
            missing += [] if consuming else [f"{HOST_WORKER} (takes no task yet)"]
            ready = sum(device.present(TTL_S) for device in Cluster(db).devices())
            yield [*missing, *("a worker's device" for _ in range(workers - ready))]
            time.sleep(0.5)
