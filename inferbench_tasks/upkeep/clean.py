"""What goes and what stays: by age, then by size, what was used longest ago first."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from inferbench_tasks import settings
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.networks import netem
from inferbench_tasks.perfdb import deletions
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.lease import MachineLease
from inferbench_tasks.upkeep.entry import YOUNG_S, Entry, used_at
from inferbench_tasks.upkeep.in_use import InUse
from inferbench_tasks.upkeep.keep import Keep
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.places.cache import Cache
from inferbench_tasks.upkeep.places.environments import Environments
from inferbench_tasks.upkeep.places.logs import Logs
from inferbench_tasks.upkeep.places.runs import Runs
from inferbench_tasks.upkeep.places.submitted import Submitted
from inferbench_tasks.upkeep.unnamed import YOUNG_S as YOUNG_FILE_S
from inferbench_tasks.upkeep.unnamed import unnamed

log = logging.getLogger(__name__)

PLACES: tuple[type[Place], ...] = (Runs, Cache, Environments, Submitted, Logs)
#: When a cleaning ended last: the time of this file of the data directory.
STAMP = "cleaned"
EVERY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one entry that is past its bounds. ``kept``: why it stays all the same; empty where it goes."""

    place: str
    path: Path
    total_bytes: int
    age_s: float
    reason: str
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """An entry past its bounds, why it should go, and what keeps it all the same."""

    entry: Entry
    reason: str
    kept: str


def clean(
    data_dir: Path,
    db: PerfDB,
    places: Sequence[str] = (),
    *,
    dry_run: bool = False,
    unstored: bool = False,
    now_s: float | None = None,
) -> list[Outcome]:
    """Remove what is past the bounds of these places and not in use; what was past them. By default of all places, and
    with them the networks that killed runs left, and their files in PerfDB that no result names.

    ``dry_run``: only say so. ``unstored``: also runs with raw records that are not in PerfDB, or that it does not know.
    ``now_s``: Unix time. One cleaning at a time: nothing, where another is under way. Raises PerfDBError, for without
    it nobody knows what runs, and InputError for a bound that is none.
    """
    now = time.time() if now_s is None else now_s
    chosen = [place for place in PLACES if not places or place.name in places]
    bounds = {place.name: Keep.of(place.setting) for place in chosen}
    if not data_dir.is_dir():
        return []
    outcomes: list[Outcome] = []
    try:
        with FileLock(data_dir / f".{STAMP}.lock").acquire(timeout=0):
            use = InUse.of(db, data_dir)
            for place in chosen:
                entries = place(data_dir, db, use).entries()
                for past in excess(entries, bounds[place.name], now, unstored):
                    kept = past.kept or ("" if dry_run else _removed(past.entry))
                    path, total_bytes = past.entry.path, past.entry.total_bytes
                    outcomes.append(
                        Outcome(place.name, path, total_bytes, now - past.entry.used_s, past.reason, kept)
                    )
            if not places:
                outcomes += networks_left(now, dry_run=dry_run)
                outcomes += files_left(db, dry_run=dry_run)
            if not dry_run and not places:
                (data_dir / STAMP).touch()
    except Timeout:
        log.info("another cleaning of %s is under way", data_dir)
    return outcomes


def networks_left(now_s: float, *, dry_run: bool, named: Path = netem.NAMED) -> list[Outcome]:
    """Networks between client and server of runs that were killed; removed, unless ``dry_run``."""
    outcomes = []
    for name in netem.left_behind(named):
        path = named / name
        age_s, kept = now_s - used_at(path), "" if dry_run else netem.remove(name)
        if kept:
            log.info("stays path=%s: %s", path, kept)
        elif not dry_run:
            log.info("removed path=%s", path)
        outcomes.append(Outcome("networks", path, 0, age_s, "the run that made it was killed", kept))
    return outcomes


def files_left(db: PerfDB, *, dry_run: bool) -> list[Outcome]:
    """Files in PerfDB of runs that were killed before a result named them, and what killed deletions of results left;
    removed, unless ``dry_run``, with what was stored of a file whose storing was killed. Raises PerfDBError.
    """
    outcomes = []
    now = db.now()
    for begun in deletions.killed(db):
        kept = "" if dry_run else _ended(db, begun)
        age_s = (now - begun["begun_at"]).total_seconds()
        path = Path(str(begun.get("run_id")), f"attempt {begun.get('attempt')}")
        outcomes.append(Outcome("perfdb", path, 0, age_s, "the deletion of its result was killed", kept))
    for file in unnamed(db):
        if not dry_run:
            db.files.delete(file.id)
            log.info("removed file=%s run_id=%s name=%s", file.id, file.run_id, file.name)
        path = Path(file.run_id, file.name)
        outcomes.append(Outcome("perfdb", path, file.bytes, file.age_s, "no result of its run names it"))
    if not dry_run:
        db.files.delete_unfinished(YOUNG_FILE_S)
    return outcomes


def _ended(db: PerfDB, begun: dict[str, Any]) -> str:
    """Why a killed deletion could not be ended, which keeps no other from it; empty where it was."""
    try:
        deletions.end(db, begun)
    except InferBenchError as error:
        kept = f"it can't be ended: {error}"
    except (LookupError, TypeError) as error:
        kept = f"it can't be ended, for what was written down of it is damaged: {error!r}"
    else:
        log.info("ended the deletion of run_id=%s attempt=%s", begun["run_id"], begun["attempt"])
        return ""
    log.warning("stays deletion=%s: %s", begun["_id"], kept)
    return kept


def excess(entries: Sequence[Entry], keep: Keep, now_s: float, unstored: bool = False) -> list[Past]:
    """What is past its bounds, what was used longest ago first.

    What stays counts towards the size, so that more of the others goes.
    """
    total_bytes = sum(entry.total_bytes for entry in entries)
    past = []
    for entry in sorted(entries, key=lambda entry: entry.used_s):
        age_s = now_s - entry.used_s
        if entry.overdue:
            reason = entry.overdue
        elif age_s < YOUNG_S:
            continue
        elif age_s > keep.age_s:
            reason = f"not used for {age_s / 86_400:.0f} days"
        elif total_bytes > keep.total_bytes:
            reason = f"{total_bytes / 1e9:.1f} GB are there"
        else:
            continue
        kept = entry.in_use or (entry.unstored() if entry.unstored and not unstored else "")
        if not kept:
            total_bytes -= entry.total_bytes
        past.append(Past(entry, reason, kept))
    return past


def _removed(entry: Entry) -> str:
    """Why an entry could not be removed; empty where it was."""
    try:
        kept = entry.remove()
    except (OSError, RecursionError) as error:  # one that can't be removed keeps no other from it
        kept = f"it can't be removed: {getattr(error, 'strerror', None) or error}"
    if kept:
        log.info("stays path=%s: %s", entry.path, kept)
    else:
        log.info("removed path=%s bytes=%d", entry.path, entry.total_bytes)
    return kept


def due(data_dir: Path, *, every_s: float = EVERY_S) -> bool:
    """Whether the last whole cleaning is so long ago, or there was none."""
    try:
        return time.time() - os.stat(data_dir / STAMP).st_mtime >= every_s
    except OSError:
        return True


def clean_if_due(data_dir: Path, db: PerfDB) -> None:
    """A day after the last cleaning, and while nothing is measured here; what goes wrong is logged only."""
    try:
        if due(data_dir) and MachineLease(settings.machine_dir(data_dir)).holder() is None:
            clean(data_dir, db)
    except InferBenchError as error:
        log.warning("old files could not be removed: %s", error)
