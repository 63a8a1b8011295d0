"""The rows of the table of figures that are of streamed tokens; a run whose answers come whole has none of them."""

from __future__ import annotations

from inferbench_tasks.figure import Better, Figure

_PERCENTILES = {"mean": "Mean", "p50": "Median", "p90": "p90", "p99": "p99"}


def _times(
    name: str, path: str, title: str, formula: str, noun: str, *, intervals: bool = True
) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            f"{name}_{percentile}_ms", f"tokens.{path}.{percentile}", "ms", f"{word} {title}", "lower", formula,
            noun=f"{noun} {percentile}", interval=f"tokens.{path}.ci95.{percentile}" if intervals else None,
            streamed=True, views=(),
        )
        for percentile, word in _PERCENTILES.items()
    )  # fmt: skip


def _one(
    name: str, unit: str, title: str, better: Better | None, formula: str, *, share: bool = False
) -> Figure:
    return Figure(
        name, f"tokens.{name}", unit, title, better, formula, streamed=True, views=(),
        display_unit="%" if share else None, display_factor=100 if share else 1.0,
    )  # fmt: skip


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
        "tpot", "tpot_ms", "time per output token",
        "(c_m - c_1) / (N - n_1): from the first chunk to the last / the tokens after the first chunk", "TPOT",
    ),
    *_times(
        "gap", "gap_ms", "gap between chunks",
        "c_(j+1) - c_j between chunks with tokens, of all requests together", "gap", intervals=False,
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
        "higher", "1 / TPOT of each request", noun="user tokens/s",
        interval="tokens.user_tokens_per_s.ci95.p50", streamed=True, views=(),
    ),
    _one(
        "output_tokens_per_s", "tokens/s", "Output tokens per second", "higher",
        "tokens of good answers that arrived within the window / its length; a chunk's tokens arrive with it",
    ),
    _one(
        "input_tokens_per_s", "tokens/s", "Input tokens per second", "higher",
        "prompt tokens of the good answers whose first token arrived within the window / its length",
    ),
    _one(
        "total_tokens_per_s", "tokens/s", "Tokens per second", "higher", "output + input tokens per second",
    ),
    _one(
        "good_tokens_per_s", "tokens/s", "Output tokens per second of good requests", "higher",
        "tokens of the good requests that arrived within the window / its length",
    ),
    _one(
        "good_ratio", "1", "Share of good requests", "higher",
        "requests without error that kept every bound / all that were due, failed and dropped ones included",
        share=True,
    ),
    _one(
        "tokens_per_chunk", "tokens", "Tokens per chunk", None, "N / m: output tokens by usage / chunks with tokens",
    ),
    _one(
        "cached_ratio", "1", "Share of prompt tokens from the server's cache", None,
        "sum of cached / sum of prompt tokens, by usage", share=True,
    ),
)  # fmt: skip
