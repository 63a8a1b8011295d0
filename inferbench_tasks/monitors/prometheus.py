"""Prometheus text: the server's own metrics, and exporters beside it (node exporter, cAdvisor, DCGM)."""

from __future__ import annotations

import http.client
import re
import urllib.parse
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target
from inferbench_tasks.monitors.prometheus_text import TextReader
from inferbench_tasks.protocols.bounded_http import BoundedConnection

#: Of a whole page: a round that takes longer is left out.
_TIMEOUT_S = 1.0
_MAX_PAGE_BYTES = 4_000_000
_MAX_LINE_BYTES = 8192
#: What is read from exporters; everything they have would be thousands of series.
EXPORTED = re.compile(
    r"node_(load1|memory_MemAvailable_bytes|cpu_seconds_total|pressure_cpu_waiting_seconds_total"
    r"|cpu_scaling_frequency_hertz|network_(receive|transmit)_bytes_total|disk_(read|written)_bytes_total"
    r"|context_switches_total)"
    r"|container_(cpu_usage_seconds_total|cpu_cfs_throttled_seconds_total|memory_working_set_bytes|memory_rss"
    r"|threads|processes|network_(receive|transmit)_bytes_total)"
    r"|DCGM_FI_DEV_\w+|DCGM_FI_PROF_\w+"
)


class ServerMetricsMonitor(Monitor):
    """Each metric of the server under test, summed over its labels; once a second.

    Counters keep their names, which end in ``_total`` (or get it where Triton's ``nv_*`` leave it out).
    """

    source: ClassVar[str] = "server_metrics"
    interval_s: ClassVar[float] = 1.0
    metrics: ClassVar[dict[str, str]] = {"<name>": "the server's own metric of that name"}

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._reader = TextReader()

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """The reason why the address does not answer; None where it does."""
        if target.metrics_url is None:
            return "the backend tells no address of Prometheus metrics"
        try:
            fetch(target.metrics_url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"{target.metrics_url}: {error}"
        return None

    def sample(self) -> dict[str, float]:
        """All series; nothing in a round in which the server did not answer in time."""
        assert self.target.metrics_url is not None
        try:
            return self._reader.read(fetch(self.target.metrics_url))
        except (OSError, http.client.HTTPException, ValueError):
            return {}


class ExportersMonitor(Monitor):
    """Node exporter, cAdvisor, DCGM exporter: the figures of ``EXPORTED``, each named ``<exporter>.<name>``.

    Of cAdvisor's containers only the server's counts, or the machine as a whole where it has none.
    """

    source: ClassVar[str] = "exporters"
    interval_s: ClassVar[float] = 1.0
    metrics: ClassVar[dict[str, str]] = {"<exporter>.<name>": "the exporter's metric of that name"}

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._readers = {name: TextReader(EXPORTED, target.container_id) for name, _ in target.exporters}

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """A reason where no exporter is named; None where one is."""
        return None if target.exporters else "no exporter is named (INFERBENCH_EXPORTERS)"

    def sample(self) -> dict[str, float]:
        """Those that answer; one that does not hides no other."""
        figures: dict[str, float] = {}
        for name, url in self.target.exporters:
            try:
                series = self._readers[name].read(fetch(url))
            except (OSError, http.client.HTTPException, ValueError):
                continue
            figures |= {f"{name}.{metric}": value for metric, value in series.items()}
        return figures


def fetch(url: str) -> str:
    """The text behind an http address, within a second and 4 MB; ValueError where it is larger, or a line is."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is no http address")
    connection = BoundedConnection(parts.hostname, parts.port or 80, _TIMEOUT_S)
    try:
        status, _, page = connection.ask("GET", parts.path or "/metrics", max_bytes=_MAX_PAGE_BYTES)
    finally:
        connection.close()
    if status != 200:
        raise ValueError(f"status {status}")
    # The parser's work grows with the square of a line; to leave one line out would make a sum of series wrong.
    if max(map(len, page.split(b"\n"))) > _MAX_LINE_BYTES:
        raise ValueError(f"a line of more than {_MAX_LINE_BYTES:,} bytes")
    return page.decode("utf-8", "replace")
