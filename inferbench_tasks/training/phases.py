"""The phases of a step and the clocks that time them; nothing here knows torch.

Each phase has three times: wall clock, CPU time of the process (all its threads), and the time in which its threads
were ready to run and waited for a core. Of the thread that runs the step the latter two stand apart (``own``): its CPU
time, its waits for a core and what blocks it add up to the wall clock, as those of many threads do not. The clocks are
read so that their own cost lies between phases: it is part of what a step's time has beyond the sum of its phases, and
told by itself (``CLOCKS``). The waits, the dearest reading, are read once between two phases: what waited there counts
as the later one's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from inferbench_tasks.monitors.schedstat import ThreadWaits

#: Phases in the order in which a step goes through them.
TRAIN: Final = ("loading", "to_device", "forward", "loss", "backward", "optimiser")
INFERENCE: Final = ("loading", "to_device", "forward")
#: ``processing`` makes a batch of the sample; ``gather`` brings the answers of all ranks together, where several are.
SMOOTH: Final = ("loading", "to_device", "processing", "forward")
TIMES: Final = ("start_ns", "wall_ns", "cpu_ns", "wait_ns", "own_cpu_ns", "own_wait_ns")
#: What reading the clocks took in a step, all of it between the phases.
CLOCKS: Final = "clocks_ns"
#: What a step's row begins with. ``part``: 0 of the warm-up, 1 measured, 2 the last, smaller batch.
HEAD: Final = ("step", "part", "samples", "step_start_ns", "step_ns")
WARMUP, MEASURED, LAST = 0, 1, 2
PARTS: Final = {WARMUP: "warmup", MEASURED: "measured", LAST: "last"}


def phases_of(benchmark: str, strategy: str = "single") -> tuple[str, ...]:
    """The phases of a step of a benchmark."""
    if benchmark == "smooth_inference":
        return (*SMOOTH, "gather") if strategy == "ddp" else SMOOTH
    return TRAIN if benchmark == "train" else INFERENCE


def columns_of(benchmark: str, strategy: str = "single") -> list[str]:
    """The columns of a row: the step's own, then those of each phase."""
    return [*HEAD, *(f"{phase}_{of}" for phase in phases_of(benchmark, strategy) for of in TIMES)]


def part_of(step: int, samples: int, warmup_steps: int, batch_size: int) -> int:
    """Which part of its epoch a step is of; the last, smaller batch is that also within the warm-up."""
    if samples < batch_size:
        return LAST
    return WARMUP if step < warmup_steps else MEASURED


class NoInstrument:
    """Of the bare epoch: a phase is no more than its work."""

    columns: Sequence[str] = ()
    rows: list[list[int | None]] = []

    def epoch_begins(self) -> None:
        """Nothing."""

    def step_begins(self) -> None:
        """Nothing."""

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """The work alone."""
        return work(*arguments)

    def step_ends(self, step: int, samples: int, part: int, loader_ns: Sequence[int | None] = ()) -> None:
        """Nothing."""

    def epoch_ends(self) -> None:
        """Nothing."""


class Synchronised(NoInstrument):
    """Stamps at both ends of each phase, the device synchronised before each of them."""

    def __init__(
        self,
        synchronise: Callable[[], None],
        waits: ThreadWaits,
        columns: Sequence[str] = (),
        extra: Callable[[], Sequence[int | None]] | None = None,
    ) -> None:
        """``columns``: those of ``columns_of``, ``CLOCKS``, and what ``extra`` and ``step_ends`` add. ``extra``: values
        that are read once the step is over.
        """
        self.rows, self.columns = [], columns
        self._extra = extra
        self._synchronise = synchronise
        self._waits = waits
        self._row: list[int | None] = []
        self._start_ns = self._clocks_ns = 0
        self._waited: tuple[int | None, int | None] = (None, None)

    def step_begins(self) -> None:
        """A new row."""
        self._row = []
        self._start_ns = time.monotonic_ns()
        self._waited = self._waits_ns()
        self._clocks_ns = time.monotonic_ns() - self._start_ns

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """The work of the next phase, with its times. The wall clock is read last before it and first after it, the
        waits, whose reading takes CPU time itself, beyond both.
        """
        self._synchronise()
        before_ns = time.monotonic_ns()
        cpu_ns, own_cpu_ns = time.process_time_ns(), time.thread_time_ns()
        start_ns = time.monotonic_ns()
        result = work(*arguments)
        self._synchronise()
        end_ns = time.monotonic_ns()
        own_cpu_ns, cpu_ns = time.thread_time_ns() - own_cpu_ns, time.process_time_ns() - cpu_ns
        (wait_ns, own_wait_ns), self._waited = self._waited, self._waits_ns()
        self._row += (start_ns, end_ns - start_ns, cpu_ns, _more(wait_ns, self._waited[0]))
        self._row += (own_cpu_ns, _more(own_wait_ns, self._waited[1]))
        self._clocks_ns += start_ns - before_ns + time.monotonic_ns() - end_ns
        return result

    def _waits_ns(self) -> tuple[int | None, int | None]:
        """Of all threads, and of this one."""
        return self._waits.read_ns(), self._waits.own_ns()

    def step_ends(self, step: int, samples: int, part: int, loader_ns: Sequence[int | None] = ()) -> None:
        """The row is whole; then threads that began meanwhile are looked for, between the steps."""
        head = [step, part, samples, self._start_ns, time.monotonic_ns() - self._start_ns]
        extra = self._extra() if self._extra else ()
        self.rows.append([*head, *self._row, self._clocks_ns, *extra, *loader_ns])
        self._waits.find()


def _more(before_ns: int | None, after_ns: int | None) -> int | None:
    return None if before_ns is None or after_ns is None else after_ns - before_ns
