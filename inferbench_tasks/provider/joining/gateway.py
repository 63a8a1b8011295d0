"""The gateway of ``inferbench up --listen``: the one process of a system that listens for other hosts.

    python -m inferbench_tasks.provider.joining.gateway HOME

Four ports from its own on, all TLS: joining and DAG files (``service``), broker, PerfDB, and Airflow's execution API,
the last three for workers with a certificate only (``relay``). What it has to know lies in
``HOME/joining/gateway.json``. Every second it looks whether a token was revoked or has ended: its connections are cut,
and its logins removed. Where it can't look, nobody is let in; where it stops looking, it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import ssl
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from inferbench_tasks import settings
from inferbench_tasks.errors import StorageError
from inferbench_tasks.provider.api.limits import BodyLimit
from inferbench_tasks.provider.joining import files, image_folders
from inferbench_tasks.provider.joining.accounts import Broker, Database, Embedded, outages
from inferbench_tasks.provider.joining.answers import (
    BROKER_OFFSET,
    EXECUTION_OFFSET,
    PERFDB_OFFSET,
)
from inferbench_tasks.provider.joining.authority import CERTIFICATE, Authority
from inferbench_tasks.provider.joining.handshakes import Loop
from inferbench_tasks.provider.joining.plan import Plan
from inferbench_tasks.provider.joining.relay import Place, Relay
from inferbench_tasks.provider.joining.service import Service
from inferbench_tasks.provider.joining.signing import PUBLIC, SigningKey
from inferbench_tasks.provider.joining.tokens import FOLDER, Token, Tokens
from inferbench_tasks.provider.parts.shelf import PartShelf
from inferbench_tasks.provider.submit.shelf import Shelf
from inferbench_tasks.provider.system.config import EXECUTION_URL
from inferbench_tasks.provider.web_server import PROTOCOL

log = logging.getLogger("inferbench.gateway")

SERVER = "server.pem"
LOOK_S = 1.0


class Gateway:
    """Of the system in ``home``; its secrets are in the environment, as of all parts."""

    def __init__(self, home: Path, data_dir: Path, database: Database) -> None:
        self.plan = Plan.read(home)
        self.folder = home / FOLDER
        self.data_dir = data_dir
        self.tokens = Tokens(self.folder)
        self.authority = Authority.of(self.folder)
        self.database = database
        broker = os.environ["AIRFLOW__CELERY__BROKER_URL"]
        self.broker = Broker(broker)
        self.places = {BROKER_OFFSET: _place(broker), EXECUTION_OFFSET: _place(os.environ[EXECUTION_URL])}
        self.relay = Relay(self._admits)

    def active(self) -> list[Token]:
        """The tokens in force that somebody joined with."""
        now = datetime.now(UTC)
        return [t for t in self.tokens.all() if t.active(now) and t.home]

    def joined(self) -> dict[str, bool]:
        """Of each token that somebody joined with: whether it is in force."""
        now = datetime.now(UTC)
        return {t.token_id: t.active(now) for t in self.tokens.all() if t.home}

    async def run(self) -> None:
        """Until SIGTERM."""
        self.authority.server(self.folder / SERVER, self.plan.names)
        await asyncio.to_thread(self._settle_or_say)
        async with contextlib.AsyncExitStack() as stack:
            for offset, target, name in (
                (BROKER_OFFSET, lambda: self.places[BROKER_OFFSET], "broker"),
                (PERFDB_OFFSET, self.database.place, "PerfDB"),
                (EXECUTION_OFFSET, lambda: self.places[EXECUTION_OFFSET], "execution API"),
            ):
                server = await self.relay.listen(
                    self.plan.address, self.plan.port + offset, self._context(), target, name
                )
                await stack.enter_async_context(server)
            # A gateway that no longer looks would let revoked workers go on.
            await _until_one_ends(self._serve(), self._look())

    def _context(self) -> ssl.SSLContext:
        """TLS 1.3, for peers with a certificate of ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.folder / SERVER)
        context.load_verify_locations(self.folder / CERTIFICATE)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _entries(self) -> list[files.Entry]:
        """DAG files, the submissions folder, and what came by the form or by REST and is a DAG."""
        entries = [*files.of_folder(files.DAGS, Path(self.plan.dags))]
        submissions = Path(self.plan.submissions)
        entries += files.of_folder(files.SUBMISSIONS, submissions, image_folders.sent_of(submissions))
        for name, shelf in ((files.SUBMITTED, Shelf(self.data_dir)), (files.PARTS, PartShelf(self.data_dir))):
            paths = [shelf.path(dag_id) for dag_id in sorted(shelf.recent())]
            entries += [(f"{name}/{path.name}", path) for path in paths if path.is_file()]
        return entries

    async def _serve(self) -> None:
        service = Service(
            self.authority, self.tokens, self.database,
            self._entries, os.environ.get(PUBLIC) or SigningKey.of(self.folder.parent).public,
            os.environ.get("INFERBENCH_ARTIFACTS") or None, self._settle,
        )  # fmt: skip
        app: Any = BodyLimit(service.app())
        config = uvicorn.Config(
            app, host=self.plan.address, port=self.plan.port, http=PROTOCOL, ws="none",
            ssl_certfile=str(self.folder / SERVER), log_level="warning", lifespan="off", server_header=False,
        )  # fmt: skip
        config.load()
        assert config.ssl is not None
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
        await uvicorn.Server(config).serve()

    async def _look(self) -> None:
        settled: dict[str, bool] | None = None
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                settled = await self._looked(settled)
            except Exception:
                log.exception("can't look whose token is in force: all workers are cut off until it can")
                self.relay.cut(())

    async def _looked(self, settled: dict[str, bool] | None) -> dict[str, bool] | None:
        """Cut whose token is in force no more, and have the logins of the others; for which tokens PerfDB has them.

        A token that came and went between two looks makes a difference too: it left a login.
        """
        now = self.joined()
        for worker in self.relay.cut({token_id for token_id, in_force in now.items() if in_force}):
            log.warning("cut the connections of token=%s, which is in force no more", worker)
        try:
            await asyncio.to_thread(self.broker.settle, self.active)
            if now != settled:
                await asyncio.to_thread(self.database.settle, self.active)
        except outages() as error:
            log.warning("logins of workers can't be settled now: %s", type(error).__name__)
            return settled
        return now

    def _admits(self, worker: str) -> bool:
        try:
            return any(t.token_id == worker for t in self.active())
        except StorageError:
            log.exception("nobody is let in")
            return False

    def _settle(self) -> None:
        self.broker.settle(self.active)
        self.database.settle(self.active)

    def _settle_or_say(self) -> None:
        try:
            self._settle()
        except outages() as error:
            log.warning("logins of workers are settled later: %s", type(error).__name__)


async def _until_one_ends(*ways: Coroutine[Any, Any, None]) -> None:
    """Run all until the first one ends, with its error if it has one; the others are cancelled."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _place(url: str) -> Place:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, "of a system of `up`, or checked (deployed)"
    return parts.hostname, parts.port


def run(home: Path, data_dir: Path, database: Database) -> None:
    """Until SIGTERM; the plan lies in ``home``."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(Gateway(home, data_dir, database).run())


if __name__ == "__main__":
    run(Path(sys.argv[1]), settings.data_dir(), Embedded(settings.data_dir()))
