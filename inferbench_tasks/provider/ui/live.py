"""A run while it runs, from what its stages tell of their progress: nothing is asked of the device or its load.

The events lie in the invocation's folder, where the web server shares it with the worker; a worker of another host
tells them to PerfDB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks import settings
from inferbench_tasks.loadgen.live import Told, told
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.perfdb import progress
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB

#: The end of the events that is read: some minutes of a load.
TAIL_BYTES = 256 * 1024
#: A curve has at most so many points, the newest.
MOST_POINTS = 180
WIDTH, HEIGHT = 600, 64
#: Words of a progress are cut after so many characters, and no moment, amount or rate is as large as this.
MOST_CHARACTERS, MOST = 300, 1e12


@dataclass(frozen=True)
class Curve:
    """A figure over time as an SVG polyline of ``WIDTH`` x ``HEIGHT``, from 0 to its greatest value."""

    title: str
    unit: str
    newest: float
    greatest: float
    points: str
    seconds: float


@dataclass(frozen=True)
class Live:
    """The running stage's progress: ``done`` of ``total`` (seconds of a load; None where that is not known), in words
    ``text``. ``left_s``: of a stage that counts seconds.
    """

    stage: str
    text: str
    done: float
    total: float | None
    left_s: float | None
    curves: tuple[Curve, ...] = ()
    #: What was told last of a load; None of other stages.
    said: Told | None = None

    @property
    def most_late_ms(self) -> float:
        """How late all but 1% of the requests may leave for the certificate, by the median that was told last."""
        return Thresholds().most_late_p99_ms((self.said and self.said.p50_ms) or 0.0)

    @property
    def percent(self) -> float | None:
        """How much of it is done."""
        return min(100.0, 100 * self.done / self.total) if self.total else None


def live_of(db: PerfDB, record: RunDocument) -> Live | None:
    """None of a run that does not run, or that has told nothing yet."""
    index = record.run_id.rpartition(".")[2]
    if record.status != "running" or not index.isdecimal():
        return None
    path = settings.data_dir() / "invocations" / record.invocation_id / "events.jsonl"
    events = [event for event in read(path) if event.get("job") == int(index)]
    # What the host of the web server did itself (generate, convert) is followed by what another host tells.
    return of_events(in_order([*events, *progress.told(db, record.run_id)]))


def in_order(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the moments that they tell, whoever told them; what tells none is left out."""
    return sorted((event for event in events if is_moment(event.get("t"))), key=lambda event: event["t"])


def is_moment(value: object) -> bool:
    """Whether it is seconds since 1970, of this millennium."""
    return isinstance(value, int | float) and 0 <= value < MOST


def read(path: Path) -> list[dict[str, Any]]:
    """The events at the end of the file; [] without one. A line that is being written is left out."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    return list(parsed(lines))


def parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events of these lines; what is cut off or is none is left out."""
    for line in lines:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:  # cut off at one end or the other
            continue
        if isinstance(event, dict):
            yield event


def of_events(events: Iterable[dict[str, Any]]) -> Live | None:
    """Of one job's events in the order of time; None before the first progress of a stage that goes on."""
    course = Course()
    for event in events:
        course.add(event)
    return course.live()


class Course:
    """The running stage of one job, event by event.

    What runs a stranger's model tells its progress too: what is no progress is left out, and words are cut.
    """

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._newest: dict[str, Any] | None = None
        #: One point a second, the last that was told in it; at most ``MOST_POINTS``.
        self._seconds: dict[int, Told] = {}

    def add(self, event: dict[str, Any]) -> None:
        """The next event."""
        stage = str(event.get("stage"))
        if event.get("event") == "start":
            # What was told before is of a stage that is over, or of an attempt that nobody ended.
            self._ended.discard(stage)
            self._newest = None
            self._seconds.clear()
        elif event.get("event") == "end":
            self._ended.add(stage)
        elif _is_progress(event):
            if self._newest is None or self._newest["stage"] != stage:
                self._seconds.clear()
            self._newest = event
            if said := told(event["text"][:MOST_CHARACTERS]):
                self._seconds[int(event["t"])] = said
                if len(self._seconds) > MOST_POINTS:
                    del self._seconds[next(iter(self._seconds))]

    def live(self) -> Live | None:
        """How it stands; None where no stage that goes on has told anything."""
        newest = self._newest
        if newest is None or newest["stage"] in self._ended:
            return None
        done, total = newest["done"], newest["total"]
        curves = _curves(list(self._seconds.items()))
        # What counts seconds says of what: only a load and its like have words with a rate.
        left_s = max(0.0, total - done - (time.time() - newest["t"])) if total and curves else None
        text = newest["text"][:MOST_CHARACTERS]
        return Live(newest["stage"], text, done, total, left_s, curves, told(text))


def _is_progress(event: dict[str, Any]) -> bool:
    numbers = [
        event.get("t"),
        event.get("done"),
        *([event["total"]] if event.get("total") is not None else []),
    ]
    return (
        event.get("event") == "progress"
        and "total" in event
        and isinstance(event.get("stage"), str)
        and isinstance(event.get("text"), str)
        and all(isinstance(of, int | float) and 0 <= of < MOST for of in numbers)
    )


def _curves(kept: Sequence[tuple[int, Told]]) -> tuple[Curve, ...]:
    of = {
        ("requests per second", "1/s"): [(at, said.rate_rps) for at, said in kept],
        ("p50 of the last seconds", "ms"): [
            (at, said.p50_ms) for at, said in kept if said.p50_ms is not None
        ],
        ("p99 of the last seconds", "ms"): [
            (at, said.p99_ms) for at, said in kept if said.p99_ms is not None
        ],
    }
    return tuple(_curve(title, unit, values) for (title, unit), values in of.items() if values)


def _curve(title: str, unit: str, values: Sequence[tuple[int, float]]) -> Curve:
    first, last = values[0][0], values[-1][0]
    greatest = max(value for _, value in values)
    points = " ".join(
        f"{(at - first) / max(1, last - first) * WIDTH:.1f},{HEIGHT - value / (greatest or 1) * HEIGHT:.1f}"
        for at, value in values
    )
    return Curve(title, unit, values[-1][1], greatest, points, last - first)
