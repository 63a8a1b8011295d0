"""What a search may choose between."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.cli.recommend_search import under_one_load
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import Job, expand

OPEN = {"kind": "poisson", "rate_rps": 80.0}


def space(arrivals: dict[str, Any], **sweep: Any) -> list[Job[Any]]:
    base = {"name": "space", "model": {"kind": "zoo", "name": "digits"}, "slo": {"p99_ms": 20}}
    return expand(Submission.model_validate({**base, "load": {"arrivals": arrivals}, "sweep": sweep}))


@pytest.mark.parametrize("sweep", [{"load.arrivals.rate_rps": [20, 80]}, {"load.batch_size": [1, 8]}])
def test_a_rate_that_is_offered_is_no_configuration(sweep: dict[str, Any]) -> None:
    """Of two rates, or of one rate of requests of one and of eight samples, the higher would win by being asked for."""
    with pytest.raises(InputError, match="offered 2 different loads .poisson, [0-9]+ samples/s; ") as caught:
        under_one_load(space(OPEN, **sweep))
    assert caught.value.field == "load.arrivals"


def test_shorter_prompts_are_no_configuration() -> None:
    """They would win by being asked for, whatever the arrivals."""
    base = {
        "name": "llm", "model": {"kind": "llm_stand_in"}, "convert": {"format": "llm_stand_in"},
        "serve": {"backend": "llm_stand_in"}, "requests": {"kind": "prompts"},
        "load": {"protocol": "openai", "arrivals": {"kind": "closed_loop", "concurrency": 1}},
        "sweep": {"requests.input_tokens": [{"kind": "fixed", "value": size} for size in (16, 4000)]},
    }  # fmt: skip
    with pytest.raises(InputError, match="2 different kinds of prompts .input_tokens 16, output_tokens 64; "):
        under_one_load(expand(Submission.model_validate(base)))


@pytest.mark.parametrize(
    ("arrivals", "sweep"),
    [
        (OPEN, {"serve.threads": [1, 2]}),
        (OPEN, {"zip": {"load.batch_size": [1, 8], "load.arrivals.rate_rps": [80, 10]}}),
        (
            {"kind": "closed_loop", "concurrency": 1},
            {"load.arrivals.concurrency": [1, 4], "load.batch_size": [1, 8]},
        ),
        ({"kind": "max_rate", "start_rate_rps": 50}, {"serve.threads": [1, 2], "load.batch_size": [1, 8]}),
    ],
)
def test_one_load_closed_loops_and_searched_rates_are(
    arrivals: dict[str, Any], sweep: dict[str, Any]
) -> None:
    """As many samples a second in whatever requests, users who wait, and rates that each finds for itself."""
    jobs = space(arrivals, **sweep)
    assert under_one_load(jobs) is jobs
