"""The way between two hosts as it was measured: round trips, rates, and how far apart their clocks are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inferbench_tasks.contracts.handles import Handle

#: So many round trips a percentile needs: as those of latencies, MLPerf LoadGen's early stopping at 99% confidence.
LEAST = {"p50_ms": 11, "p90_ms": 64, "p99_ms": 662}
_QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}


class LinkEnd(Handle):
    """A host at one end. ``home``: the id of its data directory; ``address``: that which was connected to, or from;
    ``boot_id``: its running kernel's, "" where it did not tell.
    """

    host: str
    home: str
    address: str
    boot_id: str = ""

    def same_machine(self, other: LinkEnd) -> bool:
        """Whether both ends are one machine: one data directory, or one running kernel."""
        return self.home == other.home or (bool(self.boot_id) and self.boot_id == other.boot_id)


class RoundTrips(Handle):
    """Of a byte and its answer over one TCP connection, without the time that the other host took to answer.

    Both kernels and the waking of both processes are in it, as they are in a request's time. Percentiles are None where
    too few were measured.
    """

    count: int
    min_ms: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float

    @classmethod
    def of(cls, times_ns: Sequence[int]) -> RoundTrips:
        """Exact percentiles of what was measured (inverted CDF); there is at least one."""
        ordered = sorted(times_ns)
        count = len(ordered)
        found = {
            name: ordered[math.ceil(quantile * count) - 1] / 1e6 if count >= LEAST[name] else None
            for name, quantile in _QUANTILES.items()
        }
        return cls(count=count, min_ms=ordered[0] / 1e6, max_ms=ordered[-1] / 1e6, **found)


class LinkClock(Handle):
    """The far host's clock less the near one's: ``ahead_s`` of Unix time, wrong by at most ``error_s``.

    None, with the ``reason``, where nobody can tell.
    """

    ahead_s: float | None
    error_s: float | None
    reason: str = ""


class MeasuredLink(Handle):
    """What the near host measured of the way to the far one and back.

    ``measured_at``: ISO 8601, by the near host's clock. ``up_mbit_s``: of what goes to the far host, ``down_mbit_s`` of
    what comes from it: the payload of one TCP connection, counted by who receives it; None where it was not asked for.
    """

    near: LinkEnd
    far: LinkEnd
    measured_at: str
    round_trip: RoundTrips
    up_mbit_s: float | None
    down_mbit_s: float | None
    clock: LinkClock


class LinkAround(Handle):
    """The link before and after a load. ``after`` is None, with the ``reason``, where it could not be measured again.

    ``drift_ppm``: (least, most) that the far clock gained on the near one meanwhile, in millionths; None where that is
    not known.
    """

    before: MeasuredLink
    after: MeasuredLink | None
    drift_ppm: tuple[float, float] | None = None
    reason: str = ""
