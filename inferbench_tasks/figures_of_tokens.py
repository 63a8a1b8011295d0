"""The rows of the table of figures that are of streamed tokens; a run whose answers come whole has none of them.

``docs/explanation/token-figures.md`` says what each is and how other tools define what they call the same.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.figure import Figure, View

_PERCENTILES = {"mean": "Mean", "p50": "Median", "p90": "p90", "p99": "p99"}
#: Where percentiles are shown, and which of them every process holds (``Figure.held``).
_SHOWN: dict[str, tuple[View, ...]] = {
    "ttft_p50": ("report", "terminal", "wide", "night"),
    "ttft_p99": ("report", "terminal", "sweep", "board", "night"),
    "tpot_p50": ("report", "terminal", "sweep", "board", "night"),
    "tpot_p99": ("report",),
    "stall_p99": ("report",),
}
_HELD = {"ttft_p99": 28, "tpot_p50": 29}


def _times(name: str, path: str, title: str, formula: str, noun: str) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            f"{name}_{percentile}_ms", f"tokens.{path}.{percentile}", "ms", f"{word} {title}", "lower", formula,
            noun=f"{noun} {percentile}", interval=f"tokens.{path}.ci95.{percentile}",
            streamed=True, views=_SHOWN.get(f"{name}_{percentile}", ()), held=_HELD.get(f"{name}_{percentile}"),
        )
        for percentile, word in _PERCENTILES.items()
    )  # fmt: skip


def _one(name: str, unit: str, title: str, formula: str, *views: View, **more: Any) -> Figure:
    more = {"better": "higher", "streamed": True, **more}
    return Figure(name, f"tokens.{name}", unit, title, formula=formula, views=views, **more)


def _by_server(name: str, title: str, formula: str, noun: str) -> tuple[Figure, ...]:
    """Beside the client's, for reading only: nothing is ranked or bounded by what a server says of itself."""
    return tuple(
        Figure(
            f"{name}_{percentile}_ms", f"tokens.{name}_ms.{percentile}", "ms", f"{word} {title}", None, formula,
            noun=f"{noun} {percentile}", interval=f"tokens.{name}_ms.ci95.{percentile}", streamed=True, views=(),
        )
        for percentile, word in _PERCENTILES.items()
    )  # fmt: skip


def _counted(name: str, unit: str, title: str, formula: str) -> Figure:
    """Of the server's own metrics over the window; for reading only, too."""
    return Figure(
        f"server_counted_{name}", f"tokens.server_counters.{name}", unit, title, None, formula,
        streamed=True, views=(),
    )  # fmt: skip


_SHARE = {"display_unit": "%", "display_factor": 100.0}

