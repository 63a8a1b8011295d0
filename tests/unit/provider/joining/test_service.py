"""The gateway's HTTPS: who is let in, and what a stranger's request does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from inferbench_tasks.cluster.versions import own
from inferbench_tasks.provider.joining.accounts import Database
from inferbench_tasks.provider.joining.authority import Authority, request
from inferbench_tasks.provider.joining.service import Service
from inferbench_tasks.provider.joining.tokens import FILE, Secret, Token, Tokens


class Recorded:
    """In PerfDB's place: for whom a user was made, with the token as it lay on disk then."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.name, self.source = "inferbench", "admin"
        self.admitted: list[Token] = []

    def admit(self, token: Token, password: str) -> None:
        self.admitted += [t for t in self._tokens.all() if t.token_id == token.token_id]


class Site:
    """A service without servers behind it."""

    def __init__(self, folder: Path) -> None:
        self.tokens = Tokens(folder)
        self.authority = Authority.of(folder)
        self.database = Recorded(self.tokens)
        self._app = Service(
            self.authority, self.tokens, cast(Database, self.database), list, "0" * 64, None, lambda: None
        ).app()

    def secret(self, name: str) -> Secret:
        return self.tokens.create(name, timedelta(days=1), self.authority.fingerprint)[1]

    def asked(self, requests: Sequence[dict[str, Any]]) -> list[httpx.Response]:
        """All at once."""

        async def send() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await asyncio.gather(*(client.request(**r) for r in requests))

        return asyncio.run(send())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def join(secret: Secret, home: str = "0" * 32, **more: object) -> dict[str, Any]:
    body = {
        "token_id": secret.token_id,
        "secret": secret.secret,
        "csr": request()[1],
        "versions": own().model_dump(),
        "home": home,
        "host": "h",
    }
    return {"method": "POST", "url": "/join", "json": body | more}


def files(secret: Secret) -> dict[str, Any]:
    return {"method": "GET", "url": "/files", "auth": (f"worker-{secret.token_id}", secret.password)}


def test_of_four_hosts_with_one_token_at_once_one_is_let_in(site: Site) -> None:
    """The others get no certificate, and no login is made for them; the one is written down before its login."""
    secret = site.secret("twice")
    answers = site.asked([join(secret, str(i) * 32) for i in range(4)])
    assert sorted(a.status_code for a in answers) == [200, 409, 409, 409]
    refused = [a.json() for a in answers if a.status_code == 409]
    assert all(set(r) == {"detail"} and "is that of host h" in r["detail"] for r in refused)
    (admitted,) = site.database.admitted
    assert admitted.home is not None


def test_files_are_for_those_who_joined(site: Site) -> None:
    """A token that was refused for its worker's version opens nothing."""
    secret = site.secret("a")
    old = join(secret, versions=own().model_dump() | {"inferbench": "9.9"})
    assert [a.status_code for a in site.asked([old])] == [409]
    assert [a.status_code for a in site.asked([files(secret)])] == [401]
    assert [a.status_code for a in site.asked([join(secret)])] == [200]
    assert [a.status_code for a in site.asked([files(secret)])] == [200]


@pytest.mark.parametrize(
    "login", [b"Basic \xe9", b"Basic \xff\xfe", b"Basic", b"Basic gIA=", b"", b"Bearer x"]
)
def test_a_login_that_is_none_is_refused(site: Site, login: bytes) -> None:
    """Whatever its bytes."""
    (answer,) = site.asked([{"method": "GET", "url": "/files", "headers": [(b"authorization", login)]}])
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "more",
    [
        {"token_id": "\n\x1b[31mFAKE"},
        {"token_id": "0" * 13},
        {"host": "h\x1b[2J\n2026-11-26 INFO joined token=admin"},
        {"host": ""},
        {"versions": {"inferbench": "1\n2", "python": "3.11", "protocol": 1}},
        {"versions": {"inferbench": "1" * 65, "python": "3.11", "protocol": 1}},
    ],
)
def test_what_would_stand_in_logs_and_lists_is_plain(site: Site, more: dict[str, Any]) -> None:
    """No line of its own, no terminal's commands; nothing is written down."""
    assert [a.status_code for a in site.asked([join(site.secret("a"), **more)])] == [422]
    assert site.tokens.all()[0].home is None


def test_a_request_that_is_no_certificate_s_leaves_the_token_unused(site: Site) -> None:
    """Its host may ask again, and another may."""
    secret = site.secret("a")
    assert [a.status_code for a in site.asked([join(secret, csr="none")])] == [422]
    assert site.tokens.all()[0].home is None and site.database.admitted == []


def test_while_tokens_can_t_be_read_nobody_is_let_in(site: Site, tmp_path: Path) -> None:
    """And whoever asks is told that it is the leader's fault."""
    secret = site.secret("a")
    (tmp_path / FILE).write_text("damaged")
    assert [a.status_code for a in site.asked([join(secret), files(secret)])] == [503, 503]
    assert site.database.admitted == []
