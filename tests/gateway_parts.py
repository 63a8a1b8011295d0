"""A gateway's surroundings in tests: a real broker, a stand-in for the execution API, and who comes as a worker."""

from __future__ import annotations

import http.server
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import redis
from pymongo import MongoClient

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.answers import BROKER_OFFSET, EXECUTION_OFFSET
from inferbench_tasks.provider.joining.leader import AUTHORITY, CERTIFICATE, Leader
from inferbench_tasks.provider.joining.listening import listening
from inferbench_tasks.provider.joining.worker_environment import environment
from inferbench_tasks.provider.system import broker
from inferbench_tasks.provider.system.local import free_port

EXECUTION_ANSWER = b"the execution API"


class Answering(http.server.BaseHTTPRequestHandler):
    """In the execution API's place."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(EXECUTION_ANSWER)))
        self.end_headers()
        self.wfile.write(EXECUTION_ANSWER)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def free_ports() -> int:
    """The first of four free ones of 127.0.0.2."""
    while True:
        port = free_port()
        try:
            return listening(f"127.0.0.2:{port}").port
        except InputError:
            continue


@dataclass(frozen=True)
class Surroundings:
    """What a gateway needs beside PerfDB; ``execution_url`` is the stand-in's."""

    execution_url: str
    broker_port: int = field(default_factory=free_port)
    password: str = "of-the-broker"

    @property
    def broker_url(self) -> str:
        """With the password that the broker asks for."""
        return f"redis://:{self.password}@127.0.0.1:{self.broker_port}/0"


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """The stand-in answers while this lasts."""
    execution = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=execution.serve_forever, daemon=True).start()
    try:
        yield Surroundings(f"http://127.0.0.1:{execution.server_port}/execution/")
    finally:
        execution.shutdown()
        execution.server_close()


@contextmanager
def listens(
    around: Surroundings, command: Sequence[str], env: dict[str, str], port: int, *, home: Path, log: Path
) -> Iterator[int]:
    """The broker (its files are in ``home``) and a gateway, once this listens on 127.0.0.2; its process."""
    with open(log, "wb") as output:
        started = [
            subprocess.Popen(
                broker.command(home, around.broker_port, around.password, bounded=True),
                stdout=output,
                stderr=output,
            ),
            subprocess.Popen(command, env=env, stdout=output, stderr=output),
        ]
    try:
        until(lambda: connects(port + EXECUTION_OFFSET) and connects(port), "the gateway does not listen")
        yield started[1].pid
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(timeout=30)


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.2", port), timeout=5).close()
    except OSError:
        return False
    return True


def until(check: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def broker_of(leader: Leader, **more: Any) -> redis.Redis:
    files = {
        "ssl_certfile": str(leader.folder / CERTIFICATE),
        "ssl_keyfile": str(leader.folder / CERTIFICATE),
    }
    return redis.Redis(
        host=leader.host, port=leader.port + BROKER_OFFSET, username=leader.user, password=leader.password, ssl=True,
        ssl_ca_certs=str(leader.folder / AUTHORITY), socket_timeout=10, **(files | more),
    )  # fmt: skip


def perfdb_of(leader: Leader, data_dir: Path) -> MongoClient[dict[str, Any]]:
    uri = environment(leader, data_dir)[settings.PERFDB_URI]
    return MongoClient(uri, serverSelectionTimeoutMS=5_000)


def execution_of(leader: Leader, *, certificate: bool = True) -> httpx.Response:
    context = ssl.create_default_context(cafile=leader.folder / AUTHORITY)
    if certificate:
        context.load_cert_chain(leader.folder / CERTIFICATE)
    with httpx.Client(verify=context, timeout=10, trust_env=False) as client:
        return client.get(f"https://{leader.host}:{leader.port + EXECUTION_OFFSET}/execution/health")


def fails(action: Callable[[], object], error: type[Exception]) -> bool:
    try:
        action()
    except error:
        return True
    return False
