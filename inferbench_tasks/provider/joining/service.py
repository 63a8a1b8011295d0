"""The gateway's HTTPS: what a worker asks before it has a certificate, and the DAG files.

``GET /ca`` the authority's certificate, for whoever asks. ``POST /join`` a token's secret against a certificate of the
worker's own key. ``GET /files`` DAGs and submissions, with the worker's login.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from inferbench_tasks.cluster.versions import own
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.problem import field_problems
from inferbench_tasks.provider.joining import files
from inferbench_tasks.provider.joining.accounts import Database, outages
from inferbench_tasks.provider.joining.answers import Admission, Ask
from inferbench_tasks.provider.joining.authority import Authority
from inferbench_tasks.provider.joining.tokens import Secret, TakenError, Token, Tokens

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """``settle``: makes the users of broker and PerfDB those of the tokens in force, now."""

    authority: Authority
    tokens: Tokens
    database: Database
    entries: Callable[[], list[files.Entry]]
    workloads_key: str
    artifacts: str | None
    settle: Callable[[], None]

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/ca", self._ca),
                Route("/join", self._join, methods=["POST"]),
                Route("/files", self._files),
            ]
        )

    async def _ca(self, request: Request) -> Response:
        return PlainTextResponse(self.authority.pem)

    async def _join(self, request: Request) -> Response:
        try:
            ask = Ask.model_validate_json(await request.body())
        except ValidationError as error:
            problems = "; ".join(field_problems(error))
            return _refused(422, problems)
        peer = request.client.host if request.client else "?"
        try:
            token = self.tokens.presented(ask.token_id, ask.secret)
        except InputError as error:
            log.warning("refused to join peer=%s token=%s reason=%s", peer, ask.token_id, error)
            return _refused(401, str(error))
        except StorageError:
            log.exception("can't look for a token")
            return _refused(503, "the leader can't read its tokens now; see its log")
        if reason := ask.versions.unlike(own()):
            log.warning("refused to join peer=%s token=%s reason=%s", peer, token.name, reason)
            return _refused(409, reason)
        try:
            return JSONResponse((await asyncio.to_thread(self._admit, token, ask)).model_dump())
        except TakenError as error:
            return _refused(409, str(error))
        except InputError as error:
            return _refused(422, str(error))
        except outages() as error:
            log.exception("could not let in token=%s", token.name)
            return _refused(
                503, f"the leader can't make the logins now ({type(error).__name__}); see its log"
            )

    def _admit(self, token: Token, ask: Ask) -> Admission:
        certificate = self.authority.sign(ask.csr, token.token_id, token.expires_at)
        # Written down before anything is made for it: of several that ask at once one gets past here.
        token = self.tokens.joined(token.token_id, ask.home, ask.host)
        self.database.admit(token, Secret(ask.token_id, ask.secret).password)
        # It may have been revoked meanwhile: then this takes the user away again.
        self.settle()
        log.info("joined token=%s host=%s home=%s", token.name, ask.host, ask.home)
        return Admission(
            name=token.name, user=token.user, database=self.database.name, login_database=self.database.source,
            certificate=certificate, workloads_key=self.workloads_key,
            expires_at=token.expires_at.isoformat(), artifacts=self.artifacts,
        )  # fmt: skip

    async def _files(self, request: Request) -> Response:
        try:
            token = self._login(request)
        except StorageError:
            log.exception("can't look for a login")
            return _refused(503, "the leader can't read its tokens now; see its log")
        if token is None:
            return _refused(401, "no login of a worker whose token is in force")
        return await asyncio.to_thread(self._archive, token, request.headers.get("if-none-match", ""))

    def _archive(self, token: Token, known: str) -> Response:
        entries = self.entries()
        mark = files.mark(entries)
        if mark == known:
            return Response(status_code=304)
        with tempfile.TemporaryFile() as archive:
            try:
                files.write(entries, archive)
            except InputError as error:
                return _refused(413, str(error))
            archive.seek(0)
            log.info("sends DAGs and submissions to %s", token.name)
            return Response(archive.read(), media_type="application/gzip", headers={"etag": mark})

    def _login(self, request: Request) -> Token | None:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        try:
            user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except ValueError:
            return None
        now = datetime.now(UTC)
        found = next((t for t in self.tokens.all() if t.user == user and t.knows(password)), None)
        # A token's own password opens nothing before somebody joined with it.
        joined = found is not None and found.home is not None and found.active(now)
        return found if joined and kind == "Basic" else None


def _refused(status: int, reason: str) -> Response:
    content: dict[str, Any] = {"detail": reason}
    return JSONResponse(content, status_code=status)
