"""Who gets into the embedded PerfDB: its user, and nobody else on the machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.perfdb import credentials, embedded, mongod, replicaset
from inferbench_tasks.perfdb.address import masked
from inferbench_tasks.perfdb.server_state import ServerState, running_on
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration
NOBODY = 65534
#: What a stranger tries; it prints how many of it succeeded.
STRANGER = """
import sys
from pymongo import MongoClient
from pymongo.errors import PyMongoError
port, path = int(sys.argv[1]), sys.argv[2]
client = MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=5000)
assert client.admin.command("hello")["isWritablePrimary"]
tries = [
    lambda: client.list_database_names(),
    lambda: client.inferbench.results.find_one(),
    lambda: client.inferbench.results.insert_one({"_id": "forged"}),
    lambda: client.admin.command("createUser", "stranger", pwd="x", roles=["root"]),
    lambda: client.admin.command("shutdown"),
    lambda: open(path).read(),
]
done = 0
for attempt in tries:
    try:
        attempt()
        done += 1
    except (PyMongoError, PermissionError) as error:
        print(type(error).__name__, file=sys.stderr)
print(done)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose embedded server is ended afterwards."""
    yield tmp_path
    embedded.stop(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_neither_reads_nor_writes(home: Path) -> None:
    """A process of another uid reaches the port, and gets nothing from it: no data, no write, no user, no key."""
    embedded.ensure(home)
    port = str(embedded.status(home)["port"])
    # The other user has no way to this Python's packages where they lie in a home of mode 700: they are open already.
    packages = os.path.dirname(os.path.dirname(sys.modules["pymongo"].__file__ or ""))
    code = f"import sys, os; sys.path.insert(0, {packages!r}); import pymongo\nos.setgroups([])\n"
    code += f"os.setgid({NOBODY}); os.setuid({NOBODY})\n{STRANGER}"
    process = subprocess.run(
        [sys.executable, "-c", code, port, str(home / "perfdb" / "key")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout.strip() == "0", process.stderr
    with PerfDB.connect(None, home) as db:
        assert db.find_results() == []


def test_our_own_user_is_no_administrator(home: Path) -> None:
    """The login that processes use reads and writes data; it makes no users and ends no server."""
    uri = embedded.ensure(home)
    with _client(uri) as client:
        client.inferbench.things.insert_one({})
        for command in ("shutdown", {"createUser": "x", "pwd": "x", "roles": ["root"]}, {"usersInfo": 1}):
            with pytest.raises(OperationFailure, match="not authorized"):
                client.admin.command(command)


#: The little of mongosh that perfdb-health.js uses; what it does to users is printed, a JSON line each.
SHELL = """
{
  const held = JSON.parse(process.argv[2]);
  const told = (...what) => console.log(JSON.stringify(what));
  const users = {auth: () => 1, getUser: (user) => held[user] ?? null,
    createUser: (of) => told("create", of.user, of.roles),
    revokeRolesFromUser: (user, roles) => told("revoke", user, roles)};
  globalThis.db = {getSiblingDB: () => users, hello: () => ({isWritablePrimary: true})};
  globalThis.rs = {status: () => ({}), initiate: () => {}};
  globalThis.quit = (code) => process.exit(code);
  require("vm").runInThisContext(require("fs").readFileSync(process.argv[1], "utf8"));
}
"""


def asked_of_users(known: dict[str, Any]) -> list[Any]:
    """What the health check does where these users are."""
    script = Path(__file__).parents[2] / "docker" / "compose" / "perfdb-health.js"
    done = subprocess.run(
        ["node", "-e", SHELL, str(script), json.dumps(known)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no node (Debian: apt-get install nodejs)"
)


@needs_node
def test_the_roles_of_a_teams_deployment_are_enough_and_no_more(home: Path) -> None:
    """With what the deployment gives: a writer stores results, a reader sees them and changes nothing, an admin alone
    looks after the collections; nobody of them makes users or reads another database.
    """
    embedded.ensure(home)
    port = int(embedded.status(home)["port"])
    made = {user: roles for what, user, roles in asked_of_users({}) if what == "create"}
    with replicaset.direct(port, 10, credentials.drawn(home / "perfdb")) as client:
        for user, roles in made.items():
            client.admin.command("createUser", user, pwd=user, roles=roles)
    place = f"127.0.0.1:{port}/inferbench?authSource=admin&replicaSet=inferbench&w=majority"
    with PerfDB.connect(f"mongodb://writer:writer@{place}", home / "other") as db:
        db.save_result(result())
        assert db.server()["server"] == "external" and db.sizes()["results"] == 1
    with PerfDB.connect(f"mongodb://reader:reader@{place}", home / "other") as db:
        assert [document.run_id for document in db.find_results()] == ["run-1"]
        with pytest.raises(PerfDBError, match="not authorized"):
            db.save_result(result().model_copy(update={"run_id": "run-2"}))
    refused: list[tuple[str, dict[str, Any]]] = [
        ("inferbench", {"profile": 0}),
        ("inferbench", {"createUser": "x", "pwd": "x", "roles": ["read"]}),
        ("other", {"find": "things"}),
        ("admin", {"shutdown": 1}),
    ]
    for user in ("reader", "writer", "admin"):
        with _client(f"mongodb://{user}:{user}@{place}") as client:
            assert client.admin.command("serverStatus")["ok"] == 1
            if user == "admin":
                client.inferbench.command("profile", 0)
            for database, command in refused[1:] if user == "admin" else refused:
                with pytest.raises(OperationFailure, match="not authorized"):
                    client[database].command(command)


@needs_node
def test_the_gateways_login_makes_users_and_sees_nothing_of_the_server(home: Path) -> None:
    """What the deployment asks of MongoDB, asked of a real one: a new gateway has not the right to look at the server,
    one from before loses it and keeps its own; a second look changes nothing.
    """
    embedded.ensure(home)
    port = int(embedded.status(home)["port"])
    made = {user: roles for what, user, roles in asked_of_users({}) if what == "create"}
    assert made.keys() == {"reader", "writer", "admin", "gateway"}
    monitor = {"role": "clusterMonitor", "db": "admin"}
    assert [user for user, roles in made.items() if monitor not in roles] == ["gateway"]
    older = {user: {"roles": [*roles, monitor]} for user, roles in made.items()}
    assert asked_of_users(older) == [["revoke", "gateway", [monitor]]]
    assert asked_of_users({user: {"roles": roles} for user, roles in made.items()}) == []
    with replicaset.direct(port, 10, credentials.drawn(home / "perfdb")) as client:
        client.admin.command("createUser", "gateway", pwd="gateway", roles=older["gateway"]["roles"])
        uri = f"mongodb://gateway:gateway@127.0.0.1:{port}/?authSource=admin&directConnection=true"
        with _client(uri) as gateway:
            assert gateway.admin.command("serverStatus")["ok"] == 1
        client.admin.command("revokeRolesFromUser", "gateway", roles=[monitor])
        with _client(uri) as gateway:
            for command in ("serverStatus", {"currentOp": 1}, {"getLog": "global"}):
                with pytest.raises(OperationFailure, match="not authorized"):
                    gateway.admin.command(command)
            gateway.inferbench.command("createUser", "of-a-host", pwd="x", roles=["readWrite"])
            gateway.inferbench.command("dropUser", "of-a-host")


def test_the_key_is_private_and_never_shown(home: Path) -> None:
    """Mode 600; neither the key nor the password stands in the log, in the written state, or in what people see."""
    uri = embedded.ensure(home)
    folder = home / "perfdb"
    login = credentials.drawn(folder)
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    assert login.password in uri
    for text in (
        (folder / "mongod.log").read_text(), (folder / "server.json").read_text(), masked(uri), repr(login),
    ):  # fmt: skip
        assert login.key not in text
        assert login.password not in text


def test_data_of_an_earlier_version_are_taken_over(home: Path) -> None:
    """A server that asks for no login, as earlier versions started it, is started again with one; nothing is lost."""
    embedded.ensure(home)
    with PerfDB.connect(None, home) as db:
        db.save_result(result())
    embedded.stop(home)
    folder = home / "perfdb"
    state = ServerState.read(folder)
    assert state is not None
    _start_without_login(folder, state.port)
    open_uri = f"mongodb://127.0.0.1:{state.port}/?directConnection=true"
    (folder / "key").unlink()
    with _client(open_uri) as client:
        assert client.inferbench.results.count_documents({}) == 1
    with PerfDB.connect(f"mongodb://127.0.0.1:{state.port}/?replicaSet=inferbench&w=majority", home) as db:
        assert [r.run_id for r in db.find_results()] == ["run-1"]
    with _client(open_uri) as client:
        with pytest.raises(OperationFailure, match="requires authentication"):
            client.inferbench.results.find_one()


def test_a_new_key_gets_its_login(home: Path) -> None:
    """Without its key (a copy of the data alone), the next start draws another and lets its user in."""
    first = embedded.ensure(home)
    with PerfDB.connect(None, home) as db:
        db.save_result(result())
    embedded.stop(home)
    (home / "perfdb" / "key").unlink()
    assert embedded.ensure(home) != first
    with PerfDB.connect(None, home) as db:
        assert db.get_result("run-1").valid


def _client(uri: str) -> MongoClient[dict[str, Any]]:
    return MongoClient(uri)


def _start_without_login(folder: Path, port: int) -> None:
    command = [
        str(mongod.find()),
        "--dbpath",
        str(folder / "db"),
        "--port",
        str(port),
        "--bind_ip",
        "127.0.0.1",
    ]
    command += ["--nounixsocket", "--logpath", str(folder / "mongod.log"), "--logappend", "--fork"]
    subprocess.run([*command, "--replSet", replicaset.NAME], check=True, stdout=subprocess.DEVNULL)
    state = running_on(folder / "db")
    assert state is not None
    state.write(folder)
    assert not state.asks_for_login()
    with replicaset.direct(port, 20.0) as client:
        while not client.admin.command("hello")["isWritablePrimary"]:
            time.sleep(0.05)
