"""The gateway of a deployment before its own Redis and MongoDB: who joins, and what its own user may not do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import credentials, embedded, folder, replicaset
from inferbench_tasks.perfdb.server_state import ServerState
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.joining import deployed
from inferbench_tasks.provider.joining.authority import Authority
from inferbench_tasks.provider.joining.leader import Leader
from inferbench_tasks.provider.joining.signing import PUBLIC, SigningKey
from inferbench_tasks.provider.joining.tokens import FOLDER, Secret, Tokens
from inferbench_tasks.provider.joining.worker_environment import environment
from inferbench_tasks.provider.system.config import EXECUTION_URL
from tests.gateway_parts import (
    EXECUTION_ANSWER,
    broker_of,
    execution_of,
    fails,
    free_ports,
    listens,
    perfdb_of,
    surroundings,
    until,
)

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Deployment:
    """``data_dir``: the gateway's; ``perfdb``: the URI that its user has."""

    data_dir: Path
    url: str
    perfdb: str
    key: SigningKey

    def secret(self, name: str) -> Secret:
        """As `inferbench tokens create` makes one in the gateway's container."""
        joining = self.data_dir / "system" / FOLDER
        return Tokens(joining).create(name, timedelta(days=1), Authority.of(joining).fingerprint)[1]


def with_gateway_user(data_dir: Path) -> str:
    """The URI of a user as docker/compose/perfdb-health.js makes it."""
    state = ServerState.read(folder.place(data_dir))
    assert state is not None
    with replicaset.direct(state.port, 10, credentials.read(folder.place(data_dir))) as client:
        roles = [{"role": "userAdmin", "db": "inferbench"}]
        client.admin.command("createUser", "gateway", pwd="of-the-gateway", roles=roles)
    return f"mongodb://gateway:of-the-gateway@127.0.0.1:{state.port}/inferbench?authSource=admin&replicaSet=inferbench"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """MongoDB with logins, Redis with a password, a stand-in for the execution API, and the gateway's process."""
    databases, data_dir = tmp_path_factory.mktemp("databases"), tmp_path_factory.mktemp("gateway")
    (data_dir / "dags").mkdir()
    (data_dir / "dags" / "one.py").write_text("# a DAG file\n")
    patch = pytest.MonkeyPatch()
    patch.delenv(settings.PERFDB_URI, raising=False)
    embedded.ensure(databases)
    perfdb = with_gateway_user(databases)
    port, key = free_ports(), SigningKey.of(tmp_path_factory.mktemp("scheduler"))
    command = [sys.executable, "-m", "inferbench_tasks.provider.joining.deployed"]
    try:
        with surroundings() as around:
            env = os.environ | {
                settings.DATA_DIR: str(data_dir),
                settings.PERFDB_URI: perfdb,
                settings.SUBMISSIONS_DIR: str(data_dir / "dags"),
                deployed.DAGS: str(data_dir / "dags"),
                deployed.NAMES: "127.0.0.2, leader.example",
                deployed.LISTEN: f"127.0.0.2:{port}",
                deployed.BROKER: around.broker_url,
                EXECUTION_URL: around.execution_url,
                PUBLIC: key.public,
            }
            with listens(around, command, env, port, home=databases, log=data_dir / "gateway.log"):
                yield Deployment(data_dir, f"https://127.0.0.2:{port}", perfdb, key)
    finally:
        embedded.stop(databases)
        patch.undo()


