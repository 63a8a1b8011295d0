"""What no run was told of goes from the stores, after a grace time; what a result refers to never does.

That is known of one PerfDB's results: where another uses a store too nothing is collected (``owners.py``).

Manifests are read before anybody is kept from storing anything. What can't be removed within one round is removed in
the next, between which puts have their turn: a store of any size is done with, or what is left of it is less.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock
from time import monotonic

from inferbench_tasks.errors import InputError, MissingExtraError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Store, kind_of, name_in, open_store, store_url
from inferbench_tasks.stores.contents import Contents
from inferbench_tasks.stores.ledger import LOCK_FOR, Known, Ledger, Suspicion
from inferbench_tasks.stores.owners import claim, claimed_s, require_alone
from inferbench_tasks.stores.several import several

log = logging.getLogger(__name__)

GRACE = timedelta(days=7)
#: A round ends well before others think that this process was killed.
ROUND_S = LOCK_FOR.total_seconds() / 2


@dataclass(frozen=True, slots=True)
class Collected:
    """``stays``: why it does; "" for what went, or would go. ``bytes``: of all files of an artifact."""

    digest: str
    bytes: int
    days: float
    stays: str


class _OutOfTime(Exception):
    """This round has taken as long as it may."""


@dataclass
class _Collection:
    """One call of ``collect``: what it found so far."""

    db: PerfDB
    ledger: Ledger
    grace: timedelta
    dry_run: bool
    outcomes: dict[str, Collected] = field(default_factory=dict)
    contents: dict[str, Contents] = field(default_factory=dict)
    counting: Lock = field(default_factory=Lock)
    removed: int = 0
    until_s: float = 0.0

    def look_ahead(self) -> None:
        """Read all manifests there are."""
        stores, _ = self._opened(self.ledger.all())
        for store in stores.values():
            manifests = [item for item in store.objects() if kind_of(item.key) == MANIFESTS]
            self._contents(store).read(manifests)

    def round(self) -> bool:
        """Remove what may go, while nothing is put; whether all of it went."""
        self.until_s = monotonic() + ROUND_S
        before = self.removed
        try:
            self._round()
        except _OutOfTime:
            if self.removed == before:
                raise StorageError(
                    f"To look what runs refer to, and what is stored, takes longer than the {ROUND_S:.0f} s in which "
                    "nothing else may be stored; nothing was removed. See to PerfDB and the store."
                ) from None
            return False
        return True

    def _round(self) -> None:
        # Read before the runs: what a run is told of later was used later too, and is young.
        now, artifacts = self.ledger.now(), self.ledger.all()
        stores, closed = self._opened(artifacts)
        needed = self.ledger.needed([known.digest for known in artifacts])
        kept: set[str] = set()
        for known in artifacts:
            age = now - known.used_at
            stays = "a run in PerfDB refers to it" if known.digest in needed else ""
            stays = stays or ("it was used within the grace time" if age < self.grace else "")
            stays = stays or next((closed[url] for url in known.stored if url in closed), "")
            if not stays and not self.dry_run:
                stays = self._forget(known, stores)
            if stays:
                kept.add(known.digest)
            self.outcomes[known.digest] = Collected(
                known.digest, known.bytes, age.total_seconds() / 86_400, stays
            )
        if not self.dry_run:
            for store in stores.values():
                self._sweep(store, kept)

    def _forget(self, known: Known, stores: dict[str, Store]) -> str:
        """Remove an artifact; why it stays after all."""
        self._in_time()
        if not self.ledger.forget(known):
            return "it was used meanwhile"
        for url in known.stored:
            stores[url].delete(f"{MANIFESTS}/{known.digest}")
        self.removed += 1
        return ""

    def _sweep(self, store: Store, kept: set[str]) -> None:
        """Remove contents that no manifest names any more, and manifests of which neither the ledger nor a run knows.

        A PerfDB that was restored has runs whose artifacts its ledger may lack.
        """
        grace_s = self.grace.total_seconds()
        objects = {item.key: item for item in store.objects()}
        now_s = store.now_s()
        old = {key for key, item in objects.items() if now_s - item.stored_s >= grace_s}
        manifests = {key: item for key, item in objects.items() if kind_of(key) == MANIFESTS}
        unknown = [key for key in manifests if name_in(key) not in kept and key in old]
        needed = self.ledger.needed([name_in(key) for key in unknown]) if unknown else set()
        unknown = [key for key in unknown if name_in(key) not in needed]
        self._delete(store, unknown)
        for key in unknown:
            del manifests[key]
        contents = self._contents(store)
        contents.read(manifests.values())
        damaged = manifests.keys() & contents.damaged.keys()
        for key in sorted(damaged):
            self._report(store, key, contents.damaged[key])
        if damaged:  # nothing is known of its contents, and nothing goes
            return
        named = contents.named(manifests)
        unnamed = (key for key in old if kind_of(key) == BLOBS and bytes.fromhex(name_in(key)) not in named)
        self._delete(store, sorted(unnamed))
        store.tidy(grace_s)

    def _report(self, store: Store, key: str, why: str) -> None:
        """A damaged manifest: a home that has its artifact is to look at it, and to store it again."""
        digest, host = name_in(key), socket.gethostname()
        log.warning("no contents are removed from %s: %s", store.url, why)
        self.ledger.suspect(digest, Suspicion(url=store.url, key=key, host=host))
        if outcome := self.outcomes.get(digest):
            self.ledger.report(digest, host, why)
            more = f"its manifest in {store.url} is damaged, and no contents go from there before it is stored again"
            self.outcomes[digest] = replace(outcome, stays=f"{outcome.stays}; {more}")

    def _delete(self, store: Store, keys: list[str]) -> None:
        def delete(key: str) -> None:
            self._in_time()
            store.delete(key)
            with self.counting:
                self.removed += 1

        several(delete, keys)

    def _in_time(self) -> None:
        if monotonic() > self.until_s:
            raise _OutOfTime

    def _contents(self, store: Store) -> Contents:
        return self.contents.setdefault(store.url, Contents(store))

    def _opened(self, artifacts: list[Known]) -> tuple[dict[str, Store], dict[str, str]]:
        """By URL: the stores from which something may be removed, and why nothing may from the others."""
        stores: dict[str, Store] = {}
        closed: dict[str, str] = {}
        for url in sorted({store_url(), *(url for known in artifacts for url in known.stored)}):
            try:
                store = open_store(url, self.db)
                require_alone(store, self.ledger)
                if not self.dry_run:
                    claim(store, self.ledger)
                old = store.of_one_perfdb or _is_old(store, self.ledger, self.grace)
            except (InputError, MissingExtraError, StorageError) as error:
                if url == store_url():
                    raise
                log.warning("nothing is collected in %s: %s", url, error)
                closed[url] = f"nothing is collected in {url}, where it is too"
                continue
            if old:
                stores[url] = store
            else:
                closed[url] = f"this PerfDB's mark in {url} is not as old as the grace time"
        return stores, closed


def collect(db: PerfDB, grace: timedelta = GRACE, *, dry_run: bool = False) -> list[Collected]:
    """Look at all artifacts of the ledger, and at what lies in their stores without being part of one.

    StorageError where another PerfDB uses this host's store too, and where somebody else collects or stores just now.
    """
    ledger = Ledger(db)
    collection = _Collection(db, ledger, grace, dry_run)
    if not dry_run:
        collection.look_ahead()
    while True:
        with _alone(ledger, collection.removed):
            if collection.round():
                return list(collection.outcomes.values())


@contextmanager
def _alone(ledger: Ledger, removed: int) -> Iterator[None]:
    """While nobody else collects, and nothing is put. ``removed``: so many objects have gone already."""
    so_far = f" {removed} objects were removed, and what is left goes the next time." if removed else ""
    if not ledger.lock():
        raise StorageError(f"Somebody else collects artifacts just now; try again later.{so_far}")
    try:
        if ledger.puts():
            raise StorageError(f"Artifacts are being stored just now; try again later.{so_far}")
        yield
    finally:
        ledger.unlock()


def _is_old(store: Store, ledger: Ledger, grace: timedelta) -> bool:
    """Whether this PerfDB left its mark before the grace time."""
    since_s = claimed_s(store, ledger)
    return since_s is not None and store.now_s() - since_s >= grace.total_seconds()
