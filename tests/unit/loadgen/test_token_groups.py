"""The time to the first token of groups of requests, by hand."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.loadgen.token_groups import by_cached, by_prompt_tokens, by_turn, grouped
from inferbench_tasks.loadgen.token_window import TokenWindow
from tests.unit.loadgen.streams_by_hand import stream, tokens_of


def window(*groups: tuple[int, dict[str, Any], float]) -> TokenWindow:
    """So many streams of each kind with that time to the first token, ms."""
    streams = [stream([ttft, ttft + 10], 2, **more) for count, more, ttft in groups for _ in range(count)]
    return tokens_of(*streams, intended_s=[11 + 0.05 * n for n in range(len(streams))])


def test_prompts_from_a_power_of_two_to_the_next() -> None:
    """127 tokens are in one bin, 128 and 255 in the next; eleven have a median and ten have none."""
    found = by_prompt_tokens(
        window(
            (11, {"prompt": 127}, 50),
            (6, {"prompt": 128}, 80),
            (5, {"prompt": 255}, 90),
            (10, {"prompt": 1}, 7),
        ),
        {},
    )
    assert found == [
        {"from_tokens": 1, "to_tokens": 1, "requests": 10, "ttft_p50_ms": None},
        {"from_tokens": 64, "to_tokens": 127, "requests": 11, "ttft_p50_ms": 50},
        {"from_tokens": 128, "to_tokens": 255, "requests": 11, "ttft_p50_ms": 80},
    ]  # fmt: skip


def test_what_a_cache_knew() -> None:
    """Nothing of it, a template of 30 of 100 tokens, exactly half; where the server tells nothing there is no group.

    Three answers whose usage leaves the cache out beside others that have it: of them it had nothing.
    """
    tokens = window(
        (11, {"prompt": 100, "cached": 0}, 90),
        (11, {"prompt": 100, "cached": 30}, 70),
        (11, {"prompt": 100, "cached": 50}, 20),
        (3, {"prompt": 100, "cached": -1}, 90),
    )
    assert [(row["cached"], row["requests"], row["ttft_p50_ms"]) for row in by_cached(tokens, {})] == [
        ("none", 14, 90), ("less than half", 11, 70), ("half or more", 11, 20),
    ]  # fmt: skip
    assert by_cached(window((20, {}, 5)), {}) == []


def test_failures_may_belong_to_any_group_that_does_not_know_its_own() -> None:
    """One of 20 that failed is 4.8% of any group of 20, which leaves a median; two are 9.1% and do not."""
    failed = {"status": "timeout", "prompt": -1}
    assert by_prompt_tokens(window((20, {}, 50), (1, failed, 1)), {})[0]["ttft_p50_ms"] == 50
    assert by_prompt_tokens(window((20, {}, 50), (2, failed, 1)), {})[0]["ttft_p50_ms"] is None


def test_a_turn_knows_its_failures() -> None:
    """Those of the second turn (numbers from 20 on) say nothing of the first; what was withheld of all is of each."""
    tokens = window((20, {}, 50), (15, {}, 80), (5, {"status": "timeout"}, 1))
    turns = by_turn(tokens, 20, {})
    assert [(row["turn"], row["requests"], row["ttft_p50_ms"]) for row in turns] == [
        (1, 20, 50),
        (2, 20, None),
    ]
    assert {row["ttft_p50_ms"] for row in by_turn(tokens, 20, {"withheld": {"p50": "why"}})} == {None}
    assert set(grouped(tokens, 0, {})) == {"by_prompt_tokens", "by_cached"}
    assert set(grouped(tokens, 20, {})) == {"by_prompt_tokens", "by_cached", "by_turn"}
