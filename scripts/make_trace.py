"""Makes the trace that comes with InferBench: conversations with a model, in the columns of public LLM traces.

    python scripts/make_trace.py configs/submissions/traces/conversations.csv

The arrivals are made, not recorded. What the generator puts in, and published traces of conversation
services show: sessions begin independently, at a rate that swings as over a day (here compressed to the five
minutes of the trace); within a session the next question follows the last answer after a think time with a
heavy tail, so that requests come in clusters; prompts grow with the conversation. The columns are those of the
Azure LLM inference traces of 2023: TIMESTAMP, ContextTokens, GeneratedTokens. The same seed makes the same file.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

START = datetime(2026, 1, 15, 9, 0, 0)  # noqa: DTZ001 - the traces' own timestamps have no zone
DURATION_S = 300.0
SESSIONS_PER_S = 2.5
SWING_RATIO = 0.6
MEAN_TURNS = 3.5
THINK_MEDIAN_S, THINK_SIGMA = 6.0, 1.0
PROMPT_MEDIAN, PROMPT_SIGMA = 180.0, 1.1
ANSWER_MEDIAN, ANSWER_SIGMA = 160.0, 0.8
LONGEST_CONTEXT = 8192


def requests(seed: int) -> list[tuple[float, int, int]]:
    """(seconds after the start, context tokens, generated tokens), ascending."""
    rng = np.random.default_rng(seed)
    # Sessions begin before the trace does, so that its first seconds are as busy as they should be.
    lead_s = 120.0
    count = rng.poisson(SESSIONS_PER_S * (1 + SWING_RATIO) * (DURATION_S + lead_s))
    begins = np.sort(rng.uniform(-lead_s, DURATION_S, count))
    share = (1 + SWING_RATIO * np.sin(2 * np.pi * (begins / DURATION_S - 0.25))) / (1 + SWING_RATIO)
    found: list[tuple[float, int, int]] = []
    for begin in begins[rng.uniform(size=count) < share]:
        at_s, context = float(begin), 0
        for _ in range(rng.geometric(1 / MEAN_TURNS)):
            context = min(LONGEST_CONTEXT, context + _tokens(rng, PROMPT_MEDIAN, PROMPT_SIGMA))
            answer = _tokens(rng, ANSWER_MEDIAN, ANSWER_SIGMA)
            if 0 <= at_s < DURATION_S:
                found.append((at_s, context, answer))
            context = min(LONGEST_CONTEXT, context + answer)
            # An answer takes about 20 ms a token; then the user reads and thinks.
            at_s += 0.02 * answer + rng.lognormal(np.log(THINK_MEDIAN_S), THINK_SIGMA)
    return sorted(found)


def _tokens(rng: np.random.Generator, median: float, sigma: float) -> int:
    return max(1, round(rng.lognormal(np.log(median), sigma)))


def text(seed: int) -> str:
    """The file's content."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for at_s, context, answer in requests(seed):
        moment = START + timedelta(microseconds=round(at_s * 1e6))
        lines.append(f"{moment:%Y-%m-%d %H:%M:%S.%f},{context},{answer}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file and say what is in it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=2026)
    asked = parser.parse_args()
    content = text(asked.seed)
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(content)
    rows = content.count("\n") - 1
    print(f"{asked.path}: {rows} requests in {DURATION_S:g} s, {rows / DURATION_S:.2f} per second")


if __name__ == "__main__":
    main()
