"""The logins of single workers at broker and PerfDB: a user each, which is there as long as its token is in force."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from inferbench_tasks.errors import InferBenchError, PerfDBError
from inferbench_tasks.perfdb import credentials, folder, replicaset
from inferbench_tasks.perfdb.address import DEFAULT_DATABASE, database_of
from inferbench_tasks.perfdb.server_state import ServerState
from inferbench_tasks.provider.joining.relay import Place
from inferbench_tasks.provider.joining.tokens import Token

PREFIX = "worker-"
TIMEOUT_S = 5.0
#: Read after the users that there are: a token is written down before its user is made, and no new user is dropped.
Active = Callable[[], Sequence[Token]]
#: What Celery does as a worker, and no more: no settings, no removal of whole databases, no users. Of scripts it runs
#: those that we have loaded, and brings none: Lua of strangers has been a way into the server (CVE-2025-49844). All
#: keys and channels are its: what it puts into queues, others refuse (``guard``).
COMMANDS = ("+@all", "-@admin", "-@dangerous", "-@scripting", "+evalsha", "+script|exists", "+info")


def outages() -> tuple[type[Exception], ...]:
    """What broker and PerfDB raise while they can't be asked."""
    import redis

    return (OSError, PyMongoError, InferBenchError, redis.RedisError)


class Broker:
    """Users of a Redis. They live in its memory: whoever starts it again has them made again."""

    def __init__(self, url: str) -> None:
        import redis

        self._client: Any = redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, decode_responses=True
        )
        self._made: set[str] = set()
        self._lock = threading.Lock()

    def users(self) -> dict[str, list[str]]:
        """Workers' users there, with the SHA-256 of their passwords."""
        names = [name for name in self._client.acl_users() if name.startswith(PREFIX)]
        return {name: self._client.acl_getuser(name)["passwords"] for name in names}

    def settle(self, active: Active) -> None:
        """Have these and no others; whose user is removed, is disconnected. Raises ``redis.RedisError``."""
        with self._lock:
            self._load_scripts()
            users = self.users()
            for token in active():
                # Once in this process's life in any case: an earlier version may have given it other rights.
                if token.password_sha256 not in users.pop(token.user, []) or token.user not in self._made:
                    rules = ("reset", "on", f"#{token.password_sha256}", "~*", "&*", *COMMANDS)
                    self._client.execute_command("ACL", "SETUSER", token.user, *rules)
                    self._made.add(token.user)
            for name in users:
                self._client.acl_deluser(name)

    def _load_scripts(self) -> None:
        from kombu.transport.redis import REFRESH_BINDING, SWEEP_BINDINGS
        from redis.lock import Lock

        locks = (Lock.LUA_RELEASE_SCRIPT, Lock.LUA_EXTEND_SCRIPT, Lock.LUA_REACQUIRE_SCRIPT)
        scripts = (*locks, REFRESH_BINDING, SWEEP_BINDINGS)
        known = self._client.script_exists(*(hashlib.sha1(s.encode()).hexdigest() for s in scripts))  # noqa: S324 - Redis's
        for script, loaded in zip(scripts, known, strict=True):
            if not loaded:
                self._client.script_load(script)


class Database(ABC):
    """Users of a PerfDB: they read and write its one database, ``name``. ``source``: whose users they are."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self._lock = threading.Lock()

    @abstractmethod
    def place(self) -> Place:
        """Where its server listens now; PerfDBError where none does."""

    @abstractmethod
    def _client(self) -> AbstractContextManager[MongoClient[dict[str, Any]]]:
        """With the right to make users in ``source``."""

    def admit(self, token: Token, password: str) -> None:
        """Make the user, or give it that password. Raises PyMongoError."""
        with self._lock, self._client() as client:
            users = client[self.source]
            if users.command("usersInfo", token.user)["users"]:
                users.command("updateUser", token.user, pwd=password)
            else:
                roles = [{"role": "readWrite", "db": self.name}]
                mechanisms = ["SCRAM-SHA-256"]
                users.command("createUser", token.user, pwd=password, roles=roles, mechanisms=mechanisms)

    def settle(self, active: Active) -> None:
        """Remove the users of all other tokens. Raises PyMongoError."""
        with self._lock, self._client() as client:
            users = [u["user"] for u in client[self.source].command("usersInfo", 1)["users"]]
            names = {token.user for token in active()}
            for user in users:
                if user.startswith(PREFIX) and user not in names:
                    client[self.source].command("dropUser", user)


class Embedded(Database):
    """The server of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(DEFAULT_DATABASE, "admin")
        self._folder = folder.place(data_dir)

    def place(self) -> Place:
        if (state := ServerState.read(self._folder)) is None:
            raise PerfDBError("PerfDB does not run")
        return "127.0.0.1", state.port

    def _client(self) -> MongoClient[dict[str, Any]]:
        return replicaset.direct(self.place()[1], TIMEOUT_S, credentials.read(self._folder))


class Deployed(Database):
    """A server of the deployment's own. The URI's user needs ``userAdmin`` on the database that it names, no more.

    Workers' users are that database's: the gateway has no say over any other user.
    """

    def __init__(self, uri: str) -> None:
        name = database_of(uri)
        super().__init__(name, name)
        ms = int(TIMEOUT_S * 1000)
        self._shared: MongoClient[dict[str, Any]] = MongoClient(
            uri,
            serverSelectionTimeoutMS=ms,
            connectTimeoutMS=ms,
            socketTimeoutMS=ms,
            appname="inferbench-gateway",
        )

    def place(self) -> Place:
        """Of a replica set's members the one that takes writes now."""
        try:
            self._shared.admin.command("ping")
            primary = self._shared.address
        except PyMongoError as error:
            raise PerfDBError(f"PerfDB does not answer ({type(error).__name__})") from error
        if primary is None:
            raise PerfDBError("no member of PerfDB takes writes now")
        return primary

    def _client(self) -> AbstractContextManager[MongoClient[dict[str, Any]]]:
        return nullcontext(self._shared)
