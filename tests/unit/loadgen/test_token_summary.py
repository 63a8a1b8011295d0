"""The figures of streamed tokens against what a hand calculates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.token_counters import GAUGES, MEANS
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.server_side import SERVER_FIGURES
from inferbench_tasks.loadgen.token_summary import Each, summarise_tokens
from inferbench_tasks.metrics.token_costs import per_million_tokens
from tests.unit.loadgen.streams_by_hand import figures, stream, tokens_of


def test_the_definitions_by_hand() -> None:
    """Two streams: 4 tokens in chunks of 1, 2 and 1; 3 tokens, one at a time."""
    summary = figures(stream([100, 130, 190], 4), stream([50, 60, 80], 3))
    assert summary["ttft_ms"]["mean"] == pytest.approx((100 + 50) / 2)
    assert summary["ttft_from_send_ms"]["mean"] == pytest.approx((95 + 45) / 2)
    assert summary["latency_ms"]["max"] == pytest.approx(190)
    assert summary["tpot_ms"]["mean"] == pytest.approx((90 / 3 + 30 / 2) / 2)
    assert summary["gap_ms"]["mean"] == pytest.approx((30 + 60 + 10 + 20) / 4)
    assert (summary["gap_ms"]["count"], summary["gap_ms"]["requests"]) == (4, 2)
    assert (summary["stall_ms"]["min"], summary["stall_ms"]["max"]) == (pytest.approx(20), pytest.approx(60))
    assert summary["tokens_per_chunk"] == pytest.approx(7 / 6)
    assert summary["output_tokens_per_s"] == pytest.approx(7 / 10)
    assert summary["input_tokens_per_s"] == pytest.approx(20 / 10)
    assert summary["total_tokens_per_s"] == pytest.approx(27 / 10)
    assert summary["user_tokens_per_s"]["max"] == pytest.approx(1000 / 15)
    assert summary["itl_ms"] is None  # a chunk had two tokens: its gaps are not between tokens
    assert summary["ttft_output_ms"] is None
    assert summary["good_ratio"] == 1.0 and summary["reasons"] == {}


def test_gaps_between_tokens_where_every_chunk_has_one() -> None:
    """Then they are the gaps between chunks."""
    assert figures(stream([100, 130, 190], 3))["itl_ms"]["mean"] == pytest.approx(45)


def test_a_single_chunk_has_no_time_per_token() -> None:
    """N = n_1: nothing came after the first chunk."""
    summary = figures(stream([100], 1), stream([70], 4, first=4))
    assert (summary["tpot_ms"]["count"], summary["tpot_ms"]["mean"]) == (0, None)
    assert summary["gap_ms"]["mean"] is None and summary["stall_ms"]["count"] == 0
    assert summary["buffered"] == 0


@pytest.mark.parametrize(
    "item", [stream([400], 64, first=64), stream([400, 400, 400], 64, first=22, reads=1)]
)
def test_a_stream_that_was_kept_back_has_no_time_per_token(item: dict[str, Any]) -> None:
    """In one chunk or in many at one moment: a TPOT of 0 would be the best of all, and is nobody's pace."""
    summary = figures(item)
    assert summary["buffered"] == 1
    assert summary["tpot_ms"]["mean"] is None
    assert "came at once" in summary["reasons"]["tpot_ms"]
    bounded = figures(item, stream([100, 110], 2), each=Each(tpot_ms=50))
    assert bounded["good_ratio"] is None and bounded["kept_ratio"] == {"tpot_ms": None}
    assert "not known" in bounded["reasons"]["good_ratio"]


def test_tokens_that_arrive_outside_the_window_do_not_count() -> None:
    """Each chunk's tokens count when it came, whatever its request's phase: 8 of 10, and 2 of a request before."""
    spread = stream([100, 300, 700], 10, first=2)  # from 19.5 s: at 19.6, 19.8 and 20.2 s
    before = stream([100, 1100], 3)  # from 9 s: at 9.1 and 10.1 s
    summary = figures(before, spread, intended_s=[9.0, 19.5])
    assert summary["output_tokens_per_s"] == pytest.approx((2 + 4 + 2) / 10)
    assert summary["ttft_ms"]["count"] == 1  # the one before was due before


def test_what_the_server_does_not_count_is_null() -> None:
    """Times stay, tokens don't: chunks are no tokens."""
    summary = figures(stream([100, 110], -1, first=-1, prompt=-1), stream([100, 110], 2))
    assert summary["ttft_ms"]["count"] == 2
    assert summary["tpot_ms"]["count"] == 1
    assert summary["output_tokens_per_s"] is None and summary["input_tokens_per_s"] is None
    assert "usage" in summary["reasons"]["output_tokens_per_s"]
    assert summary["cached_ratio"] is None


