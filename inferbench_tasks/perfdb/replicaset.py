"""Make one mongod a replica set of its own and wait until it takes writes.

A replica set because only there an acknowledged ``w=majority`` write survives a kill -9.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from inferbench_tasks.errors import PerfDBError

NAME = "inferbench"
NOT_YET_INITIALIZED, ALREADY_INITIALIZED = 94, 23
POLL_S = 0.05


def direct(port: int, timeout_s: float) -> MongoClient[dict[str, Any]]:
    """A client of exactly that server, whatever state it is in; every wait is bounded."""
    ms = max(1, int(timeout_s * 1000))
    return MongoClient(
        "127.0.0.1",
        port,
        directConnection=True,
        serverSelectionTimeoutMS=ms,
        connectTimeoutMS=ms,
        socketTimeoutMS=ms,
        appname="inferbench-embedded",
    )


def db_path(port: int, timeout_s: float) -> str | None:
    """The data folder of the mongod at that port, None if none answers in time."""
    try:
        with direct(port, timeout_s) as client:
            parsed = client.admin.command("getCmdLineOpts")["parsed"]
            path: str | None = parsed.get("storage", {}).get("dbPath")
            return path
    except PyMongoError:
        return None


def is_primary(port: int, timeout_s: float) -> bool:
    """Whether that server takes writes now."""
    try:
        with direct(port, timeout_s) as client:
            return bool(client.admin.command("hello").get("isWritablePrimary"))
    except PyMongoError:
        return False


def make_primary(port: int, deadline: float, alive: Callable[[], bool]) -> bool:
    """Initiate the set if it is new, move it if its port changed, and wait for the election.

    False if the server died meanwhile. ``deadline`` on ``time.monotonic()``; raises PerfDBError when it
    has passed.
    """
    address, last = f"127.0.0.1:{port}", "no answer"
    with direct(port, 1.0) as client:
        while time.monotonic() < deadline:
            try:
                hello = client.admin.command("hello")
                if hello.get("isWritablePrimary"):
                    return True
                _settle(client, address)
                last = str(client.admin.command("hello").get("info", "waiting for its election"))
            except PyMongoError as error:
                last = str(error).split(", full error")[0]
            if not alive():
                return False
            time.sleep(POLL_S)
    raise PerfDBError(f"The embedded mongod at {address} did not become primary in time: {last}")


def rewrite_address(port: int) -> None:
    """In a server that runs without its set: make its own address the set's only member's."""
    with direct(port, 10.0) as client:
        configs = client.local["system.replset"]
        config = configs.find_one()
        if config is not None:
            members = [{**config["members"][0], "host": f"127.0.0.1:{port}"}]
            configs.update_one({"_id": config["_id"]}, {"$set": {"members": members}})


def _settle(client: MongoClient[dict[str, Any]], address: str) -> None:
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != NOT_YET_INITIALIZED:
            raise
        _initiate(client, address)
        return
    if [member["host"] for member in config["members"]] != [address]:
        config["members"] = [{**config["members"][0], "host": address}]
        config["version"] += 1
        client.admin.command("replSetReconfig", config, force=True)


def _initiate(client: MongoClient[dict[str, Any]], address: str) -> None:
    config = {
        "_id": NAME,
        "members": [{"_id": 0, "host": address}],
        "settings": {"electionTimeoutMillis": 1000},
    }
    try:
        client.admin.command("replSetInitiate", config)
    except OperationFailure as error:
        if error.code != ALREADY_INITIALIZED:
            raise
