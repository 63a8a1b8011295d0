"""What those who want to stop a system do to its web port, all bounded in number and time; see ``attack``."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx

from tests.local_system import Driver

SUBMISSIONS, SLOW, BODY_BYTES = 300, 400, 200_000_000
#: Of connections and answers of an attacker: longer than the attack.
PATIENCE_S = 120
SMALL = """name: flood-{number}
model: {{kind: zoo, name: digits}}
load: {{arrivals: {{kind: constant, rate_rps: 20}}, duration_s: 1, warmup_s: 0, wait_for_quiet_s: 0, seed: {number}}}
"""
REDOS = ("run=*?*?*?*?*?*?*?*!", "run=*a*a*a*a*a*a*a*!b", "run=" + ",".join(["*?*?*?*?*?*?*!"] * 100))


@dataclass
class Attack:
    """What all attackers share. ``answers``: of each, how often it got which answer; ``waits_s`` of the probes."""

    driver: Driver
    tokens: dict[str, str]
    over: threading.Event = field(default_factory=threading.Event)
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    waits_s: dict[str, list[float]] = field(default_factory=dict)
    peak_bytes: int = 0
    accepted: list[str] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        """Of the api-server."""
        url = httpx.URL(self.driver.system.url())
        return url.host, int(url.port or 80)

    def client(self, login: str | None = None) -> httpx.Client:
        """A browser or script of that login."""
        headers = {"Authorization": f"Bearer {self.tokens[login]}"} if login else {}
        return httpx.Client(base_url=self.driver.system.url(), timeout=PATIENCE_S, headers=headers)

    def note(self, who: str, answer: str) -> None:
        """Count an answer."""
        self.answers.setdefault(who, Counter())[answer] += 1


def queries(attack: Attack) -> None:
    """A viewer asks with patterns that a backtracking matcher tries for minutes."""
    with attack.client("viewer") as client:
        while not attack.over.is_set():
            for query in REDOS:
                status = client.get(f"/inferbench/api/runs?q={quote(query)}").status_code
                attack.note("queries", str(status))


def submissions(attack: Attack) -> None:
    """A submitter submits 300 times, as fast as it is answered."""
    with attack.client("submitter") as client:
        for number in range(SUBMISSIONS):
            if attack.over.is_set():
                return
            answer = client.post(
                "/inferbench/api/submissions", json={"submission": SMALL.format(number=number)}
            )
            attack.note("submissions", str(answer.status_code))
            if answer.status_code == 202:
                attack.accepted.append(answer.json()["run"])


def bodies(attack: Attack) -> None:
    """Bodies of 200 MB without a login: one says its length, one does not, one is for the execution API."""
    part = b"x" * 65536
    routes = (
        "/inferbench/api/submissions", "/api/v2/dags/submit/dagRuns", "/auth/token",
        "/execution/xcoms/submit/x/validate/k",
    )  # fmt: skip
    while not attack.over.is_set():
        for route in routes:
            for length in (f"Content-Length: {BODY_BYTES}", "Transfer-Encoding: chunked"):
                head = (
                    f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
                )
                attack.note(f"bodies, {length.split(':')[0]}", _pour(attack, head, part, "chunked" in length))


def _pour(attack: Attack, head: str, part: bytes, chunked: bool) -> str:
    frame = f"{len(part):x}\r\n".encode() + part + b"\r\n" if chunked else part
    try:
        with socket.create_connection(attack.address, PATIENCE_S) as connection:
            connection.settimeout(30)
            with suppress(OSError):  # it closes on us: then there is an answer to read
                connection.sendall(head.encode())
                for _ in range(BODY_BYTES // len(part)):
                    if attack.over.is_set():
                        return "the attack was over"
                    connection.sendall(frame)
            return connection.recv(4096)[9:12].decode(errors="replace") or "closed"
    except OSError as error:
        return type(error).__name__


def slow_loris(attack: Attack) -> None:
    """Hundreds of connections, each a byte a second: half of them in the headers, half in a body."""
    connections: list[socket.socket] = []
    head = b"POST /inferbench/api/submissions HTTP/1.1\r\nHost: x\r\n"
    with suppress(OSError):
        for number in range(SLOW):
            connection = socket.create_connection(attack.address, PATIENCE_S)
            connection.sendall(
                head if number % 2 else head + b"Content-Length: 1900000\r\n\r\n" + b" " * 1_800_000
            )
            connections.append(connection)
    while not attack.over.wait(1.0):
        alive = []
        for connection in connections:
            try:
                connection.sendall(b"x")
                alive.append(connection)
            except OSError:
                attack.note("slow connections", "ended by the server")
        connections = alive
    attack.note("slow connections", f"{len(connections)} open at the end")
    for connection in connections:
        connection.close()


def guesses(attack: Attack) -> None:
    """Passwords for admin, and for logins that there are not."""
    number = 0
    with attack.client() as client:
        while not attack.over.is_set():
            number += 1
            login = {"username": "admin" if number % 2 else f"user-{number}", "password": f"guess-{number}"}
            attack.note("guesses", str(client.post("/auth/token", json=login).status_code))


ATTACKERS: tuple[Callable[[Attack], None], ...] = (
    *(queries, queries), submissions, *(bodies, bodies, bodies), slow_loris, guesses,
)  # fmt: skip