def test_what_a_tokenizer_counted_stands_where_the_server_told_nothing() -> None:
    """Its usage comes first; of text that neither knows nothing is made, and how many of each there are is told."""
    by_text = stream([100, 130, 190], -1, first=1, text=7, prompt=-1)
    by_usage = stream([100, 130, 190], 4, text=9)
    summary = figures(by_text, by_usage)
    assert summary["output_tokens_per_s"] == pytest.approx((7 + 4) / 10)
    assert summary["tokens_per_chunk"] == pytest.approx(11 / 6)
    assert summary["tpot_ms"]["min"] == pytest.approx(90 / 6) and summary["tpot_ms"]["max"] == pytest.approx(
        90 / 3
    )
    assert summary["output_tokens_by"] == {"usage": 1, "tokenizer": 1, "nobody": 0}
    assert list(summary["reasons"]) == ["input_tokens_per_s"]
    unknown = figures(by_text, stream([100, 130], -1, first=-1))
    assert unknown["output_tokens_by"] == {"usage": 0, "tokenizer": 1, "nobody": 1}
    assert (
        unknown["output_tokens_per_s"] is None
        and "nobody counted" in unknown["reasons"]["output_tokens_per_s"]
    )


def test_fewer_tokens_by_a_tokenizer_than_chunks_are_nobodys() -> None:
    """Three chunks a second apart, of whose text it makes one token: that is no answer without a time per token."""
    summary = figures(stream([100, 1100, 2100], -1, first=-1, text=1), each=Each(tpot_ms=100))
    assert summary["output_tokens_by"] == {"usage": 0, "tokenizer": 0, "nobody": 1}
    assert summary["tpot_ms"]["count"] == 0 and summary["output_tokens_per_s"] is None
    assert summary["good_ratio"] is None and "time per token is not known" in summary["reasons"]["good_ratio"]


def test_a_few_tokens_of_one_moment_are_no_time_per_token_of_nothing() -> None:
    """Six tokens in six chunks of one read: 0 ms would pull the mean down; nobody waited between them: good."""
    at_once, paced = stream([400] * 6, 6, reads=1), stream([100, 120, 140], 3)
    summary = figures(at_once, paced, each=Each(tpot_ms=50))
    assert (summary["tpot_ms"]["count"], summary["tpot_ms"]["mean"]) == (1, pytest.approx(20))
    assert summary["tpot_ms"]["count"] == summary["user_tokens_per_s"]["count"]
    assert summary["good_ratio"] == 1.0 and summary["buffered"] == 0


def test_cached_and_reasoning() -> None:
    """The cached share is of all prompt tokens told; the first output token is the first that is no reasoning."""
    summary = figures(
        stream([50, 80, 90], 3, prompt=30, cached=12, reasoning=1), stream([50], 1, prompt=10, cached=0)
    )
    assert summary["cached_ratio"] == pytest.approx(12 / 40)
    assert summary["ttft_output_ms"]["max"] == pytest.approx(80)


def test_misses_that_a_server_leaves_out_are_misses() -> None:
    """Four prompts of 30 tokens, 24 of one from a cache, of the others no word (as vLLM tells 0): a fifth, and not 80%.

    Without usage nothing is known of an answer, and without a word of any answer of the load there is no share.
    """
    hit, miss = ({"prompt": 30, **cached} for cached in ({"cached": 24}, {}))
    told = figures(
        stream([50], 1, **hit), *(stream([50], 1, **miss) for _ in range(3)), stream([50], 1, prompt=-1)
    )
    assert told["cached_ratio"] == pytest.approx(24 / 120)
    assert figures(stream([50], 1, **miss))["cached_ratio"] is None


