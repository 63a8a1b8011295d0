"""What a server adds to a model's own time, as it was measured with a model of no work (``no_work.py``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.brick_jobs.under_load.added import Added, Pause
from inferbench_tasks.brick_jobs.under_load.distribution import Distribution
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored

COLLECTION = "server_overheads"
#: Another way of measuring is another version, and its times are others'.
#: 3: a rare slow request is kept as rare as it was. 4: what comes after a pause finds a server that sleeps.
VERSION = 4
#: Between these pauses are classes of their own, each with so many requests at least.
PAUSES_NS = tuple(0.5e6 * 2**at for at in range(8))
FEWEST_PAUSES = 50
#: Requests with more bytes than so many times the largest measured ones are not predicted.
MOST_BEYOND = 8.0


class _Values(BaseModel):
    model_config = ConfigDict(frozen=True)


class Conditions(_Values):
    """What an overhead depends on; it is used only where all of it agrees."""

    version: int = VERSION
    backend: str
    runtime: str
    inferbench: str
    protocol: str
    client: str
    processor: str
    cores: int


class Asleep(_Values):
    """Of requests that came when nothing had been under way for about ``idle_ns``; the others as in ``Point``."""

    idle_ns: float
    batch_ns: float
    rest_ns: tuple[float, ...]
    requests: int


class Point(_Values):
    """At one size of requests. ``front_ns``: one over the highest rate, with many users; ``batch_ns``: how long the
    instance is busy with nothing, without the runtime's call; ``rest_ns``: means of the parts (``Distribution``) of
    what else one user without a pause waits, of ``requests``; ``asleep``: after pauses, the shortest first."""

    wire_bytes: int
    front_ns: float
    batch_ns: float
    rest_ns: tuple[float, ...]
    requests: int
    asleep: tuple[Asleep, ...] = ()


class Overhead(_Values):
    """At two sizes or more, the smallest first. ``disturbed``: why it is not kept."""

    conditions: Conditions
    points: tuple[Point, ...] = Field(min_length=2)
    runs: tuple[str, ...]
    disturbed: str | None = None
    measured_at: datetime = Field(default_factory=utc_now)

    def at(self, wire_bytes: float) -> Added:
        """Of requests and answers of so many bytes together, on the line between two sizes, or beyond the largest.

        InputError for more than ``MOST_BEYOND`` times the largest.
        """
        sizes = [point.wire_bytes for point in self.points]
        if wire_bytes > MOST_BEYOND * sizes[-1]:
            raise InputError(
                f"its requests and answers have {wire_bytes:,.0f} bytes together; what the server adds was measured up "
                f"to {sizes[-1]:,}, and is not said beyond {MOST_BEYOND:g} times that",
                field="model",
            )
        above = next((at for at, size in enumerate(sizes) if size >= wire_bytes and at), len(sizes) - 1)
        low, high = self.points[above - 1], self.points[above]
        part = max(0.0, (wire_bytes - low.wire_bytes) / (high.wire_bytes - low.wire_bytes))

        def between(one: Any, other: Any) -> Any:
            return np.maximum(0.0, np.asarray(one) + part * (np.asarray(other) - np.asarray(one)))

        return Added(
            front_ns=float(between(low.front_ns, high.front_ns)),
            batch_ns=float(between(low.batch_ns, high.batch_ns)),
            rest_ns=Distribution(tuple(map(float, between(low.rest_ns, high.rest_ns)))),
            asleep=tuple(
                Pause(
                    idle_ns=one.idle_ns,
                    batch_ns=float(between(one.batch_ns, other.batch_ns)),
                    rest_ns=Distribution(tuple(map(float, between(one.rest_ns, other.rest_ns)))),
                )
                for one in low.asleep
                for other in high.asleep
                if one.idle_ns == other.idle_ns
            ),
        )


def stored(db: PerfDB, wanted: Mapping[str, str | int]) -> Overhead | None:
    """The newest whose conditions have these values."""
    where = {f"conditions.{name}": value for name, value in {"version": VERSION, **wanted}.items()}
    found = db.retrying(
        lambda: db.collection(COLLECTION).find_one(where, {"_id": 0}, sort=[("measured_at", -1)]),
        "reading what servers add",
    )
    return Overhead.model_validate(to_plain(found)) if found else None


def of_processor(
    db: PerfDB, fields: Mapping[str, str | int], processor: str, cores: int | None = None
) -> Overhead:
    """What is stored of a way (backend, protocol, client) on that processor, by this InferBench, whose server it is.

    ``cores``: that may be used there; None: as many as everybody had who measured it. InputError where nobody did on
    that many, or some on other numbers of them: server, sender and instances share them, and a processor's name does
    not tell which is meant.
    """
    wanted = {**fields, "processor": processor, "inferbench": version("inferbench")}
    where = {f"conditions.{name}": value for name, value in {"version": VERSION, **wanted}.items()}
    known: list[int] = sorted(
        db.retrying(
            lambda: db.collection(COLLECTION).distinct("conditions.cores", where), "reading what servers add"
        )
    )
    on = f"{processor} with InferBench {version('inferbench')}"
    what = f"what {fields['backend']} adds over {fields['protocol']} (client {fields['client']})"
    if cores is None and len(known) > 1:
        raise InputError(
            f"{what} was measured on {on} with {', '.join(map(str, known))} cores: say which is meant (--cores; over "
            "REST `cores`)",
            field="cores",
        )
    found = stored(db, wanted if cores is None else {**wanted, "cores": cores}) if known else None
    if found is None:
        of = f" and {cores} cores (known: {', '.join(map(str, known))})" if known else ""
        raise InputError(
            f"nobody measured {what} on {on}{of}: predict a submission there once, without --device (`inferbench "
            "bricks predict FILE.yaml`)",
            field="cores" if known else "device",
        )
    return found


def put(db: PerfDB, overhead: Overhead) -> None:
    """Keep it; ValueError for one that was disturbed."""
    if overhead.disturbed:
        raise ValueError(f"disturbed times are not kept: {overhead.disturbed}")
    values = to_stored(overhead.model_dump())
    if "measured_at" not in overhead.model_fields_set:  # a moment ago, by a clock that may be wrong
        values["measured_at"] = db.now()
    db.retrying(lambda: db.collection(COLLECTION).insert_one(dict(values)), "writing what servers add")


def point_of(
    wire_bytes: int,
    latency_ns: NDArray[np.int64],
    instance_ns: NDArray[np.int64],
    most_rps: float,
    call_ns: float = 0.0,
    asleep: Sequence[Asleep] = (),
) -> Point:
    """From one user's requests (whole time, and the instance's part of it) and the highest rate of many users.

    ``call_ns``: what the runtime takes for the same model, called as bricks are. ``asleep``: see ``asleep_of``.
    """
    # Times of bricks and of whole models are of calls, too: added to them it would be counted twice.
    front_ns, batch_ns = 1e9 / most_rps, max(0.0, float(np.median(instance_ns)) - call_ns)
    rest = np.maximum(0.0, latency_ns - instance_ns - front_ns)
    return Point(
        wire_bytes=wire_bytes, front_ns=front_ns, batch_ns=batch_ns, requests=len(latency_ns),
        rest_ns=Distribution.of(rest).means, asleep=tuple(asleep),
    )  # fmt: skip


def asleep_of(
    idle_ns: NDArray[np.float64],
    latency_ns: NDArray[np.int64],
    instance_ns: NDArray[np.int64],
    front_ns: float,
    call_ns: float,
) -> Iterator[Asleep]:
    """From requests that came after pauses of many lengths: a row for each doubling of the pause (``PAUSES_NS``) of
    which there are at least ``FEWEST_PAUSES``."""
    for low, high in pairwise(PAUSES_NS):
        these = (idle_ns >= low) & (idle_ns < high)
        count = int(these.sum())
        if count >= FEWEST_PAUSES:
            yield Asleep(
                idle_ns=float(np.sqrt(low * high)),
                batch_ns=max(0.0, float(np.median(instance_ns[these])) - call_ns),
                rest_ns=Distribution.of(
                    np.maximum(0.0, latency_ns[these] - instance_ns[these] - front_ns)
                ).means,
                requests=count,
            )


def bytes_of(tensors: Sequence[Any], rows: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Of inputs or outputs with so many rows. ``shapes``: of those with free sizes; a free size of an output is the
    largest of these. InputError for free sizes without any."""
    total, free = 0, max((size for shape in shapes.values() for size in shape), default=-1)
    for tensor in tensors:
        shape = shapes.get(tensor.name) or [free if size == -1 else size for size in tensor.shape]
        if -1 in shape:
            raise InputError(
                f"{tensor.name} has open sizes {list(tensor.shape)}: how large requests and answers are is not known",
                field="model",
            )
        kind = np.dtype(tensor.dtype)
        if kind.hasobject:
            raise InputError(f"{tensor.name} is text, of no known size", field="model")
        total += rows * int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    return total
