"""What runs, or waits, and what it uses: nothing of that is removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.located import references
from inferbench_tasks.launchers import records
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.lease import MachineLease
from inferbench_tasks.stores.holdings import Holdings

#: A run that was killed counts as running for ever. No task is queued for more than a week, and none runs for longer.
STALE = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class InUse:
    """``runs``: by id, with all others of their invocations. ``paths``: what their stages have told of."""

    runs: frozenset[str] = frozenset()
    invocations: frozenset[str] = frozenset()
    paths: frozenset[Path] = field(default_factory=frozenset)
    #: Somebody works here whom this PerfDB does not know.
    strangers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, db: PerfDB, data_dir: Path) -> InUse:
        """What is in use now. Raises PerfDBError."""
        recent = {"status": "running", "updated_at": {"$gte": db.now() - STALE}}
        fields = {"invocation_id": 1, "stages.output": 1}
        documents = db.retrying(lambda: list(db.collection("runs").find(recent, fields)), "finding what runs")
        holders = {device.lease.run_id for device in Cluster(db).devices() if device.lease}
        holders |= {record.run_id for record in records.read_all(settings.servers_dir(data_dir)).values()}
        if holder := MachineLease(settings.machine_dir(data_dir)).holder():
            holders.add(holder.run_id)
        running = {document["_id"] for document in documents}
        holders = {run_id.partition(".beside")[0] for run_id in holders if run_id} - running
        others = db.retrying(
            lambda: list(db.collection("runs").find({"_id": {"$in": sorted(holders)}}, fields)),
            "finding what runs",
        )
        documents += others
        holdings = Holdings(data_dir)
        named = {path for document in documents for path in _paths(document, data_dir)}
        named |= {root for digest in references(documents) if (root := holdings.root_of(digest))}
        return cls(
            runs=frozenset(running | holders),
            invocations=frozenset(str(document["invocation_id"]) for document in documents),
            paths=frozenset(named),
            strangers=frozenset(holders - {document["_id"] for document in others}),
        )

    def has_run(self, run_id: str) -> bool:
        """Whether a run is under way, or another one of its submission."""
        base = run_id.partition(".beside")[0]
        return base in self.runs or base.rpartition(".")[0] in self.invocations

    def has_path(self, path: Path) -> bool:
        """Whether a run that is under way was told of something there."""
        return any(used == path or path in used.parents for used in self.paths)


def _paths(value: Any, data_dir: Path) -> Iterator[Path]:
    """The paths below the data directory that a document names."""
    values: Iterable[Any] = ()
    if isinstance(value, dict):
        values = value.values()
    elif isinstance(value, list):
        values = value
    elif isinstance(value, str) and value.startswith(f"{data_dir}/"):
        yield Path(value)
    for part in values:
        yield from _paths(part, data_dir)
