"""The server's counters for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from inferbench_tasks.servers.model import ServedModel

PREFIX = "inferbench_server"
SPANS = ("queue", "compute_input", "compute_infer", "compute_output")


class _Collector:
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        model = self._model
        document = model.statistics.document(model.name, model.version)
        labels = ["model", "version"]
        values = [model.name, model.version]

        def counter(name: str, text: str, value: float) -> Metric:
            family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
            family.add_metric(values, value)
            return family

        stats = document["inference_stats"]
        yield counter("requests_success", "Requests answered", stats["success"]["count"])
        yield counter("requests_failure", "Requests refused or failed", stats["fail"]["count"])
        yield counter("inferences", "Rows inferred", document["inference_count"])
        yield counter("executions", "Runs of the model; a batch is one", document["execution_count"])
        yield counter(
            "request_seconds", "Time from arrival in the queue to the answer", stats["success"]["ns"] / 1e9
        )
        for span in SPANS:
            yield counter(f"{span}_seconds", f"Time of requests in {span}", stats[span]["ns"] / 1e9)
        waiting = GaugeMetricFamily(f"{PREFIX}_waiting_requests", "Requests in the queue", labels=labels)
        waiting.add_metric(values, model.scheduler.waiting() if model.scheduler else 0)
        yield waiting


def exposition(model: ServedModel) -> tuple[str, bytes]:
    """Content type and text of ``/metrics``: the model's counters and the process's resources."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(model))
    ProcessCollector(registry=registry)
    return CONTENT_TYPE_LATEST, generate_latest(registry)