TOKEN_FIGURES: tuple[Figure, ...] = (
    *_times(
        "ttft", "ttft_ms", "time to the first token",
        "c_1 - a: arrival of the first chunk with a token - intended moment, of good answers", "TTFT",
    ),
    *_times(
        "ttft_from_send", "ttft_from_send_ms", "time to the first token from the send",
        "c_1 - s: arrival of the first chunk with a token - send", "TTFT from the send",
    ),
    *_times(
        "ttft_output", "ttft_output_ms", "time to the first token that is no reasoning",
        "first chunk that is no reasoning - a, where an answer reasons; one that ended before it counts as failed",
        "TTFT of the answer",
    ),
    *_times(
        "tpot", "tpot_ms", "time per output token",
        "(c_m - c_1) / (N - n_1): from the first chunk to the last / the tokens after the first chunk", "TPOT",
    ),
    *_times(
        "gap", "gap_ms", "gap between chunks",
        "c_(j+1) - c_j between chunks with tokens, of all requests together", "gap",
    ),
    *_times(
        "itl", "itl_ms", "gap between tokens", "the gaps, where every chunk of every answer has one token", "ITL",
    ),
    *_times(
        "stall", "stall_ms", "longest gap of a request", "the largest c_(j+1) - c_j of each request", "stall",
    ),
    *_times(
        "last_token", "latency_ms", "time to the last token",
        "c_m - a: arrival of the last chunk with a token - intended moment", "last token",
    ),
    Figure(
        "user_tokens_per_s", "tokens.user_tokens_per_s.p50", "tokens/s", "Tokens per second that a user sees, median",
        "higher", "1 / TPOT of each request", noun="user tokens/s", head="user tokens/s",
        interval="tokens.user_tokens_per_s.ci95.p50", streamed=True, views=("report", "pareto"),
    ),
    _one(
        "output_tokens_per_s", "tokens/s", "Output tokens per second",
        "tokens of good answers that arrived within the window / its length; a chunk's tokens arrive with it",
        "report", "terminal", "sweep", "board", "night", "pareto",
        noun="output tokens/s", head="output tokens/s", held=30, rate_free=True,
    ),
    _one(
        "input_tokens_per_s", "tokens/s", "Input tokens per second",
        "prompt tokens of the good answers whose first token arrived within the window / its length",
    ),
    _one("total_tokens_per_s", "tokens/s", "Tokens per second", "output + input tokens per second"),
    _one(
        "good_tokens_per_s", "tokens/s", "Output tokens per second of good requests",
        "tokens of the good requests that arrived within the window / its length",
    ),
    _one(
        "good_ratio", "1", "Share of good requests",
        "requests without error that kept every bound / all that were due, failed and dropped ones included",
        "report", "terminal", "sweep", "board", noun="good", held=31, share_of="requests",
        worth=("tokens.worth.good_ratio.requests", "tokens.good_decision.worth_requests"), **_SHARE,
    ),
    *(
        Figure(
            f"kept_{bound}_ratio", f"tokens.kept_ratio.{bound}_ms", "1",
            f"Share of requests that kept {title}", "higher",
            f"requests without error that kept slo.each.{bound}_ms / all that were due, failed ones included",
            noun=f"kept {noun}", streamed=True, share_of="requests",
            worth=(f"tokens.worth.{bound}_ms.requests",), display_unit="%", display_factor=100.0,
        )
        for bound, title, noun in (
            ("ttft", "the bound on the time to the first token", "TTFT"),
            ("tpot", "the bound on the time per token", "TPOT"),
            ("latency", "the bound on the time to the last token", "last token"),
        )
    ),
    _one(
        "tokens_per_chunk", "tokens", "Tokens per chunk", "N / m: output tokens by usage / chunks with tokens",
        better=None,
    ),
    _one(
        "cached_ratio", "1", "Share of prompt tokens from the server's cache", "sum of cached / sum of prompt tokens, "
        "by usage; one without cached tokens counts 0 where another answer of the load has them",
        "report", better=None, noun="cached", **_SHARE,
    ),
    _one(
        "joule_per_million_tokens", "J/1M tokens", "Energy of a million output tokens",
        "power in the window / output tokens per second x 1,000,000", "report", "sweep",
        better="lower", noun="energy", energy_based=True, rate_free=True,
    ),
    _one(
        "usd_per_million_tokens", "USD/1M tokens", "Cost of a million output tokens",
        "USD/h of the cheapest instance with the device / 3,600 s/h / output tokens per second x 1,000,000", "report",
        "sweep", better="lower", noun="cost", price_based=True, rate_free=True,
    ),
    *_by_server(
        "server_queue", "wait for a slot, by the server's word",
        "from the request's arrival to a slot's begin with it, of the requests whose answer tells it", "server's queue",
    ),
    *_by_server(
        "server_prompt", "time from a slot's begin to the first token, by the server's word",
        "prompt_ms of the answer's own timings, of good answers that tell it", "server's prompt time",
    ),
    *_by_server(
        "ttft_beyond_server", "time to the first token beyond the server's word",
        "client minus server, of each request that tells: TTFT from the send - (queue, if told, + prompt_ms)",
        "TTFT beyond server",
    ),
    *_by_server(
        "server_tpot", "time per output token, by the server's word",
        "predicted_ms / the tokens after the first, of the answer's own timings, if they are of as many as usage has",
        "server's TPOT",
    ),
    *_by_server(
        "tpot_beyond_server", "time per output token beyond the server's word",
        "client minus server, of each request that tells: TPOT - the server's", "TPOT beyond server",
    ),
    _one(
        "server_prompt_token_ms", "ms", "Prompt time per prompt token, by the server's word",
        "sum of prompt_ms / sum of the prompt tokens that were worked out, without cached ones",
        better=None, noun="server's prompt token",
    ),
    *(
        _counted(
            name, "ms", title, "growth of the server's own counters over the window, of requests that it counted there"
        )
        for name, title in (
            ("prompt_token_ms", "Prompt time per prompt token, by the server's counters"),
            ("output_token_ms", "Time per output token, the first one among them, by the server's counters"),
            ("tpot_ms", "Mean time per output token after the first, by the server's counters"),
            ("itl_ms", "Mean gap between tokens, by the server's counters"),
            ("ttft_ms", "Mean time to the first token, by the server's counters"),
            ("queue_ms", "Mean wait for a slot, by the server's counters"),
        )
    ),
    *(
        _counted(name, "requests", title, "mean of the samples in the window, one a second")
        for name, title in (
            ("waiting_requests", "Requests that wait for a slot, by the server's gauge"),
            ("running_requests", "Requests in a slot, by the server's gauge"),
        )
    ),
    Figure(
        "mlperf_tps_per_user", "tokens.mlperf_endpoints.tps_per_user", "tokens/s",
        "Tokens per second of a user, as MLPerf Endpoints has it", "higher",
        "1,000 / p90 of the time per token in ms, at a fixed number of requests in flight",
        noun="MLPerf tps per user", streamed=True, views=(),
    ),
)  # fmt: skip
