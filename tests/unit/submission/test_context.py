"""Prompts and answers against a slot, by the submission alone."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.submission.context import Longest, context_findings
from inferbench_tasks.submission.schema import JobSpec


def job(**requests: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "fits",
            "model": {"kind": "file", "path": "m.gguf"},
            "convert": {"format": "gguf"},
            "serve": {"backend": "llama_cpp"},
            "requests": {"kind": "prompts", **requests},
            "load": {"protocol": "openai", "arrivals": {"kind": "constant", "rate_rps": 1}},
        }
    )


def law(**bounds: int) -> dict[str, Any]:
    return {"kind": "lognormal", "mean": 8000, "cv": 0.1, **bounds}


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (
            {"input_tokens": law(min=5000)},
            "at least 5,000 input_tokens and up to 64 output_tokens are 5,064 tokens, more than a slot's 4,096",
        ),
        (
            {"output_tokens": law(min=5000)},
            "up to 200 input_tokens and at least 5,000 output_tokens are 5,200 tokens, more than a slot's 4,096",
        ),
        (
            {"input_tokens": law(min=1000), "turns": {"kind": "normal", "mean": 6, "min": 4}},
            "at least 1,000 input_tokens and up to 64 output_tokens in each of at least 4 turns are 4,256 tokens",
        ),
        ({"input_tokens": law(max=9000)}, "up to 9,000 input_tokens and 64 output_tokens are 9,064 tokens"),
    ],
)
def test_a_law_whose_shortest_is_too_long_is_refused(requests: dict[str, Any], message: str) -> None:
    """Without an upper end the least counts, and the message says that it is that; by hand."""
    (finding,) = context_findings(job(**requests), 4096)
    assert message in str(finding)


def test_the_larger_part_is_named_first_and_what_may_fit_passes() -> None:
    """Most of this law's prompts don't fit: those fail as requests, for some may."""
    assert Longest.of(job(output_tokens=law(min=5000))).fields()[0] == "requests.output_tokens"
    assert not list(context_findings(job(input_tokens=law(min=4032)), 4096))
    assert list(context_findings(job(input_tokens=law(min=4033)), 4096))
