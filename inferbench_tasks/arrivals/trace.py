"""``trace``: arrivals as they were recorded, from a CSV or Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from inferbench_tasks.arrivals.base import MAX_ARRIVALS, ArrivalProcess
from inferbench_tasks.arrivals.poisson import Poisson
from inferbench_tasks.contracts.spec import RelativePath
from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Trace(ArrivalProcess):
    """The recorded moments, the first one at 0, times ``time_scale``; replayed as they are, without chance.

    Has to be bound to the submission's folder before it can be drawn from.
    """

    kind: Literal["trace"]
    path: RelativePath
    """A .csv (also .csv.gz), .parquet or .jsonl file, relative to the submission."""
    column: Annotated[str, Field(min_length=1, max_length=200)] = "TIMESTAMP"
    """The column with the moments: numbers in ``unit``, or dates with times. Must ascend. Of a .jsonl file without it
    Mooncake's ``timestamp``, in ms."""
    unit: Literal["s", "ms", "us", "ns"] = "s"
    """Of numbers in the column."""
    time_scale: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """2 replays at half the speed, 0.5 at twice the speed."""
    repeat: bool = False
    """Begin again, one mean gap after the last request, until the load ends."""
    stationary: ClassVar[bool] = False
    _moments: _Moments | None = PrivateAttr(default=None)

    def bind(self, base_dir: Path) -> Trace:
        from inferbench_tasks.arrivals.trace_file import read_times_ns

        times_ns = read_times_ns(base_dir, self.path, self.column, self.unit)
        if self.repeat and times_ns[-1] == 0:
            raise InputError(
                f"{self.path}: all requests are at one instant; that can't be repeated (repeat: true)"
            )
        bound = self.model_copy()
        bound._moments = _Moments(times_ns)
        return bound

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        times = self._bound().times_ns * self.time_scale
        end_ns = duration_s * 1e9
        if self.repeat and times[-1] < end_ns:
            lap_ns = times[-1] * len(times) / (len(times) - 1)
            laps = int(end_ns // lap_ns) + 1
            if laps * len(times) > 2 * MAX_ARRIVALS:
                raise InputError(
                    f"{self.path}: repeated for {duration_s:g} s it has more than {MAX_ARRIVALS:,} requests"
                )
            times = (np.arange(laps)[:, None] * lap_ns + times).ravel()
        return times[times < end_ns].astype(np.int64)

    def lasts_s(self, duration_s: float) -> float:
        """To one mean gap after the last request, as a lap of a repeated one; nothing else is a rate of its own."""
        times_ns = self._bound().times_ns * self.time_scale
        if self.repeat or times_ns[-1] == 0:
            return duration_s
        return min(duration_s, float(times_ns[-1] * len(times_ns) / (len(times_ns) - 1)) / 1e9)

    def mean_rate_rps(self, duration_s: float) -> float | None:
        """As the file has it; None while it is not bound."""
        if self._moments is None:
            return None
        import numpy as np

        return len(self.offsets_ns(duration_s, np.random.default_rng(0))) / duration_s

    def warmup(self) -> ArrivalProcess:
        """Independent arrivals at the trace's own mean rate."""
        times = self._bound().times_ns
        span_s = max(float(times[-1]) * self.time_scale / 1e9, 1.0)
        return Poisson(kind="poisson", rate_rps=len(times) / span_s)

    def _bound(self) -> _Moments:
        if self._moments is None:
            raise RuntimeError(f"the trace {self.path} must be bound to its folder first: bind(base_dir)")
        return self._moments


class _Moments:
    """The file's content; compared by identity, so that two specs can still be compared."""

    def __init__(self, times_ns: NDArray[np.int64]) -> None:
        self.times_ns = times_ns
