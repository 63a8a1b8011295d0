"""Two to six runs side by side: what was asked differently, how their figures differ, and how sure that is.

A difference of one run from another mixes what was changed with what changes anyway between two runs of the
same thing. That spread comes from the repeated runs of each configuration and, where there are few, from what a
quiet machine shows. Of sixteen figures one differs by chance more often than not, so the intervals hold for all
figures together (``certainty.Change.interval``), and a difference is claimed where its interval excludes 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferbench_tasks.analysis.certainty import Change, of_result, pooled_ratio
from inferbench_tasks.analysis.lacking import lack_of
from inferbench_tasks.analysis.report import cpu_checks
from inferbench_tasks.analysis.report.alike import not_alike, unlike
from inferbench_tasks.analysis.report.difference_notes import Repeats, notes_of, searched
from inferbench_tasks.analysis.report.in_words import in_words
from inferbench_tasks.analysis.report.paired import NONE_SHOWN as NONE_SHOWN
from inferbench_tasks.analysis.report.paired import NOT_DECIDED, Blocks
from inferbench_tasks.analysis.report.replay import environment_differences
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.stated import NOT_COUNTED, no_interval, part_of, stated
from inferbench_tasks.dotted import last
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.comparison import GROUNDS, compare
from inferbench_tasks.perfdb.documents import ResultDocument


@dataclass(frozen=True)
class Difference:
    """A figure of a run against the first run's.

    ``ratio``: value / first; ``ci95``: its interval, which holds with 95% together with those of all other figures of
    the comparison; ``probability``: that the sign of this difference, looked at alone, is real; ``verdict``: better or
    worse where the interval excludes 1, else "no difference shown", or "not decided" where a run has no interval of the
    figure; ``reason``: why that is so, or why a run lacks the figure. All None where they can't be told. Shares of
    requests have no ratio: they are judged by their difference, which 0 has to be excluded from. The verdict alone is
    None where neither is better: of runs that don't count, or of unlike things (``alike``).
    """

    run: str
    value: float | None
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    probability: float | None = None
    verdict: str | None = None
    #: Over so many blocks of an interleaved sweep, by which ratio, interval and verdict then go; None of two runs.
    blocks: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Comparison:
    """``settings`` and ``environment``: {field, values by run}; ``figures``: {figure, first's, differences}.

    ``labels``: run id -> what tells it from the others. ``words``: a sentence for each run but the first.
    """

    runs: list[str]
    labels: dict[str, str]
    #: Run id -> its verdict in words.
    verdicts: dict[str, str]
    settings: list[dict[str, Any]]
    figures: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    notes: list[str]
    words: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON and tables."""
        return asdict(self)


def compare_runs(
    views: Sequence[RunView], repeats: Repeats | None = None, beside: Sequence[RunView] = ()
) -> Comparison:
    """The first against each of the others; every view has a result.

    ``beside``: the other runs of their invocation. Where these are blocks of an interleaved sweep, its pairs decide.
    """
    blocks = Blocks.among([*views, *beside])
    results = [view.result for view in views if view.result is not None]
    names = [result.run_id for result in results]
    samples = repeats or {}
    figures = []
    documents = [part_of(result) for result in results]
    by_figure = {
        name: [figure.stored(document["summary"]) for document in documents]
        for name, figure in FIGURES.items()
    }
    comparisons = sum(
        _comparable(FIGURES[name], values[0], value)
        for name, values in by_figure.items()
        if FIGURES[name].better is not None  # of the others nothing is said
        for value in values[1:]
    )
    for name, figure in FIGURES.items():
        values = by_figure[name]
        if all(value is None for value in values):
            continue
        others = [
            in_pairs(views[0], view, name, blocks, comparisons)
            or difference(results[0], other, name, samples, comparisons, (documents[0], document))
            for view, other, document in zip(views[1:], results[1:], documents[1:], strict=True)
        ]
        figures.append(
            {
                "figure": name,
                "unit": figure.unit,
                names[0]: values[0],
                "differences": [asdict(other) for other in others],
            }
        )
    return Comparison(
        runs=names,
        labels={view.run_id: view.label for view in views},
        verdicts={view.run_id: view.said for view in views},
        settings=_settings(views, results),
        figures=figures,
        environment=_environment(results),
        notes=[*pair_notes(views, blocks), *notes_of(results, samples)],
        words=in_words(names, figures),
    )


def in_pairs(
    first: RunView, other: RunView, name: str, blocks: Blocks | None, comparisons: int
) -> Difference | None:
    """One figure of two configurations over the blocks of their sweep; None where that has no pairs of them."""
    if blocks is None:
        return None
    one, two = blocks.configuration(first), blocks.configuration(other)
    if one is None or two is None or one == two:
        return None
    paired = blocks.ratio(name, one, two, comparisons)
    if paired is None:
        return None
    value = other.value(FIGURES[name])
    return Difference(
        other.run_id, value, paired.ratio, paired.ci95, paired.probability, paired.verdict, paired.blocks
    )


def pair_notes(views: Sequence[RunView], blocks: Blocks | None) -> list[str]:
    """That differences are of the blocks of a sweep, and which of these don't count."""
    if blocks is None or len({blocks.configuration(view) for view in views} - {None}) < 2:
        return []
    return [
        "These runs are of an interleaved sweep: where a difference has blocks, its ratio, interval and verdict are of "
        "the pairs of all of them, disturbed ones too, and not of these two runs.",
        *blocks.left_out,
    ]


def difference(
    first: ResultDocument,
    other: ResultDocument,
    name: str,
    repeats: Repeats,
    comparisons: int = 1,
    documents: Sequence[dict[str, Any]] = (),
) -> Difference:
    """One figure of two runs, of so many that are compared at once; the interval is that of the ratio.

    ``documents``: ``part_of`` both, where somebody has them.
    """
    figure = FIGURES[name]
    documents = documents or [part_of(result) for result in (first, other)]
    summaries = [document["summary"] for document in documents]
    a, b = (figure.stored(summary) for summary in summaries)
    if a is None or b is None:
        return Difference(other.run_id, b, reason=_of_either(figure, summaries, "has no", lack_of))
    if not figure.rate_free and (searched(first) or searched(other)):
        return Difference(other.run_id, b)
    if any(figure.unbounded_in(summary) for summary in summaries):  # a lower bound has no ratio to anything
        return Difference(other.run_id, b)
    errors = [stated(figure, document) for document in documents]
    if min(a, b) <= 0 and not all(error.plain for error in errors):
        alike = a == b and not (not_alike(first, other) or unlike(FIGURES[name], first, other))
        return Difference(other.run_id, b, verdict=NONE_SHOWN if alike else None)
    pooled = pooled_ratio([r.get(name, ()) for r in repeats.values() if r.get(name)], share=figure.share)
    change = Change.between(
        *(
            of_result(
                figure,
                value,
                repeats.get(result.run_id, {}).get(name) or (),
                pooled,
                error,
            )
            for result, value, error in zip((first, other), (a, b), errors, strict=True)
        )
    )
    reason = None
    if (
        not_alike(first, other)
        or unlike(figure, first, other)
        or (name == cpu_checks.CPU and cpu_checks.differ(*summaries))
    ):
        verdict = None
    elif not change.excludes_none(comparisons):
        reason = _of_either(figure, summaries, "has no interval of its", no_interval)
        if reason is None and not all(error.bounded for error in errors):
            reason = f"a run has no interval of its {figure.word}: {NOT_COUNTED}"
        verdict = NOT_DECIDED if reason else NONE_SHOWN
    elif figure.better is None:
        verdict = None
    else:
        verdict = "better" if (b > a) == figure.higher else "worse"
    if not change.shares:
        return Difference(other.run_id, b, probability=change.probability, verdict=verdict, reason=reason)
    low, high = change.interval(comparisons)
    interval = math.exp(low), math.exp(high)
    return Difference(other.run_id, b, b / a, interval, change.probability, verdict, reason=reason)


def _of_either(
    figure: Figure,
    summaries: Sequence[Mapping[str, Any]],
    what: str,
    why: Callable[[Figure, Mapping[str, Any]], object],
) -> str | None:
    """Which of the two runs that holds of and why, in words; None where it holds of neither."""
    names = ("run 1", "this run")
    found = [(name, text) for name, each in zip(names, summaries, strict=True) if (text := why(figure, each))]
    return "; ".join(f"{name} {what} {figure.word} ({text})" for name, text in found) or None


def _comparable(figure: Figure, a: float | None, b: float | None) -> bool:
    """Whether two values have a ratio, or are shares of requests, which are judged by their difference."""
    if a is None or b is None:
        return False
    return (a > 0 and b > 0) or figure.share_of is not None


def _settings(views: Sequence[RunView], results: Sequence[ResultDocument]) -> list[dict[str, Any]]:
    """What the jobs asked differently, then what else differs of how they were run."""
    paths = list(dict.fromkeys(path for view in views for path in (view.differs or {})))
    rows = [
        {"field": path, **{view.run_id: (view.differs or {}).get(path) for view in views}} for path in paths
    ]
    names = {last(path) for path in paths}
    return rows + [
        row
        for row in compare(results)
        # A verdict is what came of a run, and so is how its energy was got: nobody asked for it.
        if row["field"] not in (*FIGURES, "verdict", *GROUNDS) and last(row["field"]) not in names
    ]


def _environment(results: Sequence[ResultDocument]) -> list[dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for other in results[1:]:
        for row in environment_differences(results[0], other):
            entry = entries.setdefault(row["what"], {"field": row["what"], results[0].run_id: row["then"]})
            entry[other.run_id] = row["now"]
    # A run that does not differ from the first has the first's value.
    for entry in entries.values():
        for other in results[1:]:
            entry.setdefault(other.run_id, entry[results[0].run_id])
    return list(entries.values())
