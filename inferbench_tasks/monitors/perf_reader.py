"""Samples of single runs: the kernel's buffers are read while a run goes on, and a run that lost some is known."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from inferbench_tasks.monitors.perf_samples import Ring, Sample, samples_of

#: How often it is looked how full the rings are, and from which share on one is read. At a sample each 0.1 ms a ring
#: holds 0.8 s, so a run of up to 0.2 s costs the looking alone.
EVERY_S = 0.1
_READ_FROM = 0.25
#: Of one run: a million samples, 100 s of time on cores.
MOST_BYTES = 32 << 20


@dataclass
class SampledRun:
    """``data``: readings of its rings. ``whole``: no sample of it is missing, else ``data`` is empty. ``dropped``: none
    was lost, but they were more than are kept; ``lost``: how many were, as far as the kernel told.
    """

    data: list[bytes] = field(default_factory=list)
    whole: bool = True
    dropped: bool = False
    lost: int = 0
    size_bytes: int = 0

    def samples(self) -> list[Sample]:
        """In the order of their rings."""
        return [sample for data in self.data for sample in samples_of(data)[0]]

    def spoil(self, *, dropped: bool = False) -> None:
        """Some are missing: what is there says nothing of the whole."""
        self.whole, self.dropped = False, dropped
        self.data.clear()
        self.size_bytes = 0


class Reader:
    """Reads the rings of a process, of one run at a time: a sample does not say whose it is.

    A thread of its own looks after them, and copies what stands there while a run goes on; nothing is decoded then.
    What comes between runs is read and dropped when the next one begins.
    """

    def __init__(self, rings: Sequence[Ring], every_s: float = EVERY_S, most_bytes: int = MOST_BYTES) -> None:
        self._rings = list(rings)
        self._most_bytes = most_bytes
        self._run: SampledRun | None = None
        #: Of each ring the run that the kernel still owes a number of lost ones.
        self._owed: list[SampledRun | None] = [None] * len(self._rings)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(every_s,), name="samples", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """A run begins; one that began and did not end is none."""
        with self._lock:
            self._run = None
            self._read(0.0)
            self._run = SampledRun()

    def end(self) -> SampledRun:
        """The run that began last is over."""
        with self._lock:
            self._read(0.0)
            run, self._run = self._run, None
        assert run is not None, "no run began"
        return run

    def close(self) -> None:
        """No run comes any more: what the kernel still tells of lost samples is added to theirs."""
        self._over.set()
        self._thread.join()
        self._read(0.0)
        for ring in self._rings:
            ring.close()
        self._rings = []

    def _look(self, every_s: float) -> None:
        while not self._over.wait(every_s):
            with self._lock:
                if self._run is not None:
                    self._read(_READ_FROM)

    def _read(self, from_ratio: float) -> None:
        """Those rings that are filled so far."""
        for at, ring in enumerate(self._rings):
            if ring.filled_ratio < from_ratio:
                continue
            data, whole = ring.read()
            if data and (owed := self._owed[at]) is not None:
                owed.lost += samples_of(data)[1]
                self._owed[at] = None
            if (run := self._run) is None:
                continue
            if not whole:
                run.spoil()
                self._owed[at] = run
            elif run.whole:
                run.data.append(data)
                run.size_bytes += len(data)
                if run.size_bytes > self._most_bytes:
                    run.spoil(dropped=True)
