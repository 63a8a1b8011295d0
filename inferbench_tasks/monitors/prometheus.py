"""Prometheus text: the server's own metrics, and exporters beside it (node exporter, cAdvisor, DCGM)."""

from __future__ import annotations

import http.client
import re
import urllib.parse
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target

_TIMEOUT_S = 0.5
#: More series than this are cut: an exporter of a large machine must not fill the recording.
MAX_SERIES = 200
_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+([^\s]+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
#: Labels that tell series of one name apart in a way that matters; others are summed over.
_KEPT_LABELS = ("stage", "gpu", "mode", "le", "quantile", "reason")
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

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """Whether the address answers."""
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
            return parse(fetch(self.target.metrics_url))
        except (OSError, http.client.HTTPException, ValueError):
            return {}


class ExportersMonitor(Monitor):
    """Node exporter, cAdvisor, DCGM exporter: the figures of ``EXPORTED``, each named ``<exporter>.<name>``.

    Of cAdvisor's containers only the server's counts, or the machine as a whole where it has none.
    """

    source: ClassVar[str] = "exporters"
    interval_s: ClassVar[float] = 1.0
    metrics: ClassVar[dict[str, str]] = {"<exporter>.<name>": "the exporter's metric of that name"}

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """Whether any is named."""
        return None if target.exporters else "no exporter is named (INFERBENCH_EXPORTERS)"

    def sample(self) -> dict[str, float]:
        """Those that answer; one that does not hides no other."""
        found: dict[str, float] = {}
        for name, url in self.target.exporters:
            try:
                series = parse(fetch(url), EXPORTED, self.target.container_id)
            except (OSError, http.client.HTTPException, ValueError):
                continue
            found |= {f"{name}.{metric}": value for metric, value in series.items()}
        return found


def fetch(url: str) -> str:
    """The text behind an http address, within half a second and 4 MB."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is no http address")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", parts.path or "/metrics")
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return answer.read(4_000_000).decode("utf-8", "replace")
    finally:
        connection.close()


def parse(
    text: str, wanted: re.Pattern[str] | None = None, container_id: str | None = None
) -> dict[str, float]:
    """Name -> value; histograms' buckets are left out, series that differ in other labels are summed.

    ``wanted``: only names that match. ``container_*`` figures stand for a tree of control groups, in which a
    parent contains its children: only those of the one container count, or of the root ("/").
    """
    kinds: dict[str, str] = {}
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            kinds[name] = kind.strip()
            continue
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None or match[1].endswith("_bucket") or (wanted and not wanted.fullmatch(match[1])):
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if value != value or value in (float("inf"), float("-inf")):
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        if match[1].startswith("container_") and not _is_of(labels.get("id", ""), container_id):
            continue
        kept = "".join(f"[{key}={labels[key]}]" for key in _KEPT_LABELS if key in labels)
        counts = kinds.get(match[1]) == "counter" and not match[1].endswith("_total")
        name = f"{match[1]}{kept}{'_total' if counts else ''}"
        if name in found or len(found) < MAX_SERIES:
            found[name] = found.get(name, 0.0) + value
    return found


def _is_of(group: str, container_id: str | None) -> bool:
    """Whether a control group is that container's ("/docker/<id>", ".../docker-<id>.scope"), or the root."""
    if container_id is None:
        return group == "/"
    return group.rstrip("/").removesuffix(".scope").endswith(container_id)
