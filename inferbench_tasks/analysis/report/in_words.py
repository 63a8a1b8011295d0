"""What a comparison of runs comes to, in a sentence for each run that is compared with the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.paired import NONE_SHOWN, NOT_DECIDED
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

#: So many figures are named; of the others only how many they are.
NAMED = 3


def in_words(runs: list[str], rows: list[dict[str, Any]]) -> list[str]:
    """``runs``: their ids, the first is what the others are compared with; ``rows``: ``Comparison.figures``.

    Nothing is said that the rows don't: better and worse are verdicts of theirs, ratios and intervals as they stand.
    Figures that people look at first are named first. What has no ratio though it differs is named too: failures where
    run 1 had none, and a percentile that one of the two lacks, which may be for its failures.
    """
    first = [figure.name for figure in FIGURES.on("list")]
    ordered = sorted(
        rows, key=lambda row: first.index(row["figure"]) if row["figure"] in first else len(first)
    )
    sentences = []
    for place in range(len(runs) - 1):
        differences = [(row["figure"], row.get(runs[0]), row["differences"][place]) for row in ordered]
        without = _without_ratio(runs[0], place, ordered, first)
        sentences.append(f"Run {place + 2}: {_sentence(differences)}{without}")
    return sentences


def _without_ratio(one: str, place: int, rows: list[dict[str, Any]], first: list[str]) -> str:
    """A sentence on figures that differ and can't be judged: one is 0, or not there in one of the two."""
    told = []
    for row in rows:
        name, figure = row["figure"], FIGURES.named(row["figure"])
        values = row.get(one), row["differences"][place].get("value")
        lacks = (values[0] is None) != (values[1] is None)
        unjudged = row["differences"][place].get("verdict") is None
        apart = None not in values and values[0] != values[1] and 0 in values and unjudged
        if figure.better is not None and (apart or (lacks and name in first)):
            why = f"; {reason}" if (reason := row["differences"][place].get("reason")) else ""
            told.append(
                f"{figure.word} ({_value(figure, values[0])} of run 1, {_value(figure, values[1])} of it{why})"
            )
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return f" Not judged, and not the same: {_listed(told[:NAMED])}{more}." if told else ""


def _value(figure: Figure, value: float | None) -> str:
    return "none" if value is None else f"{number(figure.displayed(value))} {figure.shown_unit}".rstrip()


def _sentence(differences: list[tuple[str, float | None, dict[str, Any]]]) -> str:
    counts = Counter(difference["verdict"] for _, _, difference in differences)
    if not (counts["better"] or counts["worse"] or counts[NONE_SHOWN] or counts[NOT_DECIDED]):
        return "no figure of it can be judged against run 1's."
    parts = []
    for verdict in ("better", "worse"):
        if counts[verdict]:
            mine = [each for each in differences if each[-1]["verdict"] == verdict]
            more = f" and {counts[verdict] - NAMED} more" if counts[verdict] > NAMED else ""
            parts.append(f"{verdict} in {_listed(_apart(*each) for each in mine[:NAMED])}{more}")
    if counts[NONE_SHOWN]:
        figures = "figure" if counts[NONE_SHOWN] == 1 else "figures"
        parts.append(f"no difference is shown in {counts[NONE_SHOWN]} {'other ' if parts else ''}{figures}")
    if counts[NOT_DECIDED]:
        reasons = [each[-1]["reason"] for each in differences if each[-1]["verdict"] == NOT_DECIDED]
        more = f" and {len(reasons) - NAMED} more" if len(reasons) > NAMED else ""
        parts.append(f"not decided: {_listed(reasons[:NAMED])}{more}")
    return "; ".join(parts) + "."


def _apart(name: str, first: float | None, difference: dict[str, Any]) -> str:
    """By the ratio and its interval; shares of requests have none."""
    figure = FIGURES.named(name)
    if difference["ratio"] is None:
        return (
            f"{figure.word} ({_value(figure, difference['value'])} against run 1's {_value(figure, first)})"
        )
    low, high = difference["ci95"]
    return f"{figure.word} ({difference['ratio']:.3g} times run 1's, 95%: {low:.3g} to {high:.3g})"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
