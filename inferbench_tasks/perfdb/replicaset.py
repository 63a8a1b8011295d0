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
from inferbench_tasks.perfdb import credentials
from inferbench_tasks.perfdb.credentials import Credentials

NAME = "inferbench"
#: The server's own user, whose password is the key.
SERVER = "__system"
NOT_YET_INITIALIZED, ALREADY_INITIALIZED = 94, 23
POLL_S = 0.05


def direct(
    port: int, timeout_s: float, login: Credentials | None = None, user: str = SERVER
) -> MongoClient[dict[str, Any]]:
    """A client of exactly that server, whatever state it is in; every wait is bounded.

    With a login it may do all that the server itself may, or what ``user`` may.
    """
    ms = max(1, int(timeout_s * 1000))
    options: dict[str, Any] = {}
    if login is not None:
        own = user == SERVER
        options = {"username": user, "password": login.key if own else login.password}
        options |= {"authSource": "local" if own else "admin", "authMechanism": "SCRAM-SHA-256"}
    return MongoClient(
        "127.0.0.1",
        port,
        directConnection=True,
        serverSelectionTimeoutMS=ms,
        connectTimeoutMS=ms,
        socketTimeoutMS=ms,
        appname="inferbench-embedded",
        **options,
    )


def db_path(port: int, timeout_s: float, login: Credentials | None = None) -> str | None:
    """The data folder of the mongod at that port, None if none answers in time."""
    try:
        with direct(port, timeout_s, login) as client:
            parsed = client.admin.command("getCmdLineOpts")["parsed"]
            path: str | None = parsed.get("storage", {}).get("dbPath")
            return path
    except PyMongoError:
        return None


def takes_login(port: int, timeout_s: float, login: Credentials) -> bool:
    """Whether that server takes writes of our user now."""
    try:
        with direct(port, timeout_s, login, credentials.USER) as client:
            return bool(client.admin.command("hello").get("isWritablePrimary"))
    except PyMongoError:
        return False


def make_primary(port: int, deadline: float, alive: Callable[[], bool], login: Credentials) -> bool:
    """Initiate the set if it is new, move it if its port changed, wait for the election, and let our user in.

    False if the server died meanwhile. ``deadline`` on ``time.monotonic()``; raises PerfDBError when it
    has passed.
    """
    address, last = f"127.0.0.1:{port}", "no answer"
    with direct(port, 1.0, login) as client:
        while time.monotonic() < deadline:
            try:
                hello = client.admin.command("hello")
                if hello.get("isWritablePrimary"):
                    _let_in(client, login)
                    return True
                _settle(client, address)
                last = str(client.admin.command("hello").get("info", "waiting for its election"))
            except PyMongoError as error:
                last = str(error).split(", full error")[0]
            if not alive():
                return False
            time.sleep(POLL_S)
    raise PerfDBError(f"The embedded mongod at {address} did not become primary in time: {last}")


def rewrite_address(port: int, login: Credentials) -> None:
    """In a server that runs without its set: make its own address the set's only member's."""
    with direct(port, 10.0, login) as client:
        configs = client.local["system.replset"]
        config = configs.find_one()
        if config is not None:
            members = [{**config["members"][0], "host": f"127.0.0.1:{port}"}]
            configs.update_one({"_id": config["_id"]}, {"$set": {"members": members}})


def _let_in(client: MongoClient[dict[str, Any]], login: Credentials) -> None:
    """Our user, with the password that follows from the key and the roles of this version."""
    command = "updateUser" if client.admin.command("usersInfo", credentials.USER)["users"] else "createUser"
    client.admin.command(
        command, credentials.USER, pwd=login.password, roles=list(credentials.ROLES),
        mechanisms=["SCRAM-SHA-256"],
    )  # fmt: skip


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
