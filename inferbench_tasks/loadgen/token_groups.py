"""The time to the first token of groups of requests: by turn, by the prompt's length, by what a cache knew of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.summary import distribution
from inferbench_tasks.loadgen.token_window import TokenWindow

_NS_PER_MS = 1e6
#: Of a prompt's tokens those that a cache knew: none, less than half, half or more. A chat template that begins with
#: the same words for all is nearly always known, so that "any" would say nothing.
CACHED = ("none", "less than half", "half or more")


def grouped(tokens: TokenWindow, turn_step: int, ttft: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """All groups of a window; of conversations by turn, too. ``turn_step``: see ``LoadPlan``.

    Each group has ``requests`` and ``ttft_p50_ms``, by the rules of all percentiles; None throughout where ``ttft``,
    that of all requests, was withheld.
    """
    groups = {"by_prompt_tokens": by_prompt_tokens(tokens, ttft), "by_cached": by_cached(tokens, ttft)}
    return {**groups, **({"by_turn": by_turn(tokens, turn_step, ttft)} if turn_step else {})}


def by_turn(tokens: TokenWindow, turn_step: int, ttft: dict[str, Any]) -> list[dict[str, Any]]:
    """``turn``, from 1: of all requests that were due in it, so that what failed there counts there."""
    window = tokens.window
    turn = window.request_id // turn_step
    rows = []
    for number in np.unique(turn[window.measured]).tolist():
        due = window.measured & (turn == number)
        rows.append(
            {
                "turn": number + 1,
                "requests": int(due.sum()),
                "ttft_p50_ms": _p50(tokens, due, ttft, all_due=True),
            }
        )
    return rows


def by_prompt_tokens(tokens: TokenWindow, ttft: dict[str, Any]) -> list[dict[str, Any]]:
    """``from_tokens`` and ``to_tokens``, both within: from each power of two to the next, by the server's count.

    Of good answers: how long the prompts of the others were, the server did not say.
    """
    told = tokens.window.answered & (tokens.prompt_tokens > 0)
    octave = np.zeros(len(told), np.int64)
    octave[told] = np.frexp(tokens.prompt_tokens[told].astype(np.float64))[1] - 1
    rows = []
    for power in np.unique(octave[told]).tolist():
        of = told & (octave == power)
        bounds = {"from_tokens": 2**power, "to_tokens": 2 ** (power + 1) - 1}
        rows.append({**bounds, "requests": int(of.sum()), "ttft_p50_ms": _p50(tokens, of, ttft)})
    return rows


def by_cached(tokens: TokenWindow, ttft: dict[str, Any]) -> list[dict[str, Any]]:
    """``cached``: a name of ``CACHED``, by the server's count; empty where it tells of no answer. Of good answers."""
    cached = tokens.from_cache
    told = tokens.window.answered & (cached >= 0) & (tokens.prompt_tokens > 0)
    twice = 2 * cached
    masks = (twice == 0, (twice > 0) & (twice < tokens.prompt_tokens), twice >= tokens.prompt_tokens)
    return [
        {"cached": name, "requests": int(of.sum()), "ttft_p50_ms": _p50(tokens, of, ttft)}
        for name, of in _those_there((name, told & mask) for name, mask in zip(CACHED, masks, strict=True))
    ]


def _those_there(
    groups: Iterable[tuple[str, NDArray[np.bool_]]],
) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    return ((name, of) for name, of in groups if of.any())


def _p50(
    tokens: TokenWindow, of: NDArray[np.bool_], ttft: dict[str, Any], *, all_due: bool = False
) -> float | None:
    """The median of a group's good answers. ``all_due``: the group has its failed requests, too.

    Else nobody knows which group those that failed belong to: all of them may belong to this one.
    """
    window = tokens.window
    if "p50" in ttft.get("withheld", {}):
        return None
    first, good = tokens.first_token_ns, of & window.ok
    lost = int(((of if all_due else window.measured) & ~window.ok).sum())
    p50: float | None = distribution(
        (first - window.intended_ns)[good & (first >= 0)] / _NS_PER_MS,
        failed_ratio=lost / max(1, lost + int(good.sum())),
        with_intervals=False,
    )["p50"]
    return p50
