"""Copies of artifacts that are damaged, in the store and on a host: done before the jobs that use them begin."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.chaos.fault import Amid, Done
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, open_store
from inferbench_tasks.stores.gridfs_store import BUCKET
from inferbench_tasks.stores.holdings import FETCHED
from inferbench_tasks.stores.ledger import Ledger
from inferbench_tasks.stores.manifest import Manifest
from tests.joined_hosts import JoinedHost


@contextmanager
def corrupted_in_store(amid: Amid) -> Iterator[Done]:
    """A byte of each content in PerfDB that these jobs use is another, and the hosts have no copies; put right
    afterwards where nobody did."""
    db = amid.joined.driver.db
    for each in amid.joined.hosts:
        shutil.rmtree(each.home / FETCHED, ignore_errors=True)
    store, keys = open_store("gridfs:", db), set()
    for digest in amid.digests:
        if store.size(f"{MANIFESTS}/{digest}") is not None:
            manifest = Manifest.read(store.read(f"{MANIFESTS}/{digest}"), digest)
            keys |= {f"{BLOBS}/{file.sha256}" for file in manifest.files}
    files = db.collection(f"{BUCKET}.files").find({"filename": {"$in": sorted(keys)}}, {"_id": 1})
    chunks = db.collection(f"{BUCKET}.chunks")
    chosen = list(chunks.find({"files_id": {"$in": [file["_id"] for file in files]}, "n": 0}))
    changed = {chunk["_id"]: _flipped(chunk["data"], amid.rng) for chunk in chosen if chunk["data"]}
    for identity, data in changed.items():
        chunks.update_one({"_id": identity}, {"$set": {"data": data}})
    try:
        words = f"{len(changed)} contents of {len(amid.digests)} artifacts changed by a byte in the store"
        yield Done(words, lambda: _reported(amid))
    finally:
        chunks = amid.joined.driver.db.collection(f"{BUCKET}.chunks")
        for chunk in chosen:
            if chunk["_id"] in changed:
                was = {"_id": chunk["_id"], "data": changed[chunk["_id"]]}
                chunks.update_one(was, {"$set": {"data": chunk["data"]}})


@contextmanager
def corrupted_in_cache(amid: Amid) -> Iterator[Done]:
    """A byte of each file that these jobs use is another on a host that fetched it before."""
    having = [host for host in amid.joined.hosts if _fetched(host, amid.digests)]
    host = amid.host if amid.host in having or not having else amid.rng.choice(having)
    changed = 0
    for path in _fetched(host, amid.digests):
        with suppress(OSError):
            path.chmod(0o600)
            path.write_bytes(_flipped(path.read_bytes(), amid.rng))
            changed += 1
    yield Done(
        f"{changed} fetched files of {host.name} changed by a byte",
        lambda: changed > 0 and _reported(amid, host.name),
    )


def _fetched(host: JoinedHost, digests: frozenset[str]) -> list[Path]:
    folders = [host.home / FETCHED / digest for digest in sorted(digests)]
    return [
        path for folder in folders for path in folder.rglob("*") if path.is_file() and path.stat().st_size
    ]


def _reported(amid: Amid, host: str = "") -> bool:
    """Whether a host has told of a damaged copy of one of these artifacts since the round began."""
    known = [Ledger(amid.joined.driver.db).get(digest) for digest in amid.digests]
    faults = [fault for one in known if one for fault in one.faults]
    return any(fault.at >= amid.since and host in ("", fault.host) for fault in faults)


def _flipped(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]
