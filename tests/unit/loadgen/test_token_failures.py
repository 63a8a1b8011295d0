"""What failures, bounds and answers without a word make of the figures of streamed tokens."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.loadgen.token_summary import Each, summarise_tokens
from tests.unit.loadgen.streams_by_hand import figures, stream, tokens_of


def test_goodness_is_of_all_that_were_due() -> None:
    """Failures are bad, and so is whoever breaks one bound; the ratio of each bound says which."""
    summary = figures(
        stream([100, 200], 2),
        stream([900, 910], 2),
        stream([100, 400], 2),
        stream([100], 1),
        stream([100, 110], 2, status="reset"),
        each=Each(ttft_ms=500, tpot_ms=150),
    )
    assert (summary["good"], summary["good_ratio"]) == (2, pytest.approx(2 / 5))
    assert summary["goodput_rps"] == pytest.approx(2 / 10)
    assert summary["good_tokens_per_s"] == pytest.approx((2 + 1) / 10)
    assert summary["kept_ratio"] == {"ttft_ms": pytest.approx(3 / 5), "tpot_ms": pytest.approx(3 / 5)}
    assert summary["output_tokens_per_s"] == pytest.approx(7 / 10)  # good answers', as throughput is
    assert summary["worth"] == {
        name: {"requests": 5.0, "reason": None} for name in ("ttft_ms", "tpot_ms", "good_ratio")
    }


def test_good_tokens_are_all_tokens_where_all_answers_are_good() -> None:
    """An answer that the warm-up asked for has two of its four tokens in the window: good ones are in both rates."""
    streams = [stream([100, 900, 1100, 1900], 4), stream([100, 200], 2)]
    kept = figures(*streams, each=Each(ttft_ms=500), intended_s=[9.0, 12.0])
    assert kept["good_tokens_per_s"] == kept["output_tokens_per_s"] == pytest.approx(4 / 10)
    broken = figures(*streams, each=Each(tpot_ms=300), intended_s=[9.0, 12.0])
    assert broken["good_tokens_per_s"] == pytest.approx(2 / 10)
    assert (broken["good"], broken["good_ratio"]) == (1, 1.0)  # of those due in the window


def test_percentiles_that_failures_belong_to_are_withheld() -> None:
    """As those of whole answers."""
    many = [stream([100, 110], 2) for _ in range(20)]
    spread = list(np.linspace(11, 19, 25))
    assert figures(*many, intended_s=spread[:20])["ttft_ms"]["p50"] == pytest.approx(100)
    failed = [stream([], -1, status="timeout") for _ in range(5)]
    assert figures(*many, *failed, intended_s=spread)["ttft_ms"]["p50"] is None


def test_gaps_that_failures_belong_to_are_withheld() -> None:
    """A stream that stalls until its timeout has the longest gap of all, and is not among the good answers'."""
    spread = list(np.linspace(11, 19, 25))
    many = [stream([100, 110], 2) for _ in range(20)]
    assert figures(*many, intended_s=spread[:20])["gap_ms"]["p50"] == pytest.approx(10)
    failed = [stream([100], -1, status="timeout") for _ in range(5)]
    gaps = figures(*many, *failed, intended_s=spread)["gap_ms"]
    assert gaps["p50"] is None and "failed" in gaps["withheld"]["p50"]


def test_answers_that_end_while_they_reason_are_no_fast_ones() -> None:
    """Ten gave their first word after 80 ms, ten never: half of all requests had none by then."""
    spread = list(np.linspace(11, 19, 22))
    gave = [stream([50, 80, 90], 3, reasoning=1) for _ in range(12)]
    assert figures(*gave, intended_s=spread[:12])["ttft_output_ms"]["p50"] == pytest.approx(80)
    tokens = tokens_of(*gave, *(stream([50, 900], 2) for _ in range(10)), intended_s=spread)
    tokens.first_output_ns[12:] = -1
    summary = summarise_tokens(tokens, Each())
    assert summary["ttft_output_ms"]["count"] == 12 and summary["ttft_output_ms"]["p50"] is None
    assert summary["ttft_output_ms"]["mean"] is None  # 80 ms, and at least 470 ms with those that gave none
    assert summary["reasons"]["ttft_output_ms"].startswith("10 of 22 answers ended while they reasoned")
    assert summary["ttft_ms"]["p50"] == pytest.approx(50)


@pytest.mark.parametrize("plain", [0, 12])
def test_answers_that_all_end_while_they_reason_say_so(plain: int) -> None:
    """With too few tokens asked for no answer that reasons gets to its first word: null, and why, also beside answers
    that don't reason."""
    spread = list(np.linspace(11, 19, 12 + plain))
    tokens = tokens_of(*(stream([50, 900], 2) for _ in spread), intended_s=spread)
    tokens.first_output_ns[:12] = -1
    summary = summarise_tokens(tokens, Each())
    assert summary["ttft_output_ms"]["count"] == plain and summary["ttft_output_ms"]["p50"] is None
    assert summary["reasons"]["ttft_output_ms"].startswith(
        f"12 of {12 + plain} answers ended while they reasoned"
    )
