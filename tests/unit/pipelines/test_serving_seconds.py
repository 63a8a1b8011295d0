"""How long a job of serving is foretold to take."""

from __future__ import annotations

import pytest

from inferbench_tasks.pipelines.serving import ALONE_S, SERVER_S, SERVING
from inferbench_tasks.submission.schema import JobSpec

JOB = {
    "name": "x",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}, "duration_s": 5},
}


@pytest.mark.parametrize(
    ("deepest", "levels"), [("model", 2), ("framework", 3), ("layer", 4), ("library", 5), (None, 4)]
)
def test_a_trace_takes_a_server_for_each_level_that_it_has(deepest: str | None, levels: int) -> None:
    """Application comes first; of two rounds and ten requests, each asked once to warm up."""
    trace = {"rounds": 2, "requests": 10, **({"deepest": deepest} if deepest else {})}
    spec, plain = JobSpec.model_validate(JOB | {"trace": trace}), JobSpec.model_validate(JOB)
    more_s = SERVING.expected_s(spec) - SERVING.expected_s(plain)
    assert more_s == pytest.approx(2 * levels * (SERVER_S + 2 * 10 * ALONE_S))
