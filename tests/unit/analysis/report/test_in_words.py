"""What a comparison comes to, in a sentence."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report.in_words import in_words
from inferbench_tasks.analysis.report.paired import NONE_SHOWN


def row(figure: str, *verdicts: str | None, ratio: float = 2.0) -> dict[str, Any]:
    known = {"ratio": ratio, "ci95": (ratio * 0.9, ratio * 1.1)}
    nothing = {"ratio": None, "ci95": None}
    return {
        "figure": figure,
        "differences": [{"verdict": v, **(known if v in ("better", "worse") else nothing)} for v in verdicts],
    }


def test_better_and_worse_are_told_with_their_ratios() -> None:
    """As the rows have them, what people look at first first, and how many others show nothing."""
    rows = [
        row("rss_bytes", "worse", ratio=1.5),
        row("p99_ms", "better", ratio=0.5),
        row("p50_ms", NONE_SHOWN),
        row("cold_start_ms", None),
    ]
    assert in_words(["a", "b"], rows) == [
        "Run 2: better in p99 (0.5 times run 1's, 95%: 0.45 to 0.55); worse in RSS (1.5 times run 1's, 95%: 1.35 to "
        "1.65); no difference is shown in 1 other figure."
    ]


def test_nothing_shown_and_nothing_judged_are_not_the_same() -> None:
    """A sentence for each run but the first."""
    rows = [row("p99_ms", NONE_SHOWN, None), row("p50_ms", NONE_SHOWN, None)]
    assert in_words(["a", "b", "c"], rows) == [
        "Run 2: no difference is shown in 2 figures.",
        "Run 3: no figure of it can be judged against run 1's.",
    ]


def test_many_figures_are_counted() -> None:
    """Three are named."""
    names = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "throughput_rps")
    (sentence,) = in_words(["a", "b"], [row(name, "better") for name in names])
    assert sentence.count("times run 1's") == 3 and sentence.endswith(" and 2 more.")
