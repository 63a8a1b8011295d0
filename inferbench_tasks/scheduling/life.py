"""One life of a scheduler from its event log: what its jobs went through, and the whole load as a trace.

What held devices is load, whatever became of it: each job from its lease to its end, well or not, or to the log's. Only
jobs that ended well, and were submitted and placed in this life, are ``compared``: of a run that was taken in from an
earlier life (``LeaseGranted`` without a decision) or a job that waited since then the log has not all of the time.
Where a run was lost and its job waited again, its devices were held for longer than any replay knows: ``lost``.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decisions import Place
from inferbench_tasks.scheduling.eventlog import Decided, read_log
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.outcome import JobOutcome, Outcome
from inferbench_tasks.scheduling.recorded import is_event_log, read_trace
from inferbench_tasks.scheduling.trace import Trace, TraceJob


@dataclass(frozen=True)
class Life:
    """``trace``: all that held devices; ``real``: what became of the jobs that are compared, in the order of their
    ends; ``failed`` ended otherwise, ``earlier`` came from another life: numbers of jobs; ``lost``: of runs.
    """

    trace: Trace
    real: Outcome
    failed: int
    earlier: int
    lost: int

    @property
    def compared(self) -> frozenset[str]:
        """The jobs whose completion times are."""
        return frozenset(job.job_id for job in self.real.jobs)


def lived(path: Path) -> Life:
    """Raises InputError for a file that is no event log, can't be read, or in which no job ended well."""
    try:
        if not is_event_log(path):
            raise InputError(f"{path} is no scheduler's event log")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    nodes = read_trace(path, ())
    log = read_log(path)
    reader = _Reader(log.records[0].at_s if log.records and not isinstance(log.records[0], Decided) else 0.0)
    for record in log.records:
        reader.take(record)
    reader.close()
    real = Outcome(log.policy, path.name, tuple(reader.good), ())
    jobs = tuple(sorted(reader.load, key=lambda job: (job.spec.submit_s, job.spec.job_id)))
    return Life(replace(nodes, jobs=jobs), real, reader.failed, len(reader.earlier), reader.lost)


class _Reader:
    def __init__(self, began_s: float) -> None:
        self.load: list[TraceJob] = []
        self.good: list[JobOutcome] = []
        self.failed = self.lost = 0
        self.earlier: set[str] = set()
        self._began_s = self._now_s = began_s
        self._specs: dict[str, QueuedJob] = {}
        self._held: dict[str, ev.LeaseGranted] = {}
        self._placed: set[str] = set()
        self._ended: set[str] = set()
        self._runs: Counter[str] = Counter()

    def take(self, record: ev.Event | Decided) -> None:
        """The next one."""
        if isinstance(record, Decided):
            self._placed |= {each.job_id for each in record.decisions if isinstance(each, Place)}
            return
        self._now_s = record.at_s
        if isinstance(record, ev.Submitted):
            self._specs[record.job.job_id] = replace(record.job, attempt=0)
            if record.job.submit_s < self._began_s:
                self.earlier.add(record.job.job_id)
        elif isinstance(record, ev.LeaseGranted):
            self._lease(record)
        elif isinstance(record, (ev.Finished, ev.Cancelled)):
            self._end(record.job_id, isinstance(record, ev.Finished) and record.ok)
        elif isinstance(record, (ev.InfraFailed, ev.LeaseExpired, ev.HealthFailed)) and record.job_id:
            self.lost += self._held.pop(record.job_id, None) is not None

    def close(self) -> None:
        """What still runs at the end of the log held its devices until then."""
        for job_id in list(self._held):
            self._end(job_id, False)

    def _lease(self, lease: ev.LeaseGranted) -> None:
        job_id = lease.job_id
        if job_id not in self._specs:
            raise InputError(f"the log leases a device to {job_id!r}, which was never submitted")
        if job_id not in self._placed:
            self.earlier.add(job_id)
        self._placed.discard(job_id)
        self.lost += job_id in self._held
        self._held[job_id] = lease
        self._runs[job_id] += 1

    def _end(self, job_id: str, well: bool) -> None:
        lease = self._held.pop(job_id, None)
        if lease is None or self._now_s <= lease.at_s:
            return
        spec, earlier = self._specs[job_id], job_id in self.earlier
        # A failed job's own limit would end it in a replay; what it really took is known.
        name = job_id if job_id not in self._ended else f"{job_id}#{self._runs[job_id]}"
        self._ended.add(job_id)
        held = replace(spec, job_id=name, submit_s=lease.at_s if earlier else spec.submit_s, limit_s=math.inf)
        self.load.append(TraceJob(held, self._now_s - lease.at_s))
        if well and not earlier:
            self.good.append(
                JobOutcome(
                    name, spec.tenant, spec.submit_s, lease.at_s, self._now_s, "finished", self._runs[job_id],
                    spec.n_devices, spec.deadline_s, lease.node_id,
                )
            )  # fmt: skip
        elif not well:
            self.failed += 1
