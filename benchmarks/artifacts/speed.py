"""How fast an artifact is stored and fetched, beside what the same store and disk give without any of it.

    python -m benchmarks.artifacts.speed FOLDER [MEGABYTES]

``raw`` of a fetch: one reader takes all chunks from the store in order and writes them into a file, checking nothing.
Files are in the page cache as far as memory allows; both ways are done in turns, and the median of three counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from inferbench_tasks import settings
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import ARTIFACTS, BLOBS, Store, open_store
from inferbench_tasks.stores.depot import Depot
from inferbench_tasks.stores.holdings import FETCHED, FOLDER, Holdings
from inferbench_tasks.stores.put import put

BLOCK_BYTES = 16 << 20


def seconds(work: Callable[[], object]) -> float:
    """It took so long, with everything on the disk."""
    os.sync()
    started_s = time.monotonic()
    work()
    os.sync()
    return time.monotonic() - started_s


def copy(store: Store, key: str, path: Path) -> None:
    """All of an object, as plainly as can be."""
    size, start = store.size(key) or 0, 0
    with open(path, "wb") as file:
        while start < size:
            start += file.write(store.read(key, start, BLOCK_BYTES))
        os.fsync(file.fileno())


def main(folder: Path, megabytes: int) -> None:
    leader, worker = folder / "leader", folder / "worker"
    for home in (leader / "runs", worker):
        home.mkdir(parents=True, exist_ok=True)
    os.environ[settings.DATA_DIR] = str(leader)
    model = leader / "runs" / "model.bin"
    digest = hashlib.sha256()
    with open(model, "wb") as file:
        for _ in range(megabytes):
            block = os.urandom(1_000_000)
            digest.update(block)
            file.write(block)
    with PerfDB.connect(None, leader) as db:
        depot = Depot(db, leader)
        reference = depot.send(str(model))
        depot.flush()
        artifact = reference.removeprefix("artifact:").partition("/")[0]
        for url in ("gridfs:", f"file://{folder}/shared"):
            os.environ[ARTIFACTS] = url
            put_s = seconds(lambda: put(db, Holdings(leader), artifact))
            fetched, raw = [], []
            for _ in range(3):
                shutil.rmtree(worker)
                worker.mkdir()
                fetched.append(seconds(lambda: Depot(db, worker).receive(reference)))
                shutil.rmtree(worker / FETCHED)
                shutil.rmtree(worker / FOLDER)
                store = open_store(url, db)
                key = f"{BLOBS}/{digest.hexdigest()}"
                raw.append(seconds(lambda store=store, key=key: copy(store, key, worker / "raw")))
            rate = {
                name: round(megabytes / median(took), 1) for name, took in (("fetch", fetched), ("raw", raw))
            }
            share = round(median(raw) / median(fetched), 3)
            print(
                json.dumps(
                    {"store": url[:6], "put_mb_s": round(megabytes / put_s, 1), **rate, "share": share}
                )
            )
            for known in [artifact]:
                db.collection("artifacts").update_one({"_id": known}, {"$set": {"stored": []}})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
