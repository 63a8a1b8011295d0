"""What is not predicted is refused by its field."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.brick_jobs.under_load.limits import findings
from inferbench_tasks.submission.schema import JobSpec

ARRIVALS = {"kind": "poisson", "rate_rps": 10}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("convert.precision", {"convert": {"precision": "bf16"}}),
    ("requests.sizes", {"requests": {"kind": "random", "sizes": [{"axes": ["x.1"], "size": 4}]}}),
    ("serve.backend", {"serve": {"backend": "triton"}}),
    ("serve.launcher", {"serve": {"launcher": "container"}}),
    ("serve.device", {"serve": {"device": "gpu"}}),
    ("serve.devices", {"serve": {"devices": 2}}),
    ("serve.instances", {"serve": {"instances": 2, "threads": 2}}),
    ("load.from", {"load": {"arrivals": ARRIVALS, "from": "other_host"}}),
    ("load.network", {"load": {"arrivals": ARRIVALS, "network": "4g_lte"}}),
    ("load.connections", {"load": {"arrivals": ARRIVALS, "connections": 2}}),
    (
        "load.protocol",
        {"load": {"arrivals": ARRIVALS, "protocol": "openai"}, "requests": {"kind": "prompts"}},
    ),
    ("load.arrivals.kind", {"load": {"arrivals": {"kind": "max_rate"}}}),
    ("load.arrivals.concurrency", {"load": {"arrivals": {"kind": "closed_loop", "concurrency": 10_000}}}),
    ("load.arrivals.kind", {"load": {"arrivals": {"kind": "offline", "requests": 8}}}),
]


def job(more: dict[str, Any]) -> JobSpec:
    base = {"name": "t", "model": {"kind": "zoo", "name": "digits"}, "load": {"arrivals": ARRIVALS}}
    return JobSpec.model_validate(base | more)


@pytest.mark.parametrize(("field", "more"), CASES)
def test_each_has_its_field(field: str, more: dict[str, Any]) -> None:
    """And nothing else is said of an otherwise plain job."""
    assert [finding.fields[0] for finding in findings(job(more), 2)] == [field]


def test_a_plain_job_is_predicted() -> None:
    """One instance of one thread over HTTP or gRPC, with batching or without."""
    assert not list(findings(job({}), 2))
    assert not list(findings(job({"load": {"arrivals": ARRIVALS, "protocol": "grpc"}}), 2))
    assert not list(findings(job({"serve": {"batching": {"max_batch_size": 4}}}), 2))
