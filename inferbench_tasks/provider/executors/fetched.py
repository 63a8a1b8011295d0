"""How long the hosts of a job take at most to fetch what its earlier stages made for them, by its size."""

from __future__ import annotations

from inferbench_tasks.contracts.located import opened
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.stores.ledger import Ledger
from inferbench_tasks.submission.base import JobBase

#: Of the slowest link that is reckoned with, 100 Mbit/s, with a fifth for what protocols and encryption take.
LEAST_BYTES_PER_S = 10e6


def fetch_s(db: PerfDB, run_id: str, spec: JobBase) -> float:
    """Over all hosts, which may fetch one after the other; 0 of a job on one host. PerfDBError.

    It is the most: what a host holds already it does not fetch again, and nobody knows yet which hosts they are. Of a
    job on one host the least limit leaves room enough.
    """
    elsewhere = spec.stages_elsewhere()
    if not elsewhere:
        return 0.0
    entries, hosts = pipeline_of(spec).of_job(spec), spec.hosts_elsewhere()
    before = {entry.name for entry in entries if not entry.facts.leased}
    outputs = {
        record.stage: record.output
        for run in db.find_runs({"_id": run_id})
        for record in run.stages
        if record.state == "done" and record.stage in before and record.output is not None
    }
    by_host: dict[int, set[str]] = {}
    for entry in entries:
        if entry.facts.leased:
            number = hosts.get(entry.name, 1) if entry.name in elsewhere else 0
            handed = {need: outputs[need] for need in entry.facts.needs if need in outputs}
            by_host.setdefault(number, set()).update(opened(handed, entry.facts.unread))
    sizes = Ledger(db).sizes(set().union(*by_host.values()))
    return sum(sizes.get(digest, 0) for wanted in by_host.values() for digest in wanted) / LEAST_BYTES_PER_S
