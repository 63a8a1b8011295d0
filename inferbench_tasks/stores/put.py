"""An artifact of this host into the store: each file's content once, the manifest last, so that none is half there."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable

from inferbench_tasks.errors import CancelledError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import ARTIFACTS, open_store, store_url
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.ledger import LOCK_FOR, Ledger
from inferbench_tasks.stores.owners import claim
from inferbench_tasks.stores.under_way import marked
from inferbench_tasks.stores.upload import Untrue, Upload

log = logging.getLogger(__name__)

_LOOK_S = 0.5
Progress = Callable[[float, float | None, str], None]


def is_explicit() -> bool:
    """Whether this host is told where artifacts go: then all of them do, whoever needs them."""
    return bool(os.environ.get(ARTIFACTS))


def put(
    db: PerfDB,
    holdings: Holdings,
    digest: str,
    *,
    told: Progress = lambda done, total, text: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> bool:
    """Store an artifact that this host has; whether anything had to be stored, or looked at.

    What a host suspected in the store is read again here, and stored again where it is wrong. The artifact must be in
    the ledger before, which is what keeps a collector from it. StorageError where it is not here any more, PerfDBError,
    CancelledError.
    """
    ledger, url = Ledger(db), store_url()
    with marked(ledger, lambda: [digest]):
        return _put(db, holdings, digest, ledger, url, told, cancelled)


def _put(
    db: PerfDB,
    holdings: Holdings,
    digest: str,
    ledger: Ledger,
    url: str,
    told: Progress,
    cancelled: Callable[[], bool],
) -> bool:
    deadline_s = time.monotonic() + LOCK_FOR.total_seconds()
    while ledger.locked() and time.monotonic() < deadline_s:
        if cancelled():
            raise CancelledError("Cancelled while artifacts were collected.")
        time.sleep(_LOOK_S)
    store = open_store(url, db)
    claim(store, ledger)
    known = ledger.get(digest)
    suspicions = [each for each in known.suspicions if each.url == url] if known else []
    if known is not None and url in known.stored and not suspicions:
        ledger.store(digest, url)
        return False
    holding = holdings.find(digest)
    if holding is None:
        raise StorageError(f"Artifact {digest} is not here any more; clear the tasks that made it.")
    total, text = holding.manifest.total_bytes, f"storing artifact {digest[:12]}"

    def report(done: int) -> None:
        told(done, total, text)
        if cancelled():
            raise CancelledError("Cancelled while an artifact was stored.")

    report(0)
    upload = Upload(store, holding, {each.key for each in suspicions})
    try:
        upload(report)
    except Untrue:
        holdings.forget(digest)
        raise
    ledger.store(digest, url, suspicions)
    for each in suspicions:
        now = "was damaged, and is stored again" if each.key in upload.wrong else "is whole"
        ledger.report(digest, socket.gethostname(), f"{each.key} in {url}, suspected by {each.host}, {now}")
    told(total, total, text)
    return True


def put_wanted(db: PerfDB, holdings: Holdings, home: str) -> list[str]:
    """Store what others wait for and this home has; their digests. What it has no longer is told to the ledger.

    Those whose turn comes later are marked too: who waits for them sees that they are being stored. One that can't be
    stored holds up none of the others; the first such error is raised at the end.
    """
    ledger, stored = Ledger(db), list[str]()
    tried, errors = set[str](), list[StorageError]()

    def queue() -> list[str]:
        return [known.digest for known in ledger.wanted_of(home) if known.digest not in tried]

    with marked(ledger, queue):
        while digests := queue():
            digest = digests[0]
            tried.add(digest)
            if holdings.find(digest) is None:
                ledger.lose(digest, home)
                continue
            try:
                put(db, holdings, digest)
                stored.append(digest)
            except StorageError as error:
                log.warning("an artifact can't be stored artifact=%s: %s", digest, error)
                errors.append(error)
    if errors:
        raise errors[0]
    return stored
