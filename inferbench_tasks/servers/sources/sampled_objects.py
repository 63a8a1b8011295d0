"""In which shared objects layers run, by samples: of a runtime whose package has no symbols no more can be told."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from inferbench_tasks.monitors import perf_samples
from inferbench_tasks.monitors.perf_reader import MOST_BYTES, Reader, SampledRun
from inferbench_tasks.monitors.perf_samples import Ring, Sample
from inferbench_tasks.timing.epoch import epoch_offset

#: What the type of such a span is, in place of a kernel's.
SAMPLED = "sampled"
_MAPS = Path("/proc/self/maps")
_NOWHERE = "no object"

Layer = dict[str, Any]


class Mapped(NamedTuple):
    """Addresses of a shared object's code."""

    begin: int
    end: int
    name: str


class SampledObjects:
    """Shares over all traced runs of the server: a single run of a layer has few samples, or none.

    Whoever started this process opened the samples for it, else they are opened here, of threads that begin later and
    this one. RuntimeError where the kernel takes none.
    """

    def __init__(self) -> None:
        descriptors = perf_samples.passed_on(os.environ)
        try:
            if not descriptors:
                descriptors = list(perf_samples.opened(os.sched_getaffinity(0)).values())
            rings = [Ring(descriptor) for descriptor in descriptors]
        except OSError as error:
            why = perf_samples.unavailable() or f"{error} (see kernel.perf_event_mlock_kb)"
            raise RuntimeError(f"no samples can be taken: {why}") from error
        self._reader = Reader(rings)
        #: Samples of the newest are kept: before the traced runs are those that warm the server up.
        self._runs: list[tuple[int, SampledRun]] = []
        self._bytes = 0
        #: {runs, left_out, dropped, lost}: how many were traced; how many of these lost samples, and of how many others
        #: we dropped them for want of room, so that nothing of either is in any share; how many samples were lost, as
        #: far as the kernel told. None until it is known.
        self.sampling: dict[str, int] | None = None

    def start(self) -> None:
        """A run begins."""
        self._reader.begin()

    def stop(self, start_ns: int) -> None:
        """Keep what was sampled of a run that began then, CLOCK_MONOTONIC."""
        run = self._reader.end()
        self._runs.append((start_ns, run))
        self._bytes += run.size_bytes
        for _, old in self._runs:
            if self._bytes <= MOST_BYTES:
                break
            if old.whole:
                self._bytes -= old.size_bytes
                old.spoil(dropped=True)

    def raised(self) -> None:
        """The run that was stopped last is none of those that are traced."""
        _, run = self._runs.pop()
        self._bytes -= run.size_bytes

    def into(self, layers: Sequence[Layer], since_ns: int, until_ns: int) -> None:
        """Put ``inside`` into the layers (Unix time) of the runs that began between these two; no more come."""
        self._reader.close()
        runs = [run for start_ns, run in self._runs if since_ns <= start_ns <= until_ns]
        offset_ns = epoch_offset()["offset_ns"]
        samples = [
            Sample(sample.time_ns + offset_ns, sample.address) for run in runs for sample in run.samples()
        ]
        share(layers, samples, mapped(_MAPS.read_text()))
        dropped = sum(run.dropped for run in runs)
        self.sampling = {
            "runs": len(runs),
            "left_out": sum(not run.whole for run in runs) - dropped,
            "dropped": dropped,
            "lost": sum(run.lost for run in runs),
        }


def mapped(text: str) -> list[Mapped]:
    """The code of a process by ``/proc/PID/maps``, by address."""
    found = []
    for line in text.splitlines():
        addresses, permissions, *rest = line.split(maxsplit=5)
        begin, _, end = addresses.partition("-")
        if "x" in permissions:
            path = rest[3] if len(rest) > 3 else _NOWHERE
            found.append(Mapped(int(begin, 16), int(end, 16), path.rpartition("/")[2]))
    return sorted(found)


def share(layers: Sequence[Layer], samples: Iterable[Sample], objects: Sequence[Mapped]) -> None:
    """Give each layer ``inside``: a span for each object that it was met in, in any of its runs, as long as the
    object's share of the layer's samples, the largest first, one behind the other. When in the layer nobody knows.

    A sample is of the innermost layer that it lies in; a layer without any has nothing inside.
    """
    met: dict[str, Counter[str]] = defaultdict(Counter)
    begins = [each.begin for each in objects]
    for layer, sample in _placed(layers, samples):
        at = bisect_right(begins, sample.address) - 1
        known = at >= 0 and sample.address < objects[at].end
        met[layer["name"]][objects[at].name if known else _NOWHERE] += 1
    for layer in layers:
        layer["inside"] = list(_inside(layer, met[layer["name"]]))


def _inside(layer: Layer, met: Mapping[str, int]) -> Iterable[Layer]:
    whole, start_ns = sum(met.values()), layer["start_ns"]
    length_ns, so_far = layer["end_ns"] - start_ns, 0
    for name, count in sorted(met.items(), key=lambda each: (-each[1], each[0])):
        begin_ns = start_ns + length_ns * so_far // whole
        so_far += count
        yield {
            "name": name,
            "type": SAMPLED,
            "start_ns": begin_ns,
            "end_ns": start_ns + length_ns * so_far // whole,
            "attributes": {"library": name, "samples": count, "samples_of_layer": whole},
            "inside": [],
        }


def _placed(layers: Sequence[Layer], samples: Iterable[Sample]) -> Iterable[tuple[Layer, Sample]]:
    """Each sample with the innermost layer around it; those in none are left out."""
    waiting = sorted(layers, key=lambda layer: (layer["start_ns"], -layer["end_ns"]), reverse=True)
    around: list[Layer] = []
    for sample in sorted(samples):
        while waiting and waiting[-1]["start_ns"] <= sample.time_ns:
            around.append(waiting.pop())
        while around and around[-1]["end_ns"] <= sample.time_ns:
            around.pop()
        if around:
            yield around[-1], sample
