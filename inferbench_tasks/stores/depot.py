"""The carrier of a host: what its stages hand over goes to where others can have it, and what they need comes here."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.artifacts.cache import MANIFEST
from inferbench_tasks.contracts.located import opened, reference, references, referred
from inferbench_tasks.errors import CancelledError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import ARTIFACTS, Missing, open_store, store_url
from inferbench_tasks.stores.entries import entry_digests, root_of
from inferbench_tasks.stores.fetch import Damaged, Fetch
from inferbench_tasks.stores.holdings import Holding, Holdings
from inferbench_tasks.stores.ledger import Known, Ledger, Suspicion
from inferbench_tasks.stores.limit import make_room
from inferbench_tasks.stores.manifest import Manifest
from inferbench_tasks.stores.put import is_explicit, put

log = logging.getLogger(__name__)

#: How long a stage waits for the home that has an artifact to store it, while it is not being stored.
WAIT_S = 300.0
LOOK_S = 0.5


class Depot:
    """Of one data directory. ``told(done, total, text)``: progress of what takes long.

    ``folders``: whose files may leave this host, beside the cache's and those of ``run_dir`` (of all runs unless
    given); what a stage names elsewhere, or what leads elsewhere by a link, stays a path.
    """

    def __init__(
        self,
        db: PerfDB,
        data_dir: Path,
        *,
        folders: Iterable[Path] = (),
        run_dir: Path | None = None,
        told: Callable[[float, float | None, str], None] = lambda done, total, text: None,
        cancelled: Callable[[], bool] = lambda: False,
        wait_s: float = WAIT_S,
    ) -> None:
        self.db, self.data_dir = db, data_dir
        self.holdings, self.ledger = Holdings(data_dir), Ledger(db)
        # Stages name the user's files with links resolved.
        self._folders = [
            folder.resolve() for folder in (data_dir / "cache", run_dir or data_dir / "runs", *folders)
        ]
        self._told, self._cancelled, self._wait_s = told, cancelled, wait_s
        self._sent: dict[Path, Manifest] = {}
        self._received: dict[str, Holding] = {}
        self._left: set[str] = set()

    @property
    def home(self) -> str:
        """This data directory's id."""
        return settings.home_id(self.data_dir)

    # -- to others -----------------------------------------------------------------------------------

    def send(self, path: str) -> str:
        """The reference of a file or folder of this host; ``flush`` makes it good. A path of elsewhere stays one."""
        place = Path(path)
        if not self._may_leave(place):
            return path
        root = root_of(place, self.data_dir)
        names = None if root is not None else [place.name] if place.is_file() else None
        if root is None:
            root = place.parent if place.is_file() else place
        key = place if names else root
        if key not in self._sent:
            self._sent[key] = self._manifest(root, names)
        name = place.relative_to(root).as_posix()
        return reference(self._sent[key].digest, "" if name == "." else name)

    def send_files(self, folder: str, names: Sequence[str]) -> str:
        """The reference of a folder with these of its files; as ``send``. StorageError for too many of them."""
        root = Path(folder)
        if not self._may_leave(root):
            return folder
        self._sent[root] = self._manifest(root, list(names))
        return reference(self._sent[root].digest, "")

    def _may_leave(self, place: Path) -> bool:
        real = place.resolve()
        below = any(real.is_relative_to(folder) for folder in self._folders)
        return below and ".." not in place.parts and place.exists()

    def _manifest(self, root: Path, names: list[str] | None) -> Manifest:
        known = None if names else entry_digests(root)
        if names is None:
            names = (
                list(known)
                if known
                else sorted(
                    path.relative_to(root).as_posix()
                    for path in root.rglob("*")
                    if path.is_file() and path.name != MANIFEST
                )
            )
        manifest = Manifest.of(root, names, known)
        before = self.holdings.whereabouts(manifest.digest)
        if before is None or before.root != root or self.holdings.find(manifest.digest) is None:
            self.holdings.enter(Holding(root, manifest))
        return manifest

    def flush(self) -> None:
        """Tell PerfDB of what was sent, and store it where another home may need it. Raises as ``put``."""
        if not self._sent:
            return
        home = settings.home_id(self.data_dir)
        self.ledger.enter(self._sent.values(), home, socket.gethostname())
        if is_explicit() or self.ledger.others(home):
            for manifest in self._sent.values():
                put(self.db, self.holdings, manifest.digest, told=self._told, cancelled=self._cancelled)
        self._sent.clear()

    # -- from others ---------------------------------------------------------------------------------

    def expect(self, document: dict[str, Any], unread: Iterable[str] = ()) -> None:
        """Ask at once for all that a document refers to and is to be had nowhere yet.

        What only its parts ``unread`` (dotted paths) refer to is not received: nobody opens it.
        """
        wanted = opened(document, unread)
        self._left = references(document) - wanted
        for digest in wanted:
            if self.holdings.whereabouts(digest) is None:
                known = self.ledger.get(digest)
                if known is not None and not known.stored:
                    self.ledger.want(digest, socket.gethostname())

    def receive(self, text: str) -> str:
        """The path here of what a reference stands for, fetched if need be. StorageError where it can't be had."""
        found = referred(text)
        assert found is not None
        digest, name = found
        if digest in self._left:
            return text
        if digest not in self._received:
            self._received[digest] = self.holdings.find(digest) or self._fetched(digest)
        holding = self._received[digest]
        path = holding.root / name if name else holding.root
        inside = {file.name for file in holding.manifest.files}
        if name and name not in inside and not any(each.startswith(f"{name}/") for each in inside):
            raise StorageError(f"Artifact {digest} has no {name[:200]!r}.")
        return str(path)

    def _fetched(self, digest: str) -> Holding:
        """Wait until a store has it, and fetch it.

        A copy in a store that is not whole stays: this host's memory may be what is damaged. It is suspected, and
        tried again once a home that has the artifact has looked at it, and stored it again where it was right.
        """
        host, asked, waited_s = socket.gethostname(), False, 0.0
        suspected: set[Suspicion] = set()
        while True:
            known = self.ledger.get(digest)
            open_ = {each.url for each in suspected.intersection(known.suspicions if known else ())}
            for url in known.stored if known else ():
                if url in open_:
                    continue
                try:
                    return self._fetch(digest, url)
                except (Missing, Damaged) as error:
                    self._suspect(digest, url, error, suspected)
                    asked = False
            if not asked or (known is not None and known.wanted_at is None):
                self.ledger.want(digest, host)
            if not asked:
                self._told(0, None, f"waiting for artifact {digest[:12]}")
                asked = True
            if self._cancelled():
                raise CancelledError("Cancelled while an artifact was waited for.")
            if waited_s > self._wait_s:
                raise StorageError(_unanswered(digest, known, self._wait_s))
            time.sleep(LOOK_S)
            if not self.ledger.being_put(digest):
                waited_s += LOOK_S

    def _suspect(self, digest: str, url: str, error: Missing | Damaged, suspected: set[Suspicion]) -> None:
        """Report what is not whole in a store. StorageError where it was reported, and a home has settled it."""
        key, host = error.args[0] if isinstance(error, Missing) else error.key, socket.gethostname()
        what = f"{key} is not in {url}" if isinstance(error, Missing) else str(error)
        suspicion = Suspicion(url=url, key=key, host=host)
        if suspicion in suspected:
            raise StorageError(
                f"{what}: so this host ({host}) reads it, also now that a host which has artifact {digest} looked at "
                "it. See to this host's memory and network, and that it reaches the same store as the others."
            )
        log.warning("an artifact's copy in a store is not whole artifact=%s: %s", digest, what)
        suspected.add(suspicion)
        self.ledger.report(digest, host, what)
        self.ledger.suspect(digest, suspicion)

    def _fetch(self, digest: str, url: str) -> Holding:
        def report(what: str) -> None:
            log.warning("artifact=%s: %s", digest, what)
            self.ledger.report(digest, socket.gethostname(), what)

        fetch = Fetch(
            open_store(url, self.db),
            self.holdings,
            told=lambda done, total: self._told(done, total, f"fetching artifact {digest[:12]}"),
            report=report,
            cancelled=self._cancelled,
            room=lambda needed: make_room(self.holdings, needed, self._used),
        )
        holding = fetch(digest)
        self.ledger.enter([holding.manifest], settings.home_id(self.data_dir), socket.gethostname())
        return holding

    def _used(self) -> set[str]:
        return self.ledger.in_use() | set(self._received)


def _unanswered(digest: str, known: Known | None, wait_s: float) -> str:
    hosts = ", ".join(sorted(set(known.homes.values()))) if known and known.homes else ""
    where = (
        f"it was made on {hosts}, whose system did not store it" if hosts else "nobody is known who has it"
    )
    stored = ", ".join(known.stored) if known else ""
    state = f"is not whole in {stored}, as read here" if stored else "is in no store"
    return (
        f"Artifact {digest} {state}, and {where} within {wait_s:.0f} s. See that `inferbench up` runs there (or "
        f"run `inferbench artifacts put` there, or set {ARTIFACTS} to {store_url()!r} on all hosts), and clear the "
        "job's tasks from generate on."
    )
