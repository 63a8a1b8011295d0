"""What our monitors saw while a trace was made: figures over time, kept beside its spans in the same file."""

from __future__ import annotations

import base64
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.contracts.device import DeviceKind
from inferbench_tasks.monitors.records import Recording

#: Of a stored table's metadata: its tracks, as JSON, packed.
KEY = b"inferbench.counters"
#: Of a stored track; of more every so many-th is kept. A dozen tracks take 0.3 MB then.
MOST_SAMPLES = 2_000


@dataclass(frozen=True)
class Track:
    """``times_ns``: Unix time, ascending; a value holds from its time to the next one."""

    name: str
    unit: str
    times_ns: list[int]
    values: list[float]

    @property
    def title(self) -> str:
        """The name with the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


@dataclass(frozen=True)
class ServerTrack(Track):
    """While one server was asked. ``until_ns``: the last value is known to have held until then, and no longer."""

    until_ns: int


class Seen(NamedTuple):
    """While one server was asked. ``problem``: why some of it is missing, None if nothing is."""

    tracks: list[ServerTrack]
    problem: str | None = None


class _Shown(NamedTuple):
    """A monitor's metric. ``of``: the moment of its sample, the time since the one before, or a sum of all time so far,
    whose growth per second is shown."""

    source: str
    metric: str
    name: str
    unit: str
    of: Literal["moment", "since", "sum"]


_SHOWN = (
    _Shown("server", "cpu_cores", "server's CPU", "cores", "since"),
    _Shown("server", "rss_bytes", "server's memory", "bytes", "moment"),
    _Shown("server", "threads", "server's threads", "", "moment"),
    _Shown("host", "cpu_ratio", "host's CPU", "share of all cores", "since"),
    _Shown("host", "steal_ratio", "taken by the hypervisor", "share of all cores", "since"),
    _Shown("host", "memory_available_bytes", "host's free memory", "bytes", "moment"),
    _Shown("host", "frequency_mhz", "cores' clock", "MHz", "moment"),
    _Shown("rapl", "package_j_total", "processors' power", "W", "sum"),
    _Shown("rapl", "dram_j_total", "memory's power", "W", "sum"),
    # Of the whole board, whoever uses it. Shares of time are NVML's own means, of the last 1/6 s to 1 s by product.
    _Shown("gpu", "utilisation_ratio", "GPU's use", "share of time", "since"),
    _Shown("gpu", "memory_utilisation_ratio", "GPU's memory in use", "share of time", "since"),
    _Shown("gpu", "memory_used_bytes", "GPU's memory", "bytes", "moment"),
    _Shown("gpu", "power_w", "GPU's power", "W", "moment"),
    _Shown("gpu", "energy_j_total", "GPU's power by its energy", "W", "sum"),
    _Shown("gpu", "sm_clock_mhz", "GPU's clock", "MHz", "moment"),
)
_OF_GPUS = "gpu"


def kinds_of(device: DeviceKind) -> tuple[str, ...]:
    """The monitors that are on while a model is traced on such a device: what is done on a GPU is in no other trace."""
    kinds = dict.fromkeys(shown.source for shown in _SHOWN)
    return tuple(kind for kind in kinds if kind != _OF_GPUS or device == "gpu")


def tracks_of(recording: Recording, begin_ns: int, end_ns: int, offset_ns: int) -> list[ServerTrack]:
    """What was seen between two moments of CLOCK_MONOTONIC, from what held as the first came; ``offset_ns``: from there
    to Unix time. What is of the time between two samples is told if the later one came after the beginning."""
    tracks = []
    for shown in _SHOWN:
        series = recording.get(shown.source, shown.metric)
        if series is None or (shown.of != "moment" and series.t_ns[-1] <= begin_ns):
            continue
        times_ns, values = _course(series.t_ns, np.asarray(series.values, dtype=np.float64), shown.of)
        first = max(0, int(np.searchsorted(times_ns, begin_ns, "right")) - 1)
        last = int(np.searchsorted(times_ns, end_ns, "right"))
        inside = slice(first, last)
        known = np.isfinite(values[inside])
        if known.any():
            times_ns = np.maximum(times_ns[inside][known], begin_ns) + offset_ns
            until_ns = max(begin_ns, min(end_ns, int(series.t_ns[-1]))) + offset_ns
            held = values[inside][known].tolist()
            tracks.append(ServerTrack(shown.name, shown.unit, times_ns.tolist(), held, until_ns))
    return tracks


def _course(
    t_ns: NDArray[np.int64], values: NDArray[np.float64], of: Literal["moment", "since", "sum"]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """From when on which value holds."""
    if of == "moment":
        return t_ns, values
    if of == "since":
        return t_ns[:-1], values[1:]
    return t_ns[:-1], np.diff(values) / (np.maximum(1, np.diff(t_ns)) / 1e9)


def joined(servers: Iterable[Seen]) -> list[Track]:
    """Of several servers, one after the other, as one track for each figure, with all samples."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for seen in servers:
        for track in seen.tracks:
            found[track.name, track.unit] += zip(track.times_ns, track.values, strict=True)
    whole = []
    for (name, unit), samples in found.items():
        samples.sort()
        whole.append(Track(name, unit, [at for at, _ in samples], [value for _, value in samples]))
    return whole


def summary(servers: Sequence[Seen]) -> dict[str, Any]:
    """``counters``, {counter, samples, least, mean, most} of each, for the result: of all samples, however many are
    stored; the mean over the time for which values are known to have held, as a sampler may slow down. And, of servers
    that were not watched as they should, ``unseen``: the first's problem."""
    values: dict[str, list[float]] = defaultdict(list)
    held_ns: dict[str, list[int]] = defaultdict(list)
    for track in (track for seen in servers for track in seen.tracks):
        values[track.title] += track.values
        held_ns[track.title] += np.diff([*track.times_ns, track.until_ns]).tolist()
    counters = [
        {
            "counter": title,
            "samples": len(each),
            "least": min(each),
            # Samples of one moment have no time to be weighted by.
            "mean": float(np.average(each, weights=held_ns[title] if any(held_ns[title]) else None)),
            "most": max(each),
        }
        for title, each in values.items()
    ]
    problems = [seen.problem for seen in servers if seen.problem]
    return {"counters": counters, **({"unseen": problems[0]} if problems else {})}


def in_rows(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{counter, unit, least, mean, most} of each figure that a result has of a trace, see ``summary``; none of a trace
    of before monitors watched. ``unit`` is "" of what is counted."""
    rows = []
    for row in trace.get("counters") or ():
        name, _, unit = row["counter"].partition(", ")
        rows.append({"counter": name, "unit": unit, **{of: row[of] for of in ("least", "mean", "most")}})
    return rows


def packed(tracks: Iterable[Track]) -> dict[bytes, bytes]:
    """As a stored table's metadata has them, thinned to ``MOST_SAMPLES``; nothing of none."""
    rows = [asdict(_thinned(track)) for track in tracks]
    return {KEY: base64.b64encode(zlib.compress(orjson.dumps(rows)))} if rows else {}


def _thinned(track: Track) -> Track:
    step = -(-len(track.values) // MOST_SAMPLES)
    return replace(track, times_ns=track.times_ns[::step], values=track.values[::step])


def tracks_in(table: pa.Table) -> list[Track]:
    """Those of a stored table; none of one that has none, as of trainings and of other tools."""
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    if (text := metadata.get(KEY)) is None:
        return []
    return [Track(**row) for row in orjson.loads(zlib.decompress(base64.b64decode(text)))]
