"""The figures of streamed tokens, see ``docs/explanation/token-figures.md``; plain values, None where undefined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.early_stopping import decide
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES, clustered_intervals
from inferbench_tasks.loadgen.summary import bounded, distribution, worth_as_stored
from inferbench_tasks.loadgen.token_records import FIRST_BY
from inferbench_tasks.loadgen.token_series import gap_histogram, tokens_per_second
from inferbench_tasks.loadgen.token_window import TokenWindow

_NS_PER_MS = 1e6
#: Times between chunks are of so many requests at least: those of one say nothing of another's.
_LEAST_REQUESTS = FLOORS[0.5]


@dataclass(frozen=True)
class Each:
    """What a request must keep to be good, ms, and the share of all that must; None: nothing."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    latency_ms: float | None = None
    min_good_ratio: float | None = None

    def bounds(self) -> dict[str, float]:
        """Those of a request that are given."""
        times = {"ttft_ms": self.ttft_ms, "tpot_ms": self.tpot_ms, "latency_ms": self.latency_ms}
        return {name: bound for name, bound in times.items() if bound is not None}


def summarise_tokens(tokens: TokenWindow, each: Each) -> dict[str, Any]:
    """The figures of the window's streams."""
    window = tokens.window
    answered = window.answered
    seconds = window.duration_s
    reasons: dict[str, str] = {}
    gaps_ns, gap_row = tokens.gaps(answered)
    exact = answered & (tokens.chunks == tokens.output_tokens)
    output = tokens.tokens_within(window.ok)
    if output is None:
        reasons["output_tokens_per_s"] = (
            "nobody counted the tokens of every answer: the server tells no `usage` at its end, and there is no "
            "tokenizer that knows its text and finds a token for each chunk"
        )
    prompted = (
        window.ok & (tokens.first_token_ns > window.start_ns) & (tokens.first_token_ns <= window.end_ns)
    )
    told = bool((tokens.prompt_tokens[prompted] >= 0).all())
    prompt = float(tokens.prompt_tokens[prompted].sum()) if told else None
    if not told:
        reasons["input_tokens_per_s"] = "the server does not tell the tokens of every prompt (no `usage`)"
    buffered = int((tokens.buffered & answered).sum())
    if buffered:
        reasons["tpot_ms"] = (
            f"{buffered} of {int(answered.sum())} streams came at once: something between the model and this "
            "client's read kept them back, and when their tokens were made is not known"
        )
    elif uncounted := int((answered & ~tokens.counted).sum()):
        reasons["tpot_ms"] = (
            f"of {uncounted} of {int(answered.sum())} answers nobody counted the tokens: no `usage` at the end, no "
            "tokenizer"
        )
    thought = answered & (tokens.first_output_ns < 0) & (tokens.first_token_ns >= 0)
    if thought.any():
        reasons["ttft_output_ms"] = (
            f"{int(thought.sum())} of {int(answered.sum())} answers ended while they reasoned: they count as if they "
            "had failed"
        )
    counted = answered & tokens.counted
    summary: dict[str, Any] = {
        "stamp": {
            "by": "kernel" if tokens.stamped_by_kernel else "read",
            "kernel_ratio": _ratio((tokens.chunk_waited_us >= 0).sum(), len(tokens.chunk_waited_us)),
            "shared_read_ratio": _shared_read_ratio(tokens, answered),
        },
        **_times(tokens),
        "gap_ms": _pooled(tokens, gaps_ns, gap_row),
        "itl_ms": _pooled(tokens, gaps_ns, gap_row) if answered.any() and exact[answered].all() else None,
        "stall_ms": _whole(tokens, stalls_ns(gaps_ns, gap_row)),
        "tokens_per_chunk": _ratio(tokens.output_tokens[counted].sum(), tokens.chunks[counted].sum()),
        "output_tokens_by": {
            "usage": int((counted & ~tokens.by_tokenizer).sum()),
            "tokenizer": int((counted & tokens.by_tokenizer).sum()),
            "nobody": int((answered & ~tokens.counted).sum()),
        },
        "prompt_tokens_mean": _mean(tokens.prompt_tokens, answered),
        "output_tokens_mean": _mean(tokens.output_tokens, answered),
        "output_tokens_per_s": None if output is None else output / seconds,
        "input_tokens_per_s": None if prompt is None else prompt / seconds,
        "total_tokens_per_s": None if output is None or prompt is None else (output + prompt) / seconds,
        "cached_ratio": _cached_ratio(tokens, answered),
        "buffered": buffered,
        "over_time": tokens_per_second(tokens),
        "gaps_by_length": gap_histogram(gaps_ns),
        "cut_by_window": tokens.cut_by_window,
        "streams_in_window": int(tokens.in_window.sum()),
        "first_chunk_tokens_by": {
            name: int(np.count_nonzero(answered & (tokens.first_chunk_by.clip(0) == code)))
            for code, name in enumerate(FIRST_BY)
        },
        **_goodness(tokens, each, reasons),
    }
    return {**summary, "reasons": reasons}


