"""What tests of artifacts have alike: an entry of a cache, its reference once stored, a run that was told of it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts.cache import ArtifactCache
from inferbench_tasks.contracts.located import referred
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.depot import Depot
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.put import put

WEIGHTS = os.urandom(300_000)


def entry(home: Path, weights: bytes = WEIGHTS, name: str = "models") -> Path:
    """An entry of a cache with two files, as ``generate`` leaves one."""

    def make(folder: Path) -> dict[str, Any]:
        (folder / "parts").mkdir()
        (folder / "model.onnx").write_bytes(b"graph")
        (folder / "parts" / "weights.bin").write_bytes(weights)
        return {}

    settings = {"of": hashlib.sha256(weights).hexdigest()}
    return ArtifactCache(home / "cache" / name).get(settings, make).folder


def sent(db: PerfDB, home: Path, folder: Path) -> str:
    """The reference of an entry's model, stored."""
    depot = Depot(db, home)
    reference = depot.send(str(folder / "model.onnx"))
    depot.flush()
    put(db, Holdings(home), digest_of(reference))
    return reference


def digest_of(reference: str) -> str:
    """The artifact that a reference names."""
    named = referred(reference)
    assert named is not None
    return named[0]


def content(path: str | Path) -> bytes:
    """Of both files of an entry."""
    folder = Path(path).parent
    return (folder / "model.onnx").read_bytes() + (folder / "parts" / "weights.bin").read_bytes()


def run_told_of(db: PerfDB, run_id: str, reference: str, status: str) -> None:
    """A run whose stage handed that reference on."""
    stages = [{"stage": "generate", "output": {"model": {"path": reference}}}]
    db.collection("runs").insert_one(
        {"_id": run_id, "status": status, "stages": stages, "updated_at": utc_now()}
    )
