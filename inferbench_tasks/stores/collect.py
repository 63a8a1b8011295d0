"""What no run was told of goes from the stores, after a grace time; what a result refers to never does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from inferbench_tasks.errors import StorageError
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Missing, Store, open_store, store_url
from inferbench_tasks.stores.ledger import LOCK_FOR, Ledger
from inferbench_tasks.stores.manifest import Manifest

GRACE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Collected:
    """``stays``: why it does; "" for what went, or would go. ``bytes``: of an artifact, or of a single object."""

    digest: str
    bytes: int
    days: float
    stays: str


def collect(db: PerfDB, grace: timedelta = GRACE, *, dry_run: bool = False) -> list[Collected]:
    """Look at all artifacts of the ledger, and at what lies in this host's store without being part of one.

    StorageError where somebody else collects, or it took so long that puts went on meanwhile.
    """
    ledger, store = Ledger(db), open_store(store_url(), db)
    if not ledger.lock():
        raise StorageError("Somebody else collects artifacts just now; try again later.")
    if ledger.puts():
        ledger.unlock()
        raise StorageError("Artifacts are being stored just now; try again later.")
    until = utc_now() + LOCK_FOR / 2  # well before others think that this process was killed
    try:
        found = []
        # Read before the runs: what a run is told of later was used later too, and is young.
        artifacts = ledger.all()
        needed = ledger.needed([known.digest for known in artifacts])
        kept: set[str] = set()
        for known in artifacts:
            age = utc_now() - known.used_at
            stays = "a run in PerfDB refers to it" if known.digest in needed else ""
            stays = stays or ("it was used within the grace time" if age < grace else "")
            if not stays and not dry_run:
                _in_time(until)
                if not ledger.forget(known):
                    stays = "it was used meanwhile"
                else:
                    for url in known.stored:
                        open_store(url, db).delete(f"{MANIFESTS}/{known.digest}")
            if stays:
                kept.add(known.digest)
            found.append(Collected(known.digest, known.bytes, age.total_seconds() / 86_400, stays))
        if not dry_run:
            _sweep(store, kept, grace, until)
        return found
    finally:
        ledger.unlock()


def _sweep(store: Store, kept: set[str], grace: timedelta, until: datetime) -> None:
    """Contents that no manifest names any more, and manifests that the ledger does not know."""
    now = utc_now().timestamp()
    objects = list(store.objects())
    named: set[str] = set()
    for item in objects:
        kind, _, digest = item.key.partition("/")
        if kind != MANIFESTS:
            continue
        if digest not in kept and now - item.stored_s > grace.total_seconds():
            _in_time(until)
            store.delete(item.key)
            continue
        try:
            named |= {file.sha256 for file in Manifest.read(store.read(item.key), digest).files}
        except Missing:
            continue
    # A manifest that can't be read raised above: then nothing is known of its contents, and nothing goes.
    for item in objects:
        kind, _, digest = item.key.partition("/")
        if kind == BLOBS and digest not in named and now - item.stored_s > grace.total_seconds():
            _in_time(until)
            store.delete(item.key)
    store.tidy(grace.total_seconds())


def _in_time(until: datetime) -> None:
    if utc_now() > until:
        raise StorageError("Collecting took too long and was ended; what is left goes the next time.")