def test_what_charts_are_drawn_from() -> None:
    """Tokens by the second in which they came, gaps by their length, answers that the window's ends cut."""
    cut = figures(
        stream(
            [100, 1100, 1600], 5, first=3
        ),  # sent at 10 s: three tokens at 10.1, one each at 11.1 and 11.6
        stream([900, 1100], 2),  # at 19 s: one token at 19.9, one after the window
        stream([200, 300], 2),  # at 9.75 s: one before the window, one in it
        intended_s=[10.0, 19.0, 9.75],
    )
    assert cut["over_time"]["t_s"] == list(range(10))
    assert cut["over_time"]["seconds"] == [1.0] * 10
    assert cut["over_time"]["tokens"] == [4.0, 2.0, *[0.0] * 7, 1.0]
    assert sum(cut["over_time"]["tokens"]) == cut["output_tokens_per_s"] * 10
    assert (cut["cut_by_window"], cut["streams_in_window"]) == (2, 3)
    bins = figures(stream([10, 10, 110, 200_000], 4))["gaps_by_length"]
    counts = {
        (low, high): n
        for low, high, n in zip(bins["edges_ms"], bins["edges_ms"][1:], bins["counts"], strict=False)
    }
    assert counts[0.0, 0.01] == 1 and bins["edges_ms"][-1] is None and bins["counts"][-1] == 1
    assert [n for (low, high), n in counts.items() if high and low <= 100 < high] == [1]
    assert sum(bins["counts"]) == 3


def test_every_row_of_the_table_has_its_place() -> None:
    """The figures of streamed tokens find their values in the summary; a run of whole answers has none of them."""
    streamed = [figure for figure in FIGURES.values() if figure.streamed]
    late = np.random.default_rng(4).random((1200, 2)) * 10
    many = [
        stream([10 + n % 7, 60 + a, 90 + b], 3, cached=1, reasoning=1)
        for n, (a, b) in enumerate(late.tolist())
    ]
    bounds = Each(ttft_ms=15, tpot_ms=50, latency_ms=95)
    tokens = figures(*many, intended_s=list(np.linspace(10, 19.9, 1200)), each=bounds)
    spent = {"energy": {"power_w": 50.0}, "cost": {"instances": [{"usd_per_hour": 0.36}]}}
    tokens |= per_million_tokens({"tokens": tokens, **spent})
    tokens["mlperf_endpoints"] = {"tps_per_user": 1.0}
    tokens |= dict.fromkeys(SERVER_FIGURES, tokens["ttft_ms"])
    tokens |= {"server_prompt_token_ms": 1.0, "server_counters": dict.fromkeys((*MEANS, *GAUGES), 1.0)}
    summary = {"tokens": tokens}
    missing = [figure.name for figure in streamed if figure.stored(summary) is None]
    assert missing == []
    assert [
        figure.name for figure in streamed if figure.interval and figure.interval_in(summary) is None
    ] == []
    assert not {figure.name for figure in streamed} & {figure.name for figure in FIGURES.offered()}
    assert [figure.name for figure in streamed if figure.stored({"ttft_ms": 1}) is not None] == []


def test_gaps_of_a_request_belong_together() -> None:
    """Sixty users, half of them with a gap of 10 ms and half with 20, 30 gaps each: the median is one of both, and no
    more sure than sixty tosses are, though there are 1,800 gaps; of 47 requests nothing is said."""
    slow = [stream([100 + 20.0 * k for k in range(31)], 31), stream([100 + 10.0 * k for k in range(31)], 31)]
    when = [11 + 0.1 * n for n in range(60)]
    users = [slow[n] for n in np.random.default_rng(3).permutation([0, 1] * 30)]
    stats = figures(*users, intended_s=when)["gap_ms"]
    assert (stats["count"], stats["requests"], stats["ci95_method"]) == (1800, 60, "clusters")
    # the mean of sixty users' 10 or 20 ms: 15 +- t(59) x 5 / sqrt(59)
    assert stats["ci95"]["mean"] == pytest.approx(
        [15 - 2.001 * 5 / 59**0.5, 15 + 2.001 * 5 / 59**0.5], rel=0.02
    )
    assert stats["ci95"]["p50"] == pytest.approx([10, 20])
    few = figures(*users[:47], intended_s=when[:47])["gap_ms"]
    assert (
        few["p50"] is not None and few["ci95"]["p50"] is None and "48 clusters" in few["ci95_reasons"]["p50"]
    )


def test_the_order_of_chunks_in_the_file_is_not_that_of_time() -> None:
    """Streams are written as they end; the figures and intervals of gaps are the same however they lie there."""
    streams = [stream([100 + (n % 7 + 1) * k for k in range(20)], 20) for n in range(60)]
    tokens = tokens_of(*streams, intended_s=[11 + 0.1 * n for n in range(60)])
    order = np.argsort(-tokens.chunk_row, kind="stable")
    mixed = replace(tokens, **{name: getattr(tokens, name)[order] for name in (
        "chunk_row", "chunk_ns", "chunk_waited_us", "chunk_followed")})  # fmt: skip
    ours, theirs = (summarise_tokens(each, Each())["gap_ms"] for each in (tokens, mixed))
    assert ours == theirs
