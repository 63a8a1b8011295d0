"""PerfDB: results written once, their raw samples, and how the runs went.

    with PerfDB.connect(uri, data_dir) as db:
        db.save_result(document, samples_path)
        db.samples(run_id)  # the raw records, as a pyarrow.Table

A PerfDB may be passed to another process (it is pickled as its address): clients are made per process.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from inferbench_tasks import settings
from inferbench_tasks.dotted import outermost
from inferbench_tasks.errors import InputError, LeaseLostError, PerfDBError
from inferbench_tasks.perfdb import deletions, embedded, indexes
from inferbench_tasks.perfdb.documents import ResultBase, ResultDocument
from inferbench_tasks.perfdb.files import Files, measure
from inferbench_tasks.perfdb.lifecycle import Lifecycle
from inferbench_tasks.perfdb.session import PATIENCE_S, Session
from inferbench_tasks.perfdb.under_lease import DEVICES, HeldLease
from inferbench_tasks.perfdb.values import attachments_of, to_plain, to_stored

if TYPE_CHECKING:
    import pyarrow

NEWEST_FIRST: Sequence[tuple[str, int]] = (("created_at", -1),)
BY_RUN: Sequence[tuple[str, int]] = (("run_id", 1), ("attempt", 1))
T = TypeVar("T")
ResultT = TypeVar("ResultT", bound=ResultBase)
#: True of every result; with it MongoDB decides a list's other conditions on the index of lists.
SOME_TIME = {"created_at": {"$gte": datetime(1970, 1, 1, tzinfo=UTC)}}
PARQUET = "samples.parquet"


class PerfDB(Lifecycle):
    """The performance database; made by ``PerfDB.connect``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.files = Files(session)
        self._transacts: bool | None = None

    @classmethod
    def connect(cls, uri: str | None, data_dir: Path) -> PerfDB:
        """The PerfDB at that URI, else at ``INFERBENCH_PERFDB_URI``, else the embedded one of ``data_dir``.

        A given URI is used or fails; there is no fallback. Raises PerfDBError (not reachable, not safe),
        StorageError (the embedded server's folder) and InputError (not a URI).
        """
        uri = uri or settings.perfdb_uri()
        if uri is None:
            session = Session(embedded.ensure(data_dir), data_dir)
        else:
            session = Session(uri, data_dir if embedded.owns(uri, data_dir) else None)
        session.open()
        return cls(session)

    @property
    def uri(self) -> str:
        """Where it is, secrets included; ``address.masked`` makes it fit to be shown."""
        return self._session.uri

    @property
    def embedded(self) -> bool:
        """Whether it is the embedded server of the data directory."""
        return self._session.embedded_in is not None

    def close(self) -> None:
        """Close this process's client; a later use opens a new one."""
        self._session.close()

    def __enter__(self) -> PerfDB:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def server(self) -> dict[str, Any]:
        """What it really is: process, version, git version, storage engine, set name, kind of server."""
        database = self._session.database()

        def ask() -> dict[str, Any]:
            admin = database.client.admin
            status, build = admin.command("serverStatus"), admin.command("buildInfo")
            environment = build.get("buildEnvironment", {})
            return {
                "server": "embedded" if self.embedded else "external",
                "process": status["process"],
                "version": build["version"],
                "git_version": build["gitVersion"],
                "storage_engine": status.get("storageEngine", {}).get("name"),
                "distmod": environment.get("distmod"),
                "set_name": admin.command("hello").get("setName"),
                "database": self._session.name,
            }

        return self._session.retrying(ask, "asking the server what it is")

    def collection(self, name: str) -> Collection[dict[str, Any]]:
        """A collection, for parts that keep documents of their own here; use it within ``retrying``."""
        return self._session.database()[name]

    def retrying(self, operation: Callable[[], T], doing: str, patience_s: float = PATIENCE_S) -> T:
        """Run an operation that may safely be repeated until it succeeds; see ``Session.retrying``."""
        return self._session.retrying(operation, doing, patience_s)

    def hurry(self) -> None:
        """Try nothing again from now on, and end what is being tried: for a process that ends; signals may call it."""
        self._session.hurried = True

    def require_room(self, size_bytes: int) -> None:
        """StorageError where the embedded server's disk has no room for so many bytes more."""
        self._session.require_room(size_bytes)

    def has_transactions(self) -> bool:
        """Whether the server changes several documents at once: a replica set does, a standalone does not."""
        client = self._session.database().client
        hello = self._session.retrying(lambda: client.admin.command("hello"), "asking the server what it is")
        return "setName" in hello or hello.get("msg") == "isdbgrid"

    def transaction(
        self, operation: Callable[[ClientSession], T], doing: str, patience_s: float = PATIENCE_S
    ) -> T:
        """Run an operation whose writes (with its session) happen all or not at all; see ``Session.transaction``."""
        return self._session.transaction(operation, doing, patience_s)

    def write_once(
        self,
        insert: Callable[[ClientSession | None], object],
        doing: str,
        lease: HeldLease | None = None,
    ) -> bool:
        """Run an insertion, with the session that it is given; False if its key is there already, which stays.

        ``lease``: insert only while that is held, and raise LeaseLostError once it is not; see ``under_lease``. On a
        standalone server, which has no transactions, the lease is claimed immediately before.
        """

        def claim_and_insert(session: ClientSession | None) -> bool:
            if lease is not None:
                lease.claim(self.collection(DEVICES), session)
            try:
                insert(session)
            except DuplicateKeyError:
                if session is not None:
                    session.abort_transaction()
                return False
            return True

        if lease is not None and self._transacts is None:
            self._transacts = self.has_transactions()
        if lease is not None and self._transacts:
            return self.transaction(claim_and_insert, doing)
        return self.retrying(lambda: claim_and_insert(None), doing)

    def sizes(self) -> dict[str, int]:
        """How many documents and files it holds, and their bytes on disk."""
        database = self._session.database()

        def ask() -> dict[str, int]:
            sizes = database.command("dbStats")
            counts = {
                name: database[name].estimated_document_count() for name in ("results", "runs", "invocations")
            }
            files = database["fs.files"].estimated_document_count()
            return {**counts, "files": files, "bytes_on_disk": int(sizes["storageSize"] + sizes["indexSize"])}

        return self._session.retrying(ask, "asking for sizes")

    def resolve_run(self, text: str) -> str:
        """The id of the run that is meant: an id, the unique start of one, or ``latest``.

        Raises InputError if there is none, or more than one.
        """
        starts = {"$regex": f"^{re.escape(text)}"}

        def search() -> list[str]:
            runs, results = self._session.database()["runs"], self._session.database()["results"]
            if text == "latest":
                newest = runs.find_one({}, {"_id": 1}, sort=[("started_at", -1)])
                return [newest["_id"]] if newest else []
            if runs.find_one({"_id": text}, {"_id": 1}) or results.find_one({"run_id": text}, {"_id": 1}):
                return [text]
            run_ids = {r["_id"] for r in runs.find({"_id": starts}, {"_id": 1}, limit=6)}
            run_ids |= {r["run_id"] for r in results.find({"run_id": starts}, {"run_id": 1}, limit=6)}
            return sorted(run_ids)

        run_ids = self._session.retrying(search, "finding a run")
        if len(run_ids) == 1:
            return run_ids[0]
        if not run_ids:
            raise InputError(f"PerfDB has no run {text!r}; `inferbench results list` shows those it has.")
        more = ", ..." if len(run_ids) > 5 else ""
        raise InputError(f"Several runs start with {text!r}: {', '.join(run_ids[:5])}{more}")

    # -- results ------------------------------------------------------------------------------------

    def save_result(
        self, document: ResultBase, samples_path: Path | None = None, lease: HeldLease | None = None
    ) -> bool:
        """Write a result, with its raw samples (Parquet), once.

        False if this run and attempt has a result already, which then stays as it is: a repeated stage
        is harmless. Raises PerfDBError if that result was made from other samples: a new measurement
        needs a new attempt.

        It is dated by PerfDB's clock, unless its ``created_at`` was named.

        ``lease``: what the stage works under (``Context.lease``), None where nobody leases devices. Once it is lost
        nothing is written, the files of this attempt that the result names are removed, and LeaseLostError is raised.
        """
        if (existing := self._known(document)) is not None:
            self._require_same(existing, document, samples_path)
            return False
        if samples_path is not None:
            stored = self.files.put(samples_path, PARQUET, run_id=document.run_id, attempt=document.attempt)
            document = document.model_copy(update={"samples": stored})
        if "created_at" not in document.model_fields_set:
            now = self._session.moment()
            document = document.model_copy(update={"created_at": now.at, "clock": now.clock})
        values = {"_id": ObjectId(), **to_stored(document)}
        if document.collection != ResultDocument.collection:  # whose indexes are made with the database
            self.retrying(
                lambda: self.collection(document.collection).create_indexes([indexes.WRITTEN_ONCE]),
                "making an index",
            )

        def insert(session: ClientSession | None) -> None:
            self.collection(document.collection).insert_one(dict(values), session=session)

        try:
            written = self.write_once(insert, "writing the result", lease)
        except LeaseLostError:
            # A first try may have been carried out while the lease was held, and its answer lost.
            written = self._is_there(document.collection, values["_id"])
            if not written:
                for file in attachments_of(values):
                    with contextlib.suppress(PerfDBError):  # what is told is the lease
                        self.files.delete_of(file, document.run_id, document.attempt)
                raise
        if not written:
            existing = self._known(document)
            # A repeated insert meets its own first try, if only the answer was lost.
            if existing is None or existing.samples != document.samples:
                if document.samples is not None:
                    self.files.delete(document.samples)
                if existing is not None:
                    self._require_same(existing, document, samples_path)
                return False
        verdict = to_stored(document.verdict.as_stored())
        self._update("runs", document.run_id, {"$set": verdict}, only_if={"status": "running"})
        return True

    def get_result(self, run_id: str, attempt: int | None = None) -> ResultDocument:
        """The result of a run, of its latest attempt unless one is named; InputError if there is none."""
        where = {"run_id": run_id} if attempt is None else {"run_id": run_id, "attempt": attempt}
        document = self._session.retrying(
            lambda: self._session.database()["results"].find_one(where, sort=[("attempt", -1)]),
            "reading a result",
        )
        if document is None:
            of = "" if attempt is None else f", attempt {attempt}"
            raise InputError(f"PerfDB has no result of run {run_id!r}{of}.")
        return _result(document)

    def find_results(
        self,
        filter: Mapping[str, Any] | None = None,
        sort: Sequence[tuple[str, int]] = NEWEST_FIRST,
        limit: int = 0,
        skip: int = 0,
    ) -> list[ResultDocument]:
        """Results that match a MongoDB filter (see ``queries.parse``); ``limit`` 0 = all."""
        return self.results_of(ResultDocument, filter, sort, limit, skip)

    def results_of(
        self,
        schema: type[ResultT],
        filter: Mapping[str, Any] | None = None,
        sort: Sequence[tuple[str, int]] = NEWEST_FIRST,
        limit: int = 0,
        skip: int = 0,
    ) -> list[ResultT]:
        """Like ``find_results``, of the results of another kind."""
        raw = self.find_raw(filter, sort, limit, skip, collection=schema.collection)
        return [schema.model_validate(to_plain(document)) for document in raw]

    def find_raw(
        self,
        filter: Mapping[str, Any] | None = None,
        sort: Sequence[tuple[str, int]] = NEWEST_FIRST,
        limit: int = 0,
        skip: int = 0,
        fields: Sequence[str] | None = None,
        *,
        collection: str = ResultDocument.collection,
        index: str | None = None,
    ) -> list[dict[str, Any]]:
        """Like ``find_results``, as stored, only ``fields`` (dotted paths): for tables of many results.

        ``index``: to be used, where MongoDB would try a dozen first.
        """
        # MongoDB refuses a path beside the group that it is part of.
        projection = {"_id": 0, **dict.fromkeys(outermost(fields), 1)} if fields else {"_id": 0}
        where: dict[str, Any] = dict(filter or {})
        if tuple(sort) == tuple(NEWEST_FIRST):
            where = {"$and": [SOME_TIME, where]}
        return self._session.retrying(
            lambda: list(
                self._session.database()[collection].find(
                    where, projection, sort=list(sort), limit=limit, skip=skip, hint=index
                )
            ),
            "finding results",
        )

    def count_results(self, filter: Mapping[str, Any] | None = None, index: str | None = None) -> int:
        """How many results match a filter; all of them without one. ``index``: to be used, where MongoDB would try a
        dozen first.
        """
        how: dict[str, Any] = {} if index is None else {"hint": index}
        return self._session.retrying(
            lambda: self._session.database()["results"].count_documents(filter or {}, **how),
            "counting results",
        )

    def delete_result(self, run_id: str) -> int:
        """Remove all attempts' results of a run with the files that they name, a training's with the remedies of it
        that were run; how many results there were. One that was killed ends when it is asked for again.
        """
        return deletions.delete(self, run_id)

    def samples(self, run_id: str, attempt: int | None = None) -> pyarrow.Table:
        """The raw records of a run (columns: ``loadgen.records``), checked against their SHA-256.

        Raises InputError if the run has no result, or one without samples.
        """
        import pyarrow
        import pyarrow.parquet

        file = self.get_result(run_id, attempt).samples
        if file is None:
            raise InputError(f"The result of run {run_id!r} has no raw samples.")
        # read_table would import pandas
        return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(self.files.get(file))).read()

    def _is_there(self, collection: str, identity: ObjectId) -> bool:
        return self.retrying(
            lambda: self.collection(collection).find_one({"_id": identity}, {"_id": 1}) is not None,
            "looking for the result",
        )

    def _known(self, document: ResultT) -> ResultT | None:
        same = {"run_id": document.run_id, "attempt": document.attempt}
        return next(iter(self.results_of(type(document), same, limit=1)), None)

    def _require_same(self, existing: ResultBase, document: ResultBase, samples_path: Path | None) -> None:
        digest = measure(samples_path)[0] if samples_path else document.samples and document.samples.sha256
        if (existing.samples.sha256 if existing.samples else None) == digest:
            return
        raise PerfDBError(
            f"Run {document.run_id!r}, attempt {document.attempt}, has a result already "
            f"({existing.created_at:%Y-%m-%d %H:%M:%S} UTC, {existing.verdict}), made from other samples. Results "
            "are written once; measure again under a new attempt or run."
        )


def _result(stored: dict[str, Any]) -> ResultDocument:
    plain = to_plain(stored)
    plain.pop("_id", None)
    return ResultDocument.model_validate(plain)
