"""One MongoDB client per process and server, made after a fork, with a limit on every wait."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from inferbench_tasks.errors import InputError, PerfDBAwayError, PerfDBError
from inferbench_tasks.perfdb.address import database_of, masked, options_of

log = logging.getLogger(__name__)

Client = MongoClient[dict[str, Any]]

#: Used where the URI does not say otherwise (its names, in ms).
LIMITS_MS = {"serverSelectionTimeoutMS": 10_000, "connectTimeoutMS": 10_000, "socketTimeoutMS": 60_000}
WRITE_TIMEOUT_MS = 30_000
#: Unauthorized, authentication failed.
LOGIN_REFUSED = frozenset({13, 18})

_lock = threading.Lock()
_clients: dict[str, Client] = {}
#: A parent's clients must not be closed, or used, by its forked child.
_of_parents: list[Client] = []


def client(uri: str, selection_ms: int = LIMITS_MS["serverSelectionTimeoutMS"]) -> Client:
    """This process's client of that server; raises InputError for a URI that can't be understood.

    ``selection_ms``: how long an operation waits for a server that takes it.
    """
    with _lock:
        if uri not in _clients:
            _clients[uri] = _connect(uri, selection_ms)
        return _clients[uri]


def forget(uri: str) -> None:
    """Close this process's client of that server; the next use makes a new one."""
    with _lock:
        pooled = _clients.pop(uri, None)
    if pooled is not None:
        pooled.close()


def _connect(uri: str, selection_ms: int) -> Client:
    if "@" in database_of(uri):
        raise _malformed(uri, "")
    options = options_of(uri)
    defaults = {**LIMITS_MS, "serverSelectionTimeoutMS": selection_ms}
    limits: dict[str, Any] = {name: ms for name, ms in defaults.items() if name.lower() not in options}
    try:
        return MongoClient(uri, tz_aware=True, appname="inferbench", **limits)
    except (PyMongoError, ValueError, TypeError) as error:
        # pymongo's text may quote a part of a badly escaped password.
        raise _malformed(uri, "" if "@" in uri else f": {error}") from error


def _malformed(uri: str, detail: str) -> InputError:
    return InputError(
        f"The PerfDB URI {masked(uri)} can't be used{detail}. It has the form "
        "mongodb://[user:password@]host:port/[database][?options]; special characters in user and "
        "password must be percent-encoded."
    )


def check(server: Client, uri: str) -> WriteConcern:
    """Ask the server who it is, and return the write concern under which nothing acknowledged is lost.

    Raises PyMongoError when it can't be reached, and PerfDBError when it can't be logged in to, or is
    a standalone that would acknowledge writes before they are on disk.
    """
    try:
        hello = server.admin.command("hello")
        server.admin.command("listDatabases", nameOnly=True, authorizedDatabases=True)
    except OperationFailure as error:
        if error.code not in LOGIN_REFUSED:
            raise
        raise refused(uri, error) from error
    if "setName" in hello or hello.get("msg") == "isdbgrid":
        return WriteConcern("majority", wtimeout=WRITE_TIMEOUT_MS)
    options = options_of(uri)
    if options.get("journal", "").lower() == "true" or options.get("w") == "majority":
        return WriteConcern(1, j=True, wtimeout=WRITE_TIMEOUT_MS)
    forget(uri)
    raise PerfDBError(
        f"The PerfDB at {masked(uri)} is a standalone mongod: by default it acknowledges writes that a "
        "crash then loses. Make it a replica set (mongod --replSet rs0, then rs.initiate() once; a single "
        "member is enough), or add journal=true to the URI's options."
    )


def refused(uri: str, error: PyMongoError) -> PerfDBError:
    """The error for a missing or wrong login."""
    return PerfDBError(
        f"The PerfDB at {masked(uri)} refuses the login: {_short(error)}. Check user, password and "
        "authSource in the URI."
    )


def unreachable(uri: str, error: PyMongoError) -> PerfDBAwayError:
    """The error for a server that did not answer (in time)."""
    hint = ""
    if isinstance(error, ConfigurationError):
        hint = " Check the URI."
    return PerfDBAwayError(
        f"The PerfDB at {masked(uri)} can't be reached: {_short(error)}.{hint} Is it running, and may this "
        "machine connect to it? (No other database is used in its place. Without INFERBENCH_PERFDB_URI "
        "the embedded one is.)"
    )


def _short(error: PyMongoError) -> str:
    text = str(error).split(", full error")[0].split(", Timeout:")[0].split(" (configured timeouts")[0]
    return text.rstrip(".")[:500]


def _after_fork() -> None:
    global _lock  # noqa: PLW0603  # a lock that was held at the fork would stay held for ever
    _lock = threading.Lock()
    _of_parents.extend(_clients.values())
    _clients.clear()


def _close_all() -> None:
    for uri in list(_clients):
        forget(uri)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
