"""The server's own counters over the window, against what a hand calculates."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.backends.llama_cpp import LlamaCpp
from inferbench_tasks.backends.vllm import Vllm
from inferbench_tasks.metrics.server_counters import server_counters
from inferbench_tasks.monitors.records import EMPTY, Recording, Series

S = 1_000_000_000
AT = np.arange(0, 11) * S


def recording(**growth_per_s: float) -> Recording:
    """Counters that grow steadily from 100 on, seen once a second for ten."""
    series = {
        ("server_metrics", f"llamacpp:{name}"): Series(AT, 100 + rate * AT / S)
        for name, rate in growth_per_s.items()
    }
    return Recording(series, {})


def test_means_are_of_what_grew_within_the_window() -> None:
    """0.6 s of prompts for 60 tokens and 0.3 s of answers for 20 in each second: 10 and 15 ms; what was counted
    before the window is in neither. A gauge is the mean of its samples.
    """
    seen = recording(
        prompt_seconds_total=0.6,
        prompt_tokens_total=60,
        tokens_predicted_seconds_total=0.3,
        tokens_predicted_total=20,
    )
    seen.series["server_metrics", "llamacpp:requests_deferred"] = Series(AT, np.where(AT >= 6 * S, 3.0, 1.0))
    figures = server_counters(seen, LlamaCpp.token_counters, 2 * S, 9 * S)
    assert figures["prompt_token_ms"] == pytest.approx(10) and figures["output_token_ms"] == pytest.approx(15)
    assert figures["output_tokens"] == pytest.approx(140) and figures["prompt_tokens"] == pytest.approx(420)
    assert figures["waiting_requests"] == pytest.approx((4 * 1 + 4 * 3) / 8)
    assert figures["cached_tokens"] is None and figures["ttft_ms"] is None and figures["queue_ms"] is None


def test_means_of_vllm_are_of_its_histograms() -> None:
    """In each second two first tokens after 0.8 s together, 30 gaps of 0.6 s, and of two requests that ended 0.1 s of
    queue, 0.5 s for 100 prompt tokens and 0.044 s as the sum of their times per token: a sum over a count each.
    """
    grown = {
        "time_to_first_token_seconds": (0.8, 2),
        "inter_token_latency_seconds": (0.6, 30),
        "request_queue_time_seconds": (0.1, 2),
        "request_time_per_output_token_seconds": (0.044, 2),
    }
    rates = {f"{name}_sum": total for name, (total, _) in grown.items()}
    rates |= {f"{name}_count": float(count) for name, (_, count) in grown.items()}
    rates |= {
        "request_prefill_time_seconds_sum": 0.5,
        "request_prefill_kv_computed_tokens_sum": 100,
        "prompt_tokens_total": 120,
        "prompt_tokens_cached_total": 20,
        "generation_tokens_total": 32,
    }
    series = {
        ("server_metrics", f"vllm:{name}"): Series(AT, 7 + rate * AT / S) for name, rate in rates.items()
    }
    figures = server_counters(Recording(series, {}), Vllm.token_counters, 2 * S, 9 * S)
    times = {name: figures[f"{name}_ms"] for name in ("ttft", "itl", "queue", "tpot", "prompt_token")}
    assert times == pytest.approx({"ttft": 400, "itl": 20, "queue": 50, "tpot": 22, "prompt_token": 5})
    assert figures["output_token_ms"] is None  # that of others has the first token in it
    assert figures["cached_tokens"] == pytest.approx(140) and figures["output_tokens"] == pytest.approx(224)


def test_nothing_is_made_up_where_nothing_was_counted() -> None:
    """No metrics, none that are known, a counter that stood still or began anew: null, with the reason."""
    for names, words in ((LlamaCpp.token_counters, "not read"), (None, "no counters")):
        figures = server_counters(EMPTY, names, 2 * S, 9 * S)
        assert words in figures.pop("reason") and set(figures.values()) == {None}
    still = recording(prompt_seconds_total=0.0, prompt_tokens_total=0.0)
    assert server_counters(still, LlamaCpp.token_counters, 2 * S, 9 * S)["prompt_token_ms"] is None
    begun = recording(prompt_seconds_total=0.6, prompt_tokens_total=60)
    for name in ("prompt_seconds_total", "prompt_tokens_total"):
        begun.series["server_metrics", f"llamacpp:{name}"].values[5:] -= 150
    figures = server_counters(begun, LlamaCpp.token_counters, 2 * S, 9 * S)
    assert figures["prompt_token_ms"] is None and figures["prompt_tokens"] is None  # 340, then 250
    assert "began anew" in server_counters(begun, LlamaCpp.token_counters, 2 * S, 60 * S)["reason"]


def test_a_queue_that_grew_with_the_load_is_no_figure_of_the_servers_either() -> None:
    """Counts stand; times and gauges are withheld for the reason that the client's are."""
    seen = recording(prompt_seconds_total=0.6, prompt_tokens_total=60, requests_deferred=1)
    figures = server_counters(seen, LlamaCpp.token_counters, 2 * S, 9 * S, "growing backlog")
    assert figures["prompt_tokens"] == pytest.approx(420) and figures["reason"] == "growing backlog"
    assert figures["prompt_token_ms"] is None and figures["waiting_requests"] is None