def _times(tokens: TokenWindow) -> dict[str, Any]:
    window = tokens.window
    first, last, output = tokens.first_token_ns, tokens.last_token_ns, tokens.first_output_ns
    reasoned = (
        window.answered & (first >= 0) & (output != first)
    )  # those that never came to an end of it, too
    tpot = tokens.tpot_ns
    return {
        "ttft_ms": _from(tokens, first - window.intended_ns, first >= 0),
        "ttft_from_send_ms": _from(tokens, first - window.sent_ns, (first >= 0) & (window.sent_ns >= 0)),
        "ttft_output_ms": _from(
            tokens,
            output - window.intended_ns,
            output >= 0,
            ended=window.measured & ~(window.ok & (output >= 0)),
        )
        if reasoned.any()
        else None,
        "latency_ms": _from(tokens, last - window.intended_ns, last >= 0),
        "tpot_ms": _whole(tokens, tpot[window.answered & ~np.isnan(tpot)]),
        "user_tokens_per_s": _whole(tokens, _inverse(tpot[window.answered & (tpot > 0)])),
    }


def _inverse(tpot_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Tokens per second, as if they were ns: what follows divides by ns per ms."""
    return 1e9 / tpot_ns * _NS_PER_MS


def _from(
    tokens: TokenWindow,
    values_ns: NDArray[np.int64],
    there: NDArray[np.bool_],
    ended: NDArray[np.bool_] | None = None,
) -> dict[str, Any]:
    """A time of the good answers; what failed had waited so long by then. ``ended``: what counts as failed."""
    window = tokens.window
    failed = window.measured & ~window.ok if ended is None else ended
    waited = failed & (window.done_ns >= 0)
    return distribution(
        values_ns[window.answered & there] / _NS_PER_MS,
        failed_ratio=float(failed.sum() / max(1, window.measured.sum())),
        failed_after=(window.done_ns - window.intended_ns)[waited] / _NS_PER_MS,
    )


def _whole(tokens: TokenWindow, values_ns: NDArray[Any]) -> dict[str, Any]:
    """A number of each good answer that failures say nothing of."""
    return distribution(values_ns / _NS_PER_MS, failed_ratio=tokens.window.failed_ratio)


def _pooled(tokens: TokenWindow, gaps_ns: NDArray[np.int64], row: NDArray[np.int64]) -> dict[str, Any]:
    """Times between chunks, of all requests together; those of a request belong together, which intervals know."""
    order = np.argsort(row, kind="stable")  # requests in the order of time
    values, row = gaps_ns[order] / _NS_PER_MS, row[order]
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    stats = distribution(values, with_intervals=False, failed_ratio=tokens.window.failed_ratio)
    if len(starts) < _LEAST_REQUESTS:
        return {**stats, **dict.fromkeys(NAMES.values()), "requests": len(starts)}
    return {**bounded(stats, clustered_intervals(values, starts)), "requests": len(starts)}


def stalls_ns(gaps_ns: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.int64]:
    """The longest time between two chunks of each request that has two."""
    if not len(row):
        return gaps_ns
    starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
    longest: NDArray[np.int64] = np.maximum.reduceat(gaps_ns, starts)
    return longest


def _shared_read_ratio(tokens: TokenWindow, answered: NDArray[np.bool_]) -> float | None:
    """The share of token chunks that came with another one in a read: they carry its moment, not their own."""
    return _ratio((tokens.chunks - tokens.reads)[answered].sum(), tokens.chunks[answered].sum())


def _cached_ratio(tokens: TokenWindow, answered: NDArray[np.bool_]) -> float | None:
    cached = tokens.from_cache
    told = answered & (cached >= 0) & (tokens.prompt_tokens >= 0)
    return _ratio(cached[told].sum(), tokens.prompt_tokens[told].sum())


def _goodness(tokens: TokenWindow, each: Each, reasons: dict[str, str]) -> dict[str, Any]:
    """What is good of all that was due; without a bound every answer is."""
    window = tokens.window
    due, answered = int(window.measured.sum()), window.answered
    tpot = tokens.tpot_ns
    kept = {
        "ttft_ms": tokens.first_token_ns - window.intended_ns <= (each.ttft_ms or 0) * _NS_PER_MS,
        "tpot_ms": tokens.single | tokens.at_once | (tpot <= (each.tpot_ms or 0) * _NS_PER_MS),
        "latency_ms": tokens.last_token_ns - window.intended_ns <= (each.latency_ms or 0) * _NS_PER_MS,
    }
    bounds = each.bounds()
    unknown = answered & np.isnan(tpot) & ~tokens.single & ~tokens.at_once
    undecided = int(unknown.sum()) if "tpot_ms" in bounds else 0
    ratios = {name: _ratio((answered & kept[name]).sum(), due) for name in bounds}
    worth = {name: worth_as_stored(~(answered & kept[name])[window.measured]) for name in bounds}
    nothing = dict.fromkeys(("good", "good_ratio", "goodput_rps", "good_tokens_per_s", "good_decision"))
    if undecided:
        reasons["good_ratio"] = f"of {undecided} answers the time per token is not known, which has a bound"
        return {"each": bounds, **nothing, "kept_ratio": {**ratios, "tpot_ms": None}, "worth": worth}
    every = window.ok.copy()
    for name in bounds:
        every &= kept[name]
    good = every & answered
    # As output_tokens_per_s: of all good answers that the window has tokens of, due in it or in the warm-up.
    count, made = int(good.sum()), tokens.tokens_within(every)
    return {
        "each": bounds,
        "good": count,
        "good_ratio": _ratio(count, due),
        "good_decision": _decision(good[window.measured], each.min_good_ratio),
        "goodput_rps": count / window.duration_s,
        "good_tokens_per_s": None if made is None else made / window.duration_s,
        "kept_ratio": ratios,
        "worth": worth | {"good_ratio": worth_as_stored(~good[window.measured])},
    }


def _decision(good: NDArray[np.bool_], least: float | None) -> dict[str, Any] | None:
    """Whether enough of the requests, in the order of their moments, were good, beyond chance; None without a bound."""
    if least is None:
        return None
    decision = decide(~good, least)
    return {
        "met": decision.met,
        "over": decision.over,
        "requests": decision.requests,
        "worth_requests": decision.worth,
        "needed_requests": decision.needed_requests,
        "reason": decision.reason,
    }


def _mean(values: NDArray[np.int64], of: NDArray[np.bool_]) -> float | None:
    """Of those that the server told; None where it told none."""
    told = values[of & (values >= 0)]
    return float(told.mean()) if len(told) else None


def _ratio(part: Any, whole: Any) -> float | None:
    return float(part) / float(whole) if whole else None


def by_reason(summary: Mapping[str, Any]) -> dict[str, list[str]]:
    """Reason -> the figures of ``summarise_tokens`` that have none for it: one that is of several is told once."""
    lacking: dict[str, list[str]] = {}
    for name, reason in (summary.get("reasons") or {}).items():
        lacking.setdefault(reason, []).append(name)
    return lacking
