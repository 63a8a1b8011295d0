"""One load that is cut into parts, each sent from a core of its own to a server of its own, all from one instant on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import column, is_ok
from inferbench_tasks.loadgen.sender_hosts import part_of
from inferbench_tasks.monitors.schedstat import of_processes
from inferbench_tasks.monitors.steal import StolenTime
from inferbench_tasks.submission.schema import LoadSpec

#: Of each sender; the request's tensor is about 1 KB.
USERS, SIZE = 32, 256
WARMUP_S = 0.5
#: For all senders to get ready; from the last one's readiness to the start.
_LIMIT_S, _START_AFTER_NS, _NS = 120.0, 100_000_000, 1_000_000_000


@dataclass(frozen=True)
class Sent:
    """What so many senders did: each one's requests/s; ``kept_off``: for which share of the time, on average, they and
    their servers were ready to run and had no core, since others had it or the hypervisor took it; None where the
    kernel does not tell.
    """

    rps: tuple[float, ...]
    kept_off: float | None

    @property
    def sum_rps(self) -> float:
        return sum(self.rps)


class _Together:
    """One start for all parts, chosen once the senders of the last one are ready; from then on it looks how long who
    is bound to these cores waits for them.
    """

    def __init__(self, parts: int, cores: Sequence[int]) -> None:
        self._barrier = threading.Barrier(parts, self._begin, _LIMIT_S)
        self._cores = set(cores)
        self._waited_ns: dict[int, list[int]] = {}
        self._stolen = StolenTime(cores)
        self._stolen_ns: int | None = None
        self._looked: list[float] = []
        self._at_ns = 0

    def _begin(self) -> None:
        ours = [
            each.pid for each in psutil.Process().children() if self._cores.issuperset(each.cpu_affinity())
        ]
        self._waited_ns = {pid: [] for pid in ours}
        self._stolen = StolenTime(self._cores)
        self.look()
        self._at_ns = time.monotonic_ns() + _START_AFTER_NS

    def start_ns(self) -> int:
        """Once all are ready."""
        self._barrier.wait()
        return self._at_ns

    def never(self) -> None:
        """Whoever waits is told that one of them failed."""
        self._barrier.abort()

    def look(self) -> None:
        """What counts is what lies between the first look and the last one."""
        for pid, waited_ns in self._waited_ns.items():
            if (times := of_processes([pid])) is not None:  # else it has ended
                waited_ns.append(times[1])
        self._stolen_ns = self._stolen.least_ns()
        self._looked.append(time.monotonic())

    @property
    def kept_off(self) -> float | None:
        """As of ``Sent``."""
        waits = [waited_ns for waited_ns in self._waited_ns.values() if waited_ns]
        if not waits or self._stolen_ns is None:
            return None
        took_s = self._looked[-1] - self._looked[0]
        waited_ns = sum(each[-1] - each[0] for each in waits) / len(waits)
        return (waited_ns + self._stolen_ns) / _NS / took_s


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What this thread starts within runs there; the thread itself goes back."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def send(folder: Path, servers: Sequence[Endpoint], pairs: Sequence[tuple[int, int]], seconds: float) -> Sent:
    """One load by as many senders as there are servers, each on the first core of its pair."""
    senders = len(servers)
    np.savez(folder / "inputs.npz", input=np.zeros((4, SIZE), np.float32))
    spec = LoadSpec.model_validate(
        {
            "arrivals": {"kind": "closed_loop", "concurrency": USERS * senders}, "duration_s": seconds,
            "warmup_s": WARMUP_S, "shards": senders,
        }
    )  # fmt: skip
    whole = prepare(
        spec,
        folder=folder / "whole",
        endpoint=servers[0],
        inputs_path=str(folder / "inputs.npz"),
        base_dir=folder,
    )
    together = _Together(senders, sorted({core for pair in pairs for core in pair}))

    def part(number: int) -> tuple[int, float]:
        """When it began, and its requests/s."""
        mine = {"endpoint": servers[number], "folder": str(folder / f"part-{number}")}
        plan: LoadPlan = part_of(whole, number, senders).model_copy(update=mine)
        pinned = ExitStack()

        def starts() -> int:
            pinned.close()  # the sender is there, and stays on its core
            return together.start_ns()

        def progress(elapsed_s: float, total_s: float, snapshot: Snapshot | None) -> None:
            if number == 0 and elapsed_s <= total_s:  # then all senders are still there
                together.look()

        try:
            with pinned:
                pinned.enter_context(on_core(pairs[number][0]))
                outcome = apply_load(
                    plan,
                    folder / f"{number}.parquet",
                    progress=progress,
                    applying=lambda controller: controller.apply(starts),
                )
        except BaseException:
            together.never()
            raise
        table, start_ns = outcome.table(), outcome.applied.start_ns
        if outcome.applied.problem or not is_ok(table).all():
            raise SystemExit(f"sender {number}: {outcome.applied.problem or outcome.applied.explanations}")
        done_ns = column(table, "done_ns") - start_ns
        inside = (done_ns > plan.measure_start_ns) & (done_ns <= plan.measure_end_ns)
        return start_ns, float(inside.sum()) * _NS / (plan.measure_end_ns - plan.measure_start_ns)

    with ThreadPoolExecutor(senders) as threads:
        futures = [threads.submit(part, number) for number in range(senders)]
    errors = [error for error in (future.exception() for future in futures) if error is not None]
    # Those that only waited for the one that failed come last.
    for error in sorted(errors, key=lambda each: isinstance(each, threading.BrokenBarrierError)):
        raise error
    began_ns, rps = zip(*(future.result() for future in futures), strict=True)
    assert len(set(began_ns)) == 1
    return Sent(rps, together.kept_off)
