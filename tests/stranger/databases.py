"""Redis and MongoDB, asked without a login and with guesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.stranger.ending import DONE, Ending
from tests.stranger.wire import say

REDIS = (
    "PING", "INFO", "KEYS *", "CONFIG GET requirepass", "CONFIG SET dir /tmp", "GET celery", "SET stranger 1",
    "LPUSH host task", "LRANGE cpu 0 -1", "EVAL 'return 1' 0", "REPLICAOF NO ONE", "MODULE LIST",
    "CLIENT LIST", "SAVE",
    "MONITOR", "SUBSCRIBE x", "HELLO 3", "AUTH guess", "AUTH default guess", "SCRIPT FLUSH", "DEBUG SLEEP 0",
    "ACL LIST",
)  # fmt: skip


def redis(port: int) -> list[Ending]:
    """Each command's first word of answer."""
    return [_command(port, command) for command in REDIS]


def _command(port: int, command: str) -> Ending:
    reply = say(port, f"{command}\r\n".encode())
    word = reply.split(b" ")[0].strip().decode(errors="replace")
    return {"what": "redis", "where": f"{port} {command}", "ending": word, "answer": repr(reply[:100])}


def mongo(port: int, login: str = "") -> MongoClient[Any]:
    options = "directConnection=true&serverSelectionTimeoutMS=20000" + ("&authSource=admin" if login else "")
    return MongoClient(f"mongodb://{login}127.0.0.1:{port}/?{options}")


def perfdb(port: int) -> list[Ending]:
    acts: dict[str, Callable[[MongoClient[Any]], object]] = {
        "list databases": lambda c: c.list_database_names(),
        "list collections": lambda c: c["inferbench"].list_collection_names(),
        "read runs": lambda c: c["inferbench"]["runs"].find_one(),
        "read keys": lambda c: c["admin"]["system.keys"].find_one(),
        "read users": lambda c: c["admin"]["system.users"].find_one(),
        "read the log": lambda c: c.local["oplog.rs"].find_one(),
        "insert": lambda c: c["inferbench"]["runs"].insert_one({"stranger": 1}),
        "update": lambda c: c["inferbench"]["runs"].update_many({}, {"$set": {"stranger": 1}}),
        "delete": lambda c: c["inferbench"]["stranger"].delete_many({}),
        "drop": lambda c: c.drop_database("stranger"),
        "make a user": lambda c: c.admin.command("createUser", "stranger", pwd="x", roles=["root"]),
        "status": lambda c: c.admin.command("serverStatus"),
        "log": lambda c: c.admin.command("getLog", "global"),
        "parameters": lambda c: c.admin.command("getParameter", "*"),
        "set a parameter": lambda c: c.admin.command("setParameter", 1, logLevel=0),
        "replica set": lambda c: c.admin.command("replSetGetStatus"),
        "sessions": lambda c: c.admin.command("currentOp"),
        "javascript": lambda c: c["inferbench"]["runs"].find_one({"$where": "1"}),
    }
    endings = [_question(port, name, "", act) for name, act in acts.items()]
    for user in ("inferbench", "__system", "admin", "root"):
        login = f"{user}:inferbench@"
        endings.append(_question(port, f"log in as {user}", login, lambda c: c.admin.command("ping")))
    return endings


def _question(port: int, name: str, login: str, act: Callable[[MongoClient[Any]], object]) -> Ending:
    where = f"{port} {name}"
    try:
        with mongo(port, login) as client:
            answer = act(client)
    except OperationFailure as error:
        return {
            "what": "mongo",
            "where": where,
            "ending": str((error.details or {}).get("codeName", error.code)),
        }
    except PyMongoError as error:
        return {"what": "mongo", "where": where, "ending": type(error).__name__}
    return {"what": "mongo", "where": where, "ending": DONE, "answer": str(answer)[:300]}