def test_a_worker_joins_a_deployment_as_it_joins_a_local_system(
    deployment: Deployment, tmp_path: Path
) -> None:
    """Broker, PerfDB, execution API, DAG files, the scheduler's public key by one token; also the second time."""
    secret = deployment.secret("rack-1")
    for _ in range(2):
        leader = Leader.join(deployment.url, secret, tmp_path)
    assert (leader.sync() / "dags" / "one.py").read_text() == "# a DAG file\n"
    assert leader.workloads_key == deployment.key.public
    assert execution_of(leader).content == EXECUTION_ANSWER
    with broker_of(leader) as client:
        client.rpush("queue", "message")
        assert client.blpop(["queue"], timeout=5) == (b"queue", b"message")
    with PerfDB.connect(environment(leader, tmp_path)[settings.PERFDB_URI], tmp_path) as db:
        assert db.transaction(
            lambda session: db.collection("joined").insert_one({"a": 1}, session=session), "test"
        )
    with perfdb_of(leader, tmp_path) as client:
        for refused in (
            lambda: client.other.things.insert_one({"a": 1}),
            lambda: client.inferbench.command("usersInfo", 1),
            lambda: client.inferbench.command("createUser", "x", pwd="x", roles=["dbOwner"]),
            lambda: client.admin.command("shutdown"),
        ):
            with pytest.raises(OperationFailure, match="not authorized"):
                refused()


def test_a_revoked_worker_of_a_deployment_loses_its_logins(deployment: Deployment, tmp_path: Path) -> None:
    """Its user is gone from PerfDB within seconds, without anybody starting anything again."""
    leader = Leader.join(deployment.url, deployment.secret("revoked"), tmp_path)
    with MongoClient[Any](deployment.perfdb) as client:
        assert leader.user in {user["user"] for user in client.inferbench.command("usersInfo", 1)["users"]}
        Tokens(deployment.data_dir / "system" / FOLDER).revoke("revoked")
        until(
            lambda: (
                leader.user not in {u["user"] for u in client.inferbench.command("usersInfo", 1)["users"]}
            ),
            "its user is still there",
        )
    with broker_of(leader) as lost:
        until(lambda: fails(lost.ping, Exception), "the broker still answers")


def test_the_gateways_own_user_makes_no_user_of_another_database(deployment: Deployment) -> None:
    """Nor does it read or write what was measured, change who administers, or make itself more than it is."""
    with MongoClient[Any](deployment.perfdb) as client:
        for refused in (
            client.inferbench.joined.find_one,
            lambda: client.inferbench.joined.insert_one({"a": 1}),
            lambda: client.admin.command("createUser", "x", pwd="x", roles=["root"]),
            lambda: client.admin.command("updateUser", "inferbench", pwd="x"),
            lambda: client.admin.command("grantRolesToUser", "gateway", roles=["root"]),
        ):
            with pytest.raises(OperationFailure, match="not authorized"):
                refused()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({deployed.NAMES: ""}, "INFERBENCH_GATEWAY_NAMES is not set"),
        ({deployed.NAMES: "leader, a b"}, "'a b'; allowed are names and addresses"),
        ({deployed.LISTEN: "0.0.0.0:70000"}, "INFERBENCH_GATEWAY_LISTEN"),
        ({PUBLIC: ""}, "INFERBENCH_WORKLOADS_KEY is not set"),
        ({PUBLIC: "abc"}, "64 hex digits"),
        ({deployed.BROKER: "rediss://:p@redis:6379/0"}, "redis://HOST:PORT"),
        ({settings.PERFDB_URI: "mongodb://u:secret@h/inferbench?tls=true"}, "without tls=true"),
    ],
)
def test_what_the_gateway_needs_is_told_before_it_listens(
    changed: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the setting's name, without a secret that it holds."""
    whole = {
        deployed.NAMES: "leader", deployed.BROKER: "redis://:p@redis:6379/0",
        EXECUTION_URL: "http://execution-api:8081/execution/", settings.PERFDB_URI: "mongodb://u:secret@h/inferbench",
        PUBLIC: "ab" * 32, deployed.DAGS: "/dags", settings.SUBMISSIONS_DIR: "/submissions",
    }  # fmt: skip
    for name, value in (whole | changed).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=said) as told:
        deployed.plan()
    assert "secret" not in str(told.value)
    for name, value in whole.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(deployed.LISTEN, raising=False)
    assert deployed.plan().names == ["leader"]
