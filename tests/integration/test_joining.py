"""A leader's gateway before a real broker and PerfDB: who gets in, who does not, and what a revoked worker keeps."""

from __future__ import annotations

import http.server
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import redis
from pymongo.errors import OperationFailure, PyMongoError

from inferbench_tasks import settings
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.errors import InputError, LeaderAwayError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.joining import leader as joining
from inferbench_tasks.provider.joining.answers import BROKER_OFFSET, EXECUTION_OFFSET, PERFDB_OFFSET
from inferbench_tasks.provider.joining.authority import Authority
from inferbench_tasks.provider.joining.leader import CERTIFICATE, Leader
from inferbench_tasks.provider.joining.listening import listening
from inferbench_tasks.provider.joining.tokens import FOLDER, Secret, Tokens
from inferbench_tasks.provider.joining.worker_environment import JOINED_UNTIL, environment
from inferbench_tasks.provider.system.config import EXECUTION_URL
from inferbench_tasks.workers import drain as draining
from tests.away_hosts import relayed
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
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Site:
    """A running gateway."""

    data_dir: Path
    url: str
    port: int
    log: Path
    pid: int

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.data_dir / "system" / FOLDER)

    @property
    def fingerprint(self) -> str:
        return Authority.of(self.data_dir / "system" / FOLDER).fingerprint

    def secret(self, name: str, lasts: timedelta = DAY) -> Secret:
        return self.tokens.create(name, lasts, self.fingerprint)[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Broker, PerfDB, a stand-in for the execution API, and the gateway before them."""
    patch = pytest.MonkeyPatch()
    patch.delenv(settings.PERFDB_URI, raising=False)
    data_dir = tmp_path_factory.mktemp("leader")
    home = data_dir / "system"
    (data_dir / "dags").mkdir()
    (data_dir / "dags" / "one.py").write_text("# a DAG file\n")
    embedded.ensure(data_dir)
    place, log = listening(f"127.0.0.2:{free_ports()}"), data_dir / "gateway.log"
    command = place.command(home, data_dir / "dags", data_dir / "dags")
    try:
        with surroundings() as around:
            env = os.environ | {
                settings.DATA_DIR: str(data_dir),
                "AIRFLOW__CELERY__BROKER_URL": around.broker_url,
                EXECUTION_URL: around.execution_url,
            }
            with listens(around, command, env, place.port, home=home, log=log) as pid:
                yield Site(data_dir, place.url, place.port, log, pid)
    finally:
        embedded.stop(data_dir)
        patch.undo()


def test_a_worker_that_joined_reaches_all_that_it_needs_and_no_more(site: Site, tmp_path: Path) -> None:
    """Broker, PerfDB, execution API and DAG files by one token; no other database, no setting, no script of its own."""
    leader = Leader.join(site.url, site.secret("whole"), tmp_path)
    assert (leader.sync() / "dags" / "one.py").read_text() == "# a DAG file\n"
    assert execution_of(leader).content == EXECUTION_ANSWER
    assert environment(leader, tmp_path)[JOINED_UNTIL] == leader.expires_at
    assert datetime.fromisoformat(leader.expires_at) > datetime.now(UTC)
    with broker_of(leader) as client:
        client.rpush("queue", "message")
        assert client.blpop(["queue"], timeout=5) == (b"queue", b"message")
        for command in (
            ("CONFIG", "GET", "*"),
            ("ACL", "LIST"),
            ("EVAL", "return 1", "0"),
            ("FLUSHALL",),
            ("SHUTDOWN",),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
    with PerfDB.connect(environment(leader, tmp_path)[settings.PERFDB_URI], tmp_path) as db:
        assert db.transaction(
            lambda session: db.collection("joined").insert_one({"a": 1}, session=session), "test"
        )
    with perfdb_of(leader, tmp_path) as client:
        for refused in (
            lambda: client.other.things.insert_one({"a": 1}),
            lambda: client.admin.command("usersInfo", 1),
            lambda: client.admin.command("shutdown"),
            client.admin.system.users.find_one,
        ):
            with pytest.raises(OperationFailure, match="not authorized|requires authentication"):
                refused()


def test_a_revoked_worker_loses_all_of_it_at_once_and_others_keep_theirs(site: Site, tmp_path: Path) -> None:
    """Connections that were open end too; joining again is refused."""
    secret = site.secret("revoked")
    leader, other = (
        Leader.join(site.url, secret, tmp_path / "a"),
        Leader.join(site.url, site.secret("kept"), tmp_path / "b"),
    )
    with (
        broker_of(leader) as client,
        perfdb_of(leader, tmp_path / "a") as database,
        broker_of(other) as spared,
    ):
        assert client.ping() and spared.ping()
        database.inferbench.joined.find_one()
        site.tokens.revoke("revoked")
        until(lambda: fails(client.ping, redis.RedisError), "the broker still answers")
        until(lambda: fails(database.inferbench.joined.find_one, PyMongoError), "PerfDB still answers")
        with pytest.raises(httpx.TransportError):
            execution_of(leader)
        with pytest.raises(InputError, match="refuses: no login of a worker"):
            leader.sync()
        with pytest.raises(InputError, match="the token 'revoked' is revoked"):
            Leader.join(site.url, secret, tmp_path / "a")
        assert spared.ping() and execution_of(other).content == EXECUTION_ANSWER


def test_a_token_that_ends_takes_the_access_with_it(site: Site, tmp_path: Path) -> None:
    """Nobody has to revoke it."""
    leader = Leader.join(site.url, site.secret("short", timedelta(seconds=8)), tmp_path)
    with broker_of(leader) as client:
        assert client.ping()
        until(lambda: fails(client.ping, redis.RedisError), "the broker still answers")
    with pytest.raises(InputError, match="refuses: no login of a worker"):
        leader.sync()


def test_wrong_and_unknown_tokens_are_refused(site: Site, tmp_path: Path) -> None:
    """Another's secret, and an id that there is not; nothing is kept of it."""
    secret, other = site.secret("right"), site.secret("other")
    for wrong in (replace(secret, secret=other.secret), replace(secret, token_id="0" * 12)):
        with pytest.raises(InputError, match="the token is not known here"):
            Leader.join(site.url, wrong, tmp_path)
    assert not (tmp_path / joining.FOLDER / CERTIFICATE).exists()


def test_a_token_is_one_host_s(site: Site, tmp_path: Path) -> None:
    """The same data directory joins again as often as it wants."""
    secret = site.secret("mine")
    Leader.join(site.url, secret, tmp_path / "a")
    Leader.join(site.url, secret, tmp_path / "a")
    with pytest.raises(InputError, match="'mine' is that of host"):
        Leader.join(site.url, secret, tmp_path / "b")


def test_other_versions_are_refused_with_both_numbers(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything was made for the worker."""
    monkeypatch.setattr(
        joining, "own", lambda: own().model_copy(update={"inferbench": "9.9", "protocol": 99})
    )
    with pytest.raises(
        InputError, match=r"InferBench 9\.9 of the worker, .* of the leader; protocol 99 of the worker, "
    ):
        Leader.join(site.url, site.secret("old"), tmp_path)
    assert next(t for t in site.tokens.all() if t.name == "old").home is None


@pytest.mark.parametrize(("ahead_s", "way"), [(90_000.0, "ahead of"), (-90_000.0, "behind")])
def test_a_clock_a_day_off_is_refused_with_the_offset_and_the_remedy(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: float, way: str
) -> None:
    """Before certificates are looked at: to a clock that is behind, the leader's would be those of somebody else."""
    now, secret = time.time, site.secret(f"clock-{way[:5].strip()}")
    monkeypatch.setattr(time, "time", lambda: now() + ahead_s)
    with pytest.raises(
        InputError, match=rf"(90,00\d|89,99\d) s {way} the leader's.*set-ntp.*token was not sent"
    ):
        Leader.join(site.url, secret, tmp_path)
    assert next(t for t in site.tokens.all() if t.token_id == secret.token_id).home is None


def test_the_secret_goes_to_no_other_leader(site: Site, tmp_path: Path) -> None:
    """A token of another system, as of somebody in between: its authority is not the token's, and nothing is sent."""
    secret = replace(site.secret("elsewhere"), fingerprint="b" * 64)
    before = site.log.read_text().count("refused to join")
    with pytest.raises(InputError, match="is not the leader that made this token.*The token was not sent"):
        Leader.join(site.url, secret, tmp_path)
    assert site.log.read_text().count("refused to join") == before


def test_who_shows_the_leader_s_authority_without_its_key_gets_no_secret(site: Site, tmp_path: Path) -> None:
    """Somebody in between can pass on ``/ca``; the connection that carries the secret has to be the authority's own."""
    false = Authority.of(tmp_path / "false")
    false.server(tmp_path / "false.pem", ["127.0.0.1"])
    heard: list[bytes] = []

    class Between(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pem = Authority.of(site.data_dir / "system" / FOLDER).pem.encode()
            self.send_response(200)
            self.send_header("content-length", str(len(pem)))
            self.end_headers()
            self.wfile.write(pem)

        def do_POST(self) -> None:
            heard.append(self.rfile.read())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "false.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(InputError, match="does not prove that it is the leader"):
            Leader.join(
                f"https://127.0.0.1:{server.server_port}", site.secret("between"), tmp_path / "worker"
            )
    finally:
        server.shutdown()
        server.server_close()
    assert heard == []


def test_without_tls_or_a_certificate_of_ours_nothing_answers(site: Site, tmp_path: Path) -> None:
    """On none of the four ports in plain text; on the three others not without a certificate, nor with a stranger's."""
    leader = Leader.join(site.url, site.secret("plain"), tmp_path)
    for offset in (0, BROKER_OFFSET, PERFDB_OFFSET, EXECUTION_OFFSET):
        with socket.create_connection(("127.0.0.2", site.port + offset), timeout=15) as plain:
            plain.sendall(b"PING\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = received(plain)
            assert (
                b"PONG" not in answer and b"HTTP/" not in answer and len(answer) < 100
            )  # at most a TLS alert
    stranger = Authority.of(tmp_path / "stranger")
    stranger.server(tmp_path / "stranger.pem", ["w"])
    for more in (
        {"ssl_certfile": None, "ssl_keyfile": None},
        dict.fromkeys(("ssl_certfile", "ssl_keyfile"), str(tmp_path / "stranger.pem")),
    ):
        with broker_of(leader, **more) as client, pytest.raises(redis.RedisError):
            client.ping()
    with pytest.raises(httpx.TransportError):
        execution_of(leader, certificate=False)


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except OSError:
        return b""


def test_a_gateway_that_is_not_there_is_told(tmp_path: Path, site: Site) -> None:
    """With what to look at, and as what may be there later."""
    with pytest.raises(LeaderAwayError, match="can't be reached .*four ports"):
        Leader.join(f"https://127.0.0.2:{free_ports()}", site.secret("nobody"), tmp_path)


def worker_command(url: str) -> list[str]:
    """Of a worker that joins, its token by standard input, and then has no such device: it ends with 2."""
    words = ["worker", "--join", url, "--token", "-", "--device", "none"]
    return [sys.executable, "-m", "inferbench_tasks.cli.main", *words]


def test_a_worker_that_is_started_while_its_leader_is_down_waits_for_it(site: Site, tmp_path: Path) -> None:
    """It says for what; once the leader is there it joins by the token that it was given, and is found by --drain all
    the while."""
    secret, port = site.secret("patient"), free_ports()
    env, log = os.environ | {settings.DATA_DIR: str(tmp_path)}, tmp_path / "log"
    with open(log, "wb") as file:
        worker = subprocess.Popen(
            worker_command(f"https://127.0.0.2:{port}"),
            env=env,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
        )
    try:
        assert worker.stdin is not None
        worker.stdin.write(secret.text.encode())
        worker.stdin.close()
        until(lambda: "waiting, and trying again" in log.read_text(), "it does not say that it waits")
        said = log.read_text()
        assert f"The leader at https://127.0.0.2:{port} can't be reached" in said and "four ports" in said
        assert worker.poll() is None and [p.pid for p in draining.workers(tmp_path)] == [worker.pid]
        with relayed("127.0.0.2", site.port, at=port, to="127.0.0.2"):
            until(lambda: worker.poll() is not None, "it does not join")
    finally:
        worker.kill()
        worker.wait()
    said = log.read_text()
    assert worker.returncode == 2 and f"joined    https://127.0.0.2:{port} as patient" in said
    assert secret.secret not in said and draining.workers(tmp_path) == []


def test_a_worker_with_a_wrong_token_does_not_wait(site: Site, tmp_path: Path) -> None:
    """Nobody would make it right."""
    wrong = replace(site.secret("hasty"), secret=site.secret("another").secret)
    env = os.environ | {settings.DATA_DIR: str(tmp_path)}
    run = subprocess.run(
        worker_command(site.url),
        env=env,
        input=wrong.text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 2 and "the token is not known here" in run.stderr and "waiting" not in run.stderr


def test_no_secret_is_in_a_log_a_command_line_or_another_s_file(site: Site, tmp_path: Path) -> None:
    """Neither the token's secret nor the password; what the worker keeps is closed to others."""
    secret = site.secret("quiet")
    command = worker_command(site.url)
    env = os.environ | {settings.DATA_DIR: str(tmp_path)}
    run = subprocess.run(
        command, env=env, input=secret.text, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 2 and "none" in run.stderr  # it joined, and has no such device
    lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    places = [run.stdout, run.stderr, site.log.read_text(), *lines]
    places += [p.read_text(errors="replace") for p in (site.data_dir / "system").rglob("*") if p.is_file()]
    for text in places:
        assert secret.secret not in text and secret.password not in text
    kept = [p for p in (tmp_path / joining.FOLDER).iterdir() if p.is_file()]
    assert {CERTIFICATE, "login.json"} <= {p.name for p in kept}
    assert all(p.stat().st_mode & 0o077 == 0 for p in kept if p.suffix in (".pem", ".json"))
