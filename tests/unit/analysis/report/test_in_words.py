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


def test_failures_where_there_were_none_are_told() -> None:
    """0 has no ratio to 4%, and a p99 that is withheld none to 20 ms: a faster run that fails is not only faster."""

    def of(figure: str, one: float | None, other: float | None) -> dict[str, Any]:
        difference = {"value": other, "ratio": None, "ci95": None, "verdict": None}
        return {"figure": figure, "a": one, "differences": [difference]}

    rows = [row("p50_ms", "better", ratio=0.5), of("error_ratio", 0.0, 0.04), of("p99_ms", 20.0, None)]
    (sentence,) = in_words(["a", "b"], rows)
    assert sentence == (
        "Run 2: better in p50 (0.5 times run 1's, 95%: 0.45 to 0.55). Not judged, and not the same: p99 (20 ms of run "
        "1, none of it), errors (0 % of run 1, 4 % of it)."
    )
    assert (
        "Not judged"
        not in in_words(["a", "b"], [of("error_ratio", 0.0, 0.0), of("accuracy_ratio", 0.9, None)])[0]
    )
