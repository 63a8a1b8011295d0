"""Whom a worker believes, before anything secret is sent."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError, LeaderAwayError, ServerError
from inferbench_tasks.provider.joining import leader as joining
from inferbench_tasks.provider.joining.authority import Authority
from inferbench_tasks.provider.joining.leader import AUTHORITY, FOLDER, Leader
from inferbench_tasks.provider.joining.tokens import Tokens


@contextmanager
def between(answer: bytes, certificate: Path, refusal: int = 500) -> Iterator[tuple[str, list[bytes]]]:
    """A server that shows this as the leader's authority, and lets nobody in; its URL, and the bodies that were sent
    to it."""
    heard: list[bytes] = []

    class Between(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_error(refusal)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "answer",
    [
        lambda real, evil: real + evil,
        lambda real, evil: evil + real,
        lambda real, evil: evil,
        lambda real, evil: real + real,
        lambda real, evil: "",
    ],
)
def test_an_authority_beside_the_token_s_is_not_believed(
    tmp_path: Path, answer: Callable[[str, str], str]
) -> None:
    """Whoever is in between may show the real certificate too, before his own or after it: the secret stays here."""
    real, evil = Authority.of(tmp_path / "real"), Authority.of(tmp_path / "evil")
    evil.server(tmp_path / "evil.pem", ["127.0.0.1"])
    secret = Tokens(tmp_path / "real").create("a", timedelta(days=1), real.fingerprint)[1]
    with (
        between(answer(real.pem, evil.pem).encode(), tmp_path / "evil.pem") as (url, heard),
        pytest.raises(InputError, match="is not the leader that made this token.*The token was not sent"),
    ):
        Leader.join(url, secret, tmp_path / "worker")
    assert heard == [] and not (tmp_path / "worker" / FOLDER / AUTHORITY).exists()


def test_only_the_certificate_that_was_hashed_is_kept(tmp_path: Path) -> None:
    """OpenSSL reads forms of PEM that we do not hash: nothing of what surrounds the one is written down."""
    real, evil = Authority.of(tmp_path / "real"), Authority.of(tmp_path / "evil")
    evil.server(tmp_path / "evil.pem", ["127.0.0.1"])
    secret = Tokens(tmp_path / "real").create("a", timedelta(days=1), real.fingerprint)[1]
    answer = real.pem + evil.pem.replace("CERTIFICATE", "X509 CERTIFICATE")
    with (
        between(answer.encode(), tmp_path / "evil.pem") as (url, heard),
        pytest.raises(InputError, match="not the leader that made|does not prove that it is the leader"),
    ):
        Leader.join(url, secret, tmp_path / "worker")
    assert heard == []
    kept = tmp_path / "worker" / FOLDER / AUTHORITY
    assert not kept.exists() or kept.read_text() == real.pem


def test_an_answer_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    """Anybody may answer before the leader has proved who it is."""
    real = Authority.of(tmp_path / "real")
    real.server(tmp_path / "real.pem", ["127.0.0.1"])
    secret = Tokens(tmp_path / "real").create("a", timedelta(days=1), real.fingerprint)[1]
    answer = real.pem.encode() + b"\n" * joining.MOST_BYTES
    with (
        between(answer, tmp_path / "real.pem") as (url, _),
        pytest.raises(ServerError, match="more than 65,536 bytes"),
    ):
        Leader.join(url, secret, tmp_path / "worker")


@pytest.mark.parametrize(("refusal", "error"), [(502, LeaderAwayError), (404, ServerError)])
def test_a_leader_that_can_t_answer_yet_is_told_from_what_is_none(
    tmp_path: Path, refusal: int, error: type[ServerError]
) -> None:
    """A worker waits for the one, and not for the other."""
    real = Authority.of(tmp_path / "real")
    real.server(tmp_path / "real.pem", ["127.0.0.1"])
    secret = Tokens(tmp_path / "real").create("a", timedelta(days=1), real.fingerprint)[1]
    with (
        between(real.pem.encode(), tmp_path / "real.pem", refusal) as (url, heard),
        pytest.raises(ServerError, match=f"/join answers {refusal}") as caught,
    ):
        Leader.join(url, secret, tmp_path / "worker")
    assert type(caught.value) is error and len(heard) == 1
