"""What a local user without a login tries, by what an order names."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
from functools import partial
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.stranger.databases import mongo, perfdb, redis
from tests.stranger.ending import Ending, ending_of
from tests.stranger.models import model_server
from tests.stranger.processes import connect, file, process
from tests.stranger.web import web
from tests.stranger.wire import say, speaks_http


def warm_up() -> None:
    """Import and load what is needed later: another user may not be able to read where this Python lies."""
    "x".encode("idna")
    with MongoClient[Any](
        "mongodb://a:b@127.0.0.1:1/?authSource=admin", connect=False, timeoutMS=1
    ) as client:
        with contextlib.suppress(PyMongoError):
            client.admin.command("ping")
    sqlite3.connect(":memory:").close()
    with contextlib.suppress(OSError):
        socket.create_connection(("localhost", 1), 1)


def run(order: dict[str, Any]) -> list[Ending]:
    """How each attempt ended."""
    endings: list[Ending] = []
    for port in order.get("ports", ()):
        endings += _at_port(port)
    for name in order.get("sockets", ()):
        endings.append(ending_of("socket", name, partial(connect, name)))
    for pid in order.get("pids", ()):
        endings += process(pid)
    for path in order.get("files", ()):
        endings += file(path)
    for path in order.get("foreign", ()):
        endings.append(ending_of("write-foreign", path, partial(_opened, path)))
    for port in order.get("model_ports", ()):
        endings += model_server(port, order["model"])
    return endings


def _opened(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _at_port(port: int) -> list[Ending]:
    """Find out what listens there, then everything that is known of its kind."""
    if say(port, b"PING\r\n").startswith((b"-", b"+")):
        return redis(port)
    if speaks_http(port):
        return web(port)
    try:
        with mongo(port) as client:
            client.admin.command("hello")
    except PyMongoError:
        return [{"what": "port", "where": str(port), "ending": "unknown"}]
    return perfdb(port)
