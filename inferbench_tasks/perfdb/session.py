"""A connection to PerfDB that outlives its server: operations are repeated until it is back."""

from __future__ import annotations

import errno
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bson.errors import BSONError
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    DocumentTooLarge,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from inferbench_tasks.errors import PerfDBError, StorageError
from inferbench_tasks.perfdb import clients, embedded, indexes, moments
from inferbench_tasks.perfdb.address import database_of, masked, with_database

log = logging.getLogger(__name__)

T = TypeVar("T")
#: How long an operation is repeated while its server is away.
PATIENCE_S = 60.0
EMBEDDED_SELECTION_MS = 2_000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
#: Kept free on the embedded server's disk, so that what happened can still be recorded.
RESERVE_BYTES = 64 * 1024 * 1024
OUT_OF_DISK_SPACE = 14031
#: Server errors that pass by themselves: shutting down, elections, interrupted.
PASSING = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
#: Of a transaction: it met another, or nobody knows whether it was committed. It is run again from its beginning.
PASSING_LABELS = ("RetryableWriteError", "TransientTransactionError", "UnknownTransactionCommitResult")


#: MongoDB's code for what a login may not do.
UNAUTHORIZED = 13


class Session:
    """``embedded_in`` is the data directory of the embedded server, None for any other server."""

    def __init__(self, uri: str, embedded_in: Path | None) -> None:
        self.uri = uri
        self.embedded_in = embedded_in
        self.name = database_of(uri)
        self._concern: WriteConcern | None = None
        #: Nobody waits any more: what fails is not tried again, and what is being tried ends.
        self.hurried = False

    def open(self) -> None:
        """Check the server and make the indexes; raises PerfDBError or InputError, at once or in time."""
        if self.embedded_in is not None:
            self._revive()
        self._concern = self.retrying(
            lambda: clients.check(self._client(), self.uri),
            "connecting",
            PATIENCE_S if self.embedded_in else 0.0,
        )
        self.retrying(self._make_indexes, "making the indexes")

    def _make_indexes(self) -> None:
        try:
            indexes.ensure(self.database())
        except OperationFailure as error:
            if error.code != UNAUTHORIZED:
                raise
            self.database()["results"].find_one(
                {}, {"_id": 1}
            )  # refused too: who has no login may not even read
            log.info("this login of PerfDB makes no indexes: it may read only")

    def database(self) -> Database[dict[str, Any]]:
        """The database, through this process's own client; acknowledged writes survive a crash."""
        if self._concern is None:
            self._concern = clients.check(self._client(), self.uri)
        return self._client().get_database(self.name, write_concern=self._concern)

    def retrying(self, operation: Callable[[], T], doing: str, patience_s: float = PATIENCE_S) -> T:
        """Run an operation that may safely be repeated, until it succeeds or the patience ends.

        While the server is away, an embedded one is started again. Raises PerfDBError or StorageError.
        """
        deadline, pause_s = time.monotonic() + patience_s, FIRST_PAUSE_S
        while True:
            try:
                return operation()
            except DocumentTooLarge as error:
                raise PerfDBError(
                    f"PerfDB, {doing}: the document is larger than the 16 MB that MongoDB allows. Bulk "
                    "belongs into the raw samples or an attached file."
                ) from error
            except BSONError as error:
                raise PerfDBError(f"PerfDB, {doing}: {error}") from error
            except PyMongoError as error:
                if not _passes(error) or self.hurried or time.monotonic() + pause_s > deadline:
                    raise self._explained(error, doing) from error
                log.warning("perfdb is away, trying again doing=%s error=%s", doing, type(error).__name__)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self._revive()

    def transaction(
        self, operation: Callable[[ClientSession], T], doing: str, patience_s: float = PATIENCE_S
    ) -> T:
        """Run an operation whose writes happen all or not at all, until it is committed or the patience ends.

        The operation gives its session to each of its reads and writes, may abort by it, and may be run several times:
        after a conflict with another write, and after a commit whose answer was lost. Raises PerfDBError, on a
        standalone server too.
        """

        def committed() -> T:
            with (
                self._client().start_session() as session,
                session.start_transaction(ReadConcern("snapshot"), WriteConcern("majority")),
            ):
                return operation(session)

        return self.retrying(committed, doing, patience_s)

    def moment(self, patience_s: float = PATIENCE_S) -> moments.Moment:
        """The moment of this call by the clock of PerfDB's server, and how this host's clock lies beside it.

        However long the server is away meanwhile: what is dated by it has happened before.
        """
        asked_ns = time.monotonic_ns()

        def ask() -> moments.Moment:
            database = self.database()
            _ = database.client.is_primary  # waits for a server, so that the exchange does not
            return moments.moment(lambda: moments.server_ms(database), asked_ns)

        return self.retrying(ask, "asking for the time", patience_s)

    def require_room(self, size_bytes: int) -> None:
        """Refuse what the embedded server's disk can't take: without space a mongod dies.

        Raises StorageError. Nothing is known of other servers' disks.
        """
        if self.embedded_in is None:
            return
        needed = 2 * size_bytes + RESERVE_BYTES  # the data, and its journal
        if (free := shutil.disk_usage(self.embedded_in).free) < needed:
            raise StorageError(
                f"No space in PerfDB for {size_bytes / 1e6:.0f} MB: {needed / 1e6:.0f} MB are needed, "
                f"{free / 1e6:.0f} MB are free at {self.embedded_in}. Free some and run again."
            )

    def close(self) -> None:
        """Close this process's client; a later use opens a new one."""
        clients.forget(self.uri)

    def _client(self) -> clients.Client:
        # An embedded server that is away is started again, not waited for.
        return (
            clients.client(self.uri, EMBEDDED_SELECTION_MS) if self.embedded_in else clients.client(self.uri)
        )

    def _revive(self) -> None:
        if self.embedded_in is None:
            return
        uri = with_database(embedded.ensure(self.embedded_in), self.name)
        if uri != self.uri:
            clients.forget(self.uri)
            self.uri = uri

    def _explained(self, error: PyMongoError, doing: str) -> PerfDBError | StorageError:
        where = masked(self.uri)
        if isinstance(error, OperationFailure) and (
            error.code == OUT_OF_DISK_SPACE or "No space left" in str(error)
        ):
            folder = f" at {self.embedded_in}" if self.embedded_in else ""
            return StorageError(f"PerfDB, {doing}: no space left{folder}. Free some and run again.")
        if isinstance(error, OperationFailure) and error.code in clients.LOGIN_REFUSED:
            return clients.refused(self.uri, error)
        if _passes(error):
            return clients.unreachable(self.uri, error)
        text = str(error).split(", full error")[0][:1000]
        return PerfDBError(f"PerfDB at {where}, {doing}: {type(error).__name__}: {text}")


def _passes(error: PyMongoError) -> bool:
    if isinstance(error, DuplicateKeyError | BulkWriteError):
        return False
    if isinstance(error, AutoReconnect | WaitQueueTimeoutError | WriteConcernError):
        return True
    if isinstance(error, OperationFailure):
        return error.code in PASSING or any(error.has_error_label(label) for label in PASSING_LABELS)
    return isinstance(error, OSError) and error.errno == errno.ECONNREFUSED
