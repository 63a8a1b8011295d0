"""Tokens of workers: one each, which ends, can be revoked, and is kept as digests only.

A token is ``ibw1.<id>.<secret>.<fingerprint>``. The secret has 256 random bits, so its SHA-256 tells nobody what it
is. The fingerprint is that of the leader's authority: a worker sends the secret to nobody else. From the secret follows
the password of the worker's logins (broker, PerfDB, files), on both sides, so that none is sent.

They lie in a file beside the system's secrets, and not in PerfDB, which workers write.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from inferbench_tasks import private
from inferbench_tasks.errors import InputError, StorageError

VERSION = "ibw1"
#: Below the system's home: what the gateway and its authority have.
FOLDER = "joining"
FILE, LOCK = "tokens.json", "tokens.lock"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_FORM = re.compile(VERSION + r"\.([0-9a-f]{12})\.([A-Za-z0-9_-]{43})\.([0-9a-f]{64})")


class TakenError(InputError):
    """Another data directory has joined with the token."""


@dataclass(frozen=True)
class Secret:
    """What a worker has of its token. ``fingerprint``: of the authority that the leader has to prove."""

    token_id: str
    secret: str = field(repr=False)
    fingerprint: str = ""

    @classmethod
    def parse(cls, text: str) -> Secret:
        """InputError, which does not quote it, for what is no token."""
        match = _FORM.fullmatch(text.strip())
        if not match:
            raise InputError(
                f"What was given is no token: it has the form {VERSION}.ID.SECRET.FINGERPRINT, as "
                "`inferbench tokens create` prints it."
            )
        return cls(*match.groups())

    @property
    def text(self) -> str:
        return f"{VERSION}.{self.token_id}.{self.secret}.{self.fingerprint}"

    @property
    def password(self) -> str:
        """Of the worker's logins."""
        return hmac.new(self.secret.encode(), b"logins of an InferBench worker", hashlib.sha256).hexdigest()


class Token(BaseModel):
    """What the leader keeps of one."""

    model_config = ConfigDict(frozen=True)

    token_id: str
    name: str
    secret_sha256: str
    password_sha256: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    home: str | None = None
    """Id of the data directory that joined with it; it is that one's alone from then on."""
    host: str | None = None
    joined_at: datetime | None = None
    """The last time."""

    @property
    def user(self) -> str:
        """Its login at broker and PerfDB."""
        return f"worker-{self.token_id}"

    def state(self, now: datetime) -> str:
        """``unused``, ``joined``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        if now >= self.expires_at:
            return "expired"
        return "joined" if self.home else "unused"

    def active(self, now: datetime) -> bool:
        """Whether its worker may do anything."""
        return self.state(now) in ("unused", "joined")

    def knows(self, password: str) -> bool:
        """Whether that is the password of its logins."""
        return hmac.compare_digest(self.password_sha256, digest(password))


class Tokens:
    """Those of a folder. Safe in several processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Token]:
        """In the order in which they were made; StorageError where they can't be read."""
        path = self.folder / FILE
        try:
            return [Token.model_validate(row) for row in json.loads(path.read_text())]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(
                f"The tokens in {path} can't be read ({_reason(error)}). While they can't, no worker of another host "
                "gets in. Bring the file back, or remove it: all workers need new tokens then."
            ) from error

    def create(self, name: str, lasts: timedelta, fingerprint: str) -> tuple[Token, Secret]:
        """A new one, and its secret, which nobody can tell again. InputError for a name that is taken, or is none."""
        if not NAME.fullmatch(name):
            raise InputError(f"The name {name!r} can't be used; allowed are 1 to 40 of a-z, 0-9 and -.")
        now = _now()
        secret = Secret(secrets.token_hex(6), secrets.token_urlsafe(32), fingerprint)
        token = Token(
            token_id=secret.token_id, name=name, secret_sha256=digest(secret.secret),
            password_sha256=digest(secret.password), created_at=now, expires_at=now + lasts,
        )  # fmt: skip

        def add(tokens: list[Token]) -> list[Token]:
            if any(t.name == name and t.active(now) for t in tokens):
                raise InputError(
                    f"{name!r} has a token that is in force; revoke that one first, or name another."
                )
            return [*tokens, token]

        self._change(add)
        return token, secret

    def revoke(self, name_or_id: str) -> Token:
        """Ends it; InputError where there is none in force of that name or id."""
        now = _now()
        found = [t for t in self.all() if name_or_id in (t.token_id, t.name) and t.revoked_at is None]
        if not found:
            known = ", ".join(t.name for t in self.all() if t.active(now)) or "none"
            raise InputError(f"There is no token {name_or_id!r} to revoke; in force: {known}.")
        token_id = found[-1].token_id
        tokens = self._change(lambda tokens: _with(tokens, token_id, {"revoked_at": now}))
        return next(t for t in tokens if t.token_id == token_id)

    def joined(self, token_id: str, home: str, host: str) -> Token:
        """Write down who joined with it: the first is the only one.

        TakenError where it is another's, InputError where it is in force no more.
        """

        def change(tokens: list[Token]) -> list[Token]:
            now = _now()
            token = next(t for t in tokens if t.token_id == token_id)
            if not token.active(now):
                raise InputError(f"the token {token.name!r} is {token.state(now)}")
            if token.home not in (None, home):
                raise TakenError(
                    f"the token {token.name!r} is that of host {token.host}, in a data directory there"
                )
            return _with(tokens, token_id, {"home": home, "host": host, "joined_at": now})

        return next(t for t in self._change(change) if t.token_id == token_id)

    def presented(self, token_id: str, secret: str) -> Token:
        """The token whose secret that is; InputError, with why, where it opens nothing (any more)."""
        token = next((t for t in self.all() if t.token_id == token_id), None)
        known = token.secret_sha256 if token else digest("")
        if not hmac.compare_digest(known, digest(secret)) or token is None:
            raise InputError("the token is not known here")
        if not token.active(_now()):
            raise InputError(f"the token {token.name!r} is {token.state(_now())}")
        return token

    def _change(self, change: Callable[[list[Token]], list[Token]]) -> list[Token]:
        private.folder(self.folder)
        with FileLock(self.folder / LOCK):
            tokens = change(self.all())
            text = json.dumps([t.model_dump(mode="json") for t in tokens], indent=1)
            private.write(self.folder / FILE, text)
        return tokens


def digest(text: str) -> str:
    """SHA-256, hex: of what has 256 random bits no slower one is needed."""
    return hashlib.sha256(text.encode()).hexdigest()


def _with(tokens: list[Token], token_id: str, fields: dict[str, object]) -> list[Token]:
    return [t.model_copy(update=fields) if t.token_id == token_id else t for t in tokens]


def _reason(error: Exception) -> str:
    """Without what the file has: pydantic quotes it."""
    return "damaged" if isinstance(error, ValidationError) else str(error)


def _now() -> datetime:
    return datetime.now(UTC)
