"""What PerfDB, broker and API say to who has no login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from inferbench_tasks import settings
from inferbench_tasks.doctor.base import Advice, Installation
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.address import host_of, options_of

_TIMEOUT_S = 5.0


def perfdb(place: Installation) -> Iterator[Advice]:
    """PerfDB tells nothing to who has no login."""
    if uri := settings.perfdb_uri():
        if not uri.startswith("mongodb://"):
            yield Advice(check="perfdb", level="note", what="an external PerfDB by mongodb+srv is not asked")
            return
        tls = options_of(uri).get("tls") == "true"
        stranger = f"mongodb://{host_of(uri)}/" + ("?tls=true" if tls else "")
        remedy = "run that MongoDB with authentication, and give users the roles that they need"
    else:
        server = embedded.status(place.data_dir)
        if not server["running"]:
            yield Advice(check="perfdb", level="ok", what="the embedded PerfDB does not run")
            return
        stranger = f"mongodb://127.0.0.1:{server['port']}/?directConnection=true"
        remedy = "inferbench perfdb stop; the next start of this version asks for a login"
    try:
        milliseconds = int(_TIMEOUT_S * 1000)
        with MongoClient[dict[str, object]](stranger, serverSelectionTimeoutMS=milliseconds) as client:
            client.list_database_names()
    except OperationFailure:
        yield Advice(check="perfdb", level="ok", what="PerfDB asks for a login")
    except PyMongoError as error:
        yield Advice(check="perfdb", level="note", what=f"PerfDB does not answer ({type(error).__name__})")
    else:
        yield Advice(check="perfdb", level="finding", what="PerfDB lets in whoever reaches it", remedy=remedy)


def broker(place: Installation) -> Iterator[Advice]:
    """The broker obeys nobody without its password: a message in it is a task that a worker runs."""
    url = place.variables.get("AIRFLOW__CELERY__BROKER_URL")
    if url is None or not place.system.running():
        yield Advice(check="broker", level="ok", what="no broker of ours runs")
        return
    import redis

    parts = urlsplit(url)
    try:
        with redis.Redis(
            parts.hostname or "127.0.0.1", parts.port or 6379, socket_timeout=_TIMEOUT_S,
            ssl=parts.scheme == "rediss",
        ) as client:  # fmt: skip
            client.ping()
    except redis.AuthenticationError:
        yield Advice(check="broker", level="ok", what="the broker asks for a password")
    except redis.RedisError as error:
        yield Advice(
            check="broker", level="note", what=f"the broker does not answer ({type(error).__name__})"
        )
    else:
        yield Advice(
            check="broker", level="finding", what="the broker obeys whoever reaches it",
            remedy="set a password (requirepass), and name it in INFERBENCH_BROKER_URL",
        )  # fmt: skip


def api(place: Installation) -> Iterator[Advice]:
    """Airflow's API and InferBench's tell nothing to who has no login."""
    if not place.system.running():
        yield Advice(check="api", level="ok", what="the system is not up here")
        return
    if place.variables.get("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "").lower() == "true":
        yield Advice(
            check="api", level="finding", what="whoever reaches the API is an admin",
            remedy="unset AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS, inferbench down, inferbench up",
        )  # fmt: skip
    good = True
    for path in ("/api/v2/dags", "/api/v2/connections", "/inferbench/api/runs", "/inferbench/leaderboard"):
        try:
            status = httpx.get(place.system.url() + path, timeout=30).status_code
        except httpx.TransportError as error:
            yield Advice(check="api", level="note", what=f"the API does not answer ({type(error).__name__})")
            return
        if status != 401:
            good = False
            yield Advice(
                check="api", level="finding", what=f"{path} answers {status} to who has no login, not 401",
                remedy="inferbench down; look for a plugin or setting that opens it",
            )  # fmt: skip
    if good:
        yield Advice(check="api", level="ok", what="the API asks for a login")


def passwords(place: Installation) -> Iterator[Advice]:
    """Passwords are as long as those that are drawn."""
    path = place.system.home / "passwords.json"
    if not path.exists():
        return
    short = [user for user, password in json.loads(path.read_text()).items() if len(password) < 12]
    for user in short:
        yield Advice(
            check="passwords", level="finding", what=f"the password of {user} has fewer than 12 characters",
            remedy=f"a longer one in {path}",
        )  # fmt: skip
    if not short:
        yield Advice(check="passwords", level="ok", what="every password has 12 characters or more")
