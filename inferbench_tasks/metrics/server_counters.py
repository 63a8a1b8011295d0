"""What the server under test counted itself of a load of streamed tokens, between the edges of the window."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.contracts.token_counters import GAUGES, MEANS, TOTALS, TokenCounters
from inferbench_tasks.monitors.records import Recording

_SOURCE = "server_metrics"


def server_counters(
    recording: Recording,
    names: TokenCounters | None,
    start_ns: int,
    end_ns: int,
    withheld: str | None = None,
) -> dict[str, Any]:
    """``MEANS`` in ms, ``TOTALS`` and ``GAUGES`` over the window; each None where the server does not count it.

    ``withheld``: why the client's own times don't stand, where they depend on how long the load lasted: the server's
    times and its queue do as well. ``reason``: why there is nothing, None where there is something.

    A server that counts a request when it ends has in the window those that ended there, whole; its means are of these,
    not of the requests that the client's figures are of.
    """
    nothing: dict[str, Any] = dict.fromkeys((*MEANS, *TOTALS, *GAUGES))
    if names is None:
        return {**nothing, "reason": "the server has no counters of tokens that are known"}
    if _SOURCE not in recording.sources():
        about = recording.about.get("unavailable", {}).get(_SOURCE)
        return {**nothing, "reason": f"the server's metrics were not read{f': {about}' if about else ''}"}

    def growth(name: str) -> float | None:
        series = recording.get(_SOURCE, name)
        if series is None or (np.diff(series.within(start_ns, end_ns)) < 0).any():  # it began anew
            return None
        return series.increase(start_ns, end_ns)

    figures = dict(nothing)
    for key, mean in names.means.items() if withheld is None else ():
        total, count = growth(mean.total), growth(mean.count)
        figures[key] = total / count * mean.per_unit_ms if total is not None and count else None
    for key, name in names.totals.items():
        figures[key] = growth(name)
    for key, name in names.gauges.items() if withheld is None else ():
        series = recording.get(_SOURCE, name)
        known = series is not None and series.covers(start_ns, end_ns)
        figures[key] = series.mean(start_ns, end_ns) if series is not None and known else None
    if withheld is None and all(value is None for value in figures.values()):
        withheld = (
            "the server's metrics have none of the known names over the whole window, or began anew in it"
        )
    return {**figures, "reason": withheld}
