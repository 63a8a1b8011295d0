"""What no run was told of goes from the stores, after a grace time; what a result refers to never does.

That is known of one PerfDB's results: where another uses a store too nothing is collected (``owners.py``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from inferbench_tasks.errors import InferBenchError, StorageError
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Missing, Store, open_store, store_url
from inferbench_tasks.stores.ledger import LOCK_FOR, Ledger
from inferbench_tasks.stores.manifest import Manifest
from inferbench_tasks.stores.owners import claim, claimed_s, require_alone

log = logging.getLogger(__name__)

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

    StorageError where another PerfDB uses that store too, where somebody else collects, or it took so long that puts
    went on meanwhile.
    """
    ledger = Ledger(db)
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
        urls = {store_url(), *(url for known in artifacts for url in known.stored)}
        stores, closed = _opened(urls, ledger, db, grace, dry_run=dry_run)
        needed = ledger.needed([known.digest for known in artifacts])
        kept: set[str] = set()
        for known in artifacts:
            age = utc_now() - known.used_at
            stays = "a run in PerfDB refers to it" if known.digest in needed else ""
            stays = stays or ("it was used within the grace time" if age < grace else "")
            stays = stays or next((closed[url] for url in known.stored if url in closed), "")
            if not stays and not dry_run:
                _in_time(until)
                if not ledger.forget(known):
                    stays = "it was used meanwhile"
                else:
                    for url in known.stored:
                        stores[url].delete(f"{MANIFESTS}/{known.digest}")
            if stays:
                kept.add(known.digest)
            found.append(Collected(known.digest, known.bytes, age.total_seconds() / 86_400, stays))
        if not dry_run and store_url() in stores:
            _sweep(stores[store_url()], kept, grace, until)
        return found
    finally:
        ledger.unlock()


def _opened(
    urls: set[str], ledger: Ledger, db: PerfDB, grace: timedelta, *, dry_run: bool
) -> tuple[dict[str, Store], dict[str, str]]:
    """By URL: the stores from which something may be removed, and why nothing may from the others."""
    stores: dict[str, Store] = {}
    closed: dict[str, str] = {}
    for url in sorted(urls):
        try:
            store = open_store(url, db)
            require_alone(store, ledger)
            if not dry_run:
                claim(store, ledger)
            since_s = 0.0 if store.of_one_perfdb else claimed_s(store, ledger)
        except InferBenchError as error:
            if url == store_url():
                raise
            log.warning("nothing is collected in %s: %s", url, error)
            closed[url] = f"nothing is collected in {url}, where it is too"
            continue
        if since_s is None or utc_now().timestamp() - since_s < grace.total_seconds():
            closed[url] = f"this PerfDB's mark in {url} is not as old as the grace time"
        else:
            stores[url] = store
    return stores, closed


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
