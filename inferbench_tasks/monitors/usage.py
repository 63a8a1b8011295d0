"""What a server and its machine used in the measured window, from a recording."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.monitors.records import Recording, Series

#: At most so many points per series are kept in a result; the whole lies in the recording.
MAX_POINTS = 600
#: The course over time that is kept in a result: (source, metric).
COURSES = (
    ("server", "cpu_cores"), ("server", "rss_bytes"), ("server", "threads"), ("balancer", "cpu_cores"),
    ("host", "cpu_ratio"),
    ("host", "steal_ratio"), ("gpu", "utilisation_ratio"), ("gpu", "memory_used_bytes"), ("gpu", "power_w"),
    ("gpu", "sm_clock_mhz"), ("gpu", "temperature_c"),
)  # fmt: skip


def usage(recording: Recording, start_ns: int, end_ns: int) -> dict[str, Any]:
    """Per source its metrics in [start, end]: {mean, max, last} of gauges, the increase of counters; None of what was
    seen in a part of it only.

    ``server.cpu_cores.mean``, and the balancer's, come from the CPU-time counter: exact, and no mean of samples.
    ``timeseries``: see ``COURSES``. ``monitor``: what watching cost, and what could not be watched and why.
    """
    document: dict[str, Any] = {}
    for (source, metric), series in sorted(recording.series.items()):
        if source == "monitor":
            continue
        document.setdefault(source, {})[metric] = _figure(metric, series, start_ns, end_ns)
    seconds = (end_ns - start_ns) / 1e9
    for source, counter, gauge, scale in (
        ("server", "cpu_s_total", "cpu_cores", 1.0),
        ("balancer", "cpu_s_total", "cpu_cores", 1.0),
        ("host", "cpu_busy_s_total", "cpu_cores", 1.0),
        ("host", "cpu_steal_s_total", "steal_cores", 1.0),
    ):
        figures = document.get(source, {})
        if (total := figures.get(counter)) is not None:
            figures.setdefault(gauge, {})["mean"] = total / seconds * scale
        elif counter in figures and gauge in figures:
            # Seen in a part of the window only: the mean of those samples is no mean over it.
            figures[gauge] |= {"mean": None, "max": None}
    document["timeseries"] = {
        f"{source}.{metric}": _course(series, start_ns)
        for source, metric in COURSES
        for series in [recording.get(source, metric)]
        if series is not None
    }
    document["monitor"] = {key: recording.about.get(key) for key in ("cpu_cores", "unavailable", "problem")}
    return document


def _figure(metric: str, series: Series, start_ns: int, end_ns: int) -> Any:
    if metric.endswith("_total"):
        return series.increase(start_ns, end_ns)
    values = series.within(start_ns, end_ns)
    if not len(values) or not series.covers(start_ns, end_ns):
        # Of a part of the window neither the mean nor the most is that of the window.
        return {"mean": None, "max": None, "last": None, "samples": len(values)}
    return {
        "mean": series.mean(start_ns, end_ns),
        "max": float(values.max()),
        "last": float(values[-1]),
        "samples": len(values),
    }


def _course(series: Series, start_ns: int) -> dict[str, list[float]]:
    """Seconds from the start of the window, and values; means of neighbours where there are too many."""
    stride = -(-len(series.t_ns) // MAX_POINTS)
    edges = np.arange(0, len(series.t_ns), stride)
    counts = np.diff(np.append(edges, len(series.t_ns)))
    return {
        "t_s": (np.add.reduceat((series.t_ns - start_ns) / 1e9, edges) / counts).round(3).tolist(),
        "value": (np.add.reduceat(series.values, edges) / counts).tolist(),
    }
