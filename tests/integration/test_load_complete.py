"""Real senders keep the rules by which the certificate judges whether records are complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.loadgen.null_server import null_server
from tests.load_servers import ANSWER_BYTES, run_load

pytestmark = pytest.mark.integration
_RULES = {"impossible_records", "senders", "owners", "twin_records", "request_numbers", "chain", "schedule"}


@pytest.mark.parametrize(
    "load",
    [
        {"arrivals": {"kind": "closed_loop", "concurrency": 5}, "shards": 2},
        {"arrivals": {"kind": "closed_loop", "concurrency": 5, "think_time_ms": 7}, "shards": 2},
        {"arrivals": {"kind": "closed_loop", "concurrency": 5}, "shards": 2, "max_requests": 301},
        {"arrivals": {"kind": "single_stream"}, "max_requests": 50},
        {"arrivals": {"kind": "poisson", "rate_rps": 300}, "shards": 2},
        {"arrivals": {"kind": "offline", "requests": 200}},
    ],
)
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_no_rule_is_broken_by_a_real_load(tmp_path: Path, load: dict[str, Any], protocol: str) -> None:
    """Numbers, links, senders, schedule: whatever the kind of load, its senders and its quota."""
    with null_server(protocol, ANSWER_BYTES) as where:
        plan, outcome = run_load(tmp_path, where, **load)
    assert outcome.applied.problem is None
    checks = {check.name: check for check in outcome.certificate(plan).checks}
    assert {"impossible_records", "senders", "owners"} <= set(checks)
    assert [checks[name].reason for name in _RULES & set(checks) if not checks[name].ok] == []
