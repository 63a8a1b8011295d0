"""Two to six runs side by side: what was asked differently, how their figures differ, and how sure that is.

A difference of one run from another mixes what was changed with what changes anyway between two runs of the
same thing. That spread comes from the repeated runs of each configuration and, where there are few, from what a
quiet machine shows. Of sixteen figures one differs by chance more often than not, so the intervals hold for all
figures together (``certainty.Change.interval``), and a difference is claimed where its interval excludes 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferbench_tasks.analysis.certainty import DRIFT_RATIO, Change, of_result, pooled_ratio
from inferbench_tasks.analysis.report import cpu_checks
from inferbench_tasks.analysis.report.alike import (
    judged_on_others,
    loads_differ,
    not_alike,
    rates_of_their_own,
    unlike,
)
from inferbench_tasks.analysis.report.in_words import in_words
from inferbench_tasks.analysis.report.paired import NONE_SHOWN as NONE_SHOWN
from inferbench_tasks.analysis.report.paired import Blocks
from inferbench_tasks.analysis.report.replay import environment_differences
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.stated import part_of, stated
from inferbench_tasks.dotted import last
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.comparison import compare
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import is_search, offered

#: Run id -> figure -> its values in the valid runs of the same configuration.
Repeats = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Difference:
    """A figure of a run against the first run's.

    ``ratio``: value / first; ``ci95``: its interval, which holds with 95% together with those of all other figures of
    the comparison; ``probability``: that the sign of this difference, looked at alone, is real; ``verdict``: better or
    worse where the interval excludes 1, else "no difference shown". All None where they can't be told. Shares of
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


@dataclass(frozen=True)
class Comparison:
    """``settings`` and ``environment``: {field, values by run}; ``figures``: {figure, first's, differences}.

    ``labels``: run id -> what tells it from the others. ``words``: a sentence for each run but the first.
    """

    runs: list[str]
    labels: dict[str, str]
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
    by_figure = {name: [_value(result, name) for result in results] for name in FIGURES}
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
            or difference(results[0], other, name, samples, comparisons)
            for view, other in zip(views[1:], results[1:], strict=True)
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
        settings=_settings(views, results),
        figures=figures,
        environment=_environment(results),
        notes=[*pair_notes(views, blocks), *_cpu_notes(results), *_notes(results, samples)],
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
    first: ResultDocument, other: ResultDocument, name: str, repeats: Repeats, comparisons: int = 1
) -> Difference:
    """One figure of two runs, of so many that are compared at once; the interval is that of the ratio."""
    a, b = _value(first, name), _value(other, name)
    if a is None or b is None:
        return Difference(other.run_id, b)
    figure = FIGURES[name]
    if not figure.rate_free and (_searched(first) or _searched(other)):
        return Difference(other.run_id, b)
    summaries = [result.summary.model_dump() for result in (first, other)]
    if any(figure.unbounded_in(summary) for summary in summaries):  # a lower bound has no ratio to anything
        return Difference(other.run_id, b)
    errors = [stated(figure, part_of(result)) for result in (first, other)]
    if min(a, b) <= 0 and not all(error.plain for error in errors):
        alike = a == b and not (not_alike(first, other) or unlike(FIGURES[name], first, other))
        return Difference(other.run_id, b, verdict=NONE_SHOWN if alike else None)
    pooled = pooled_ratio([r.get(name, ()) for r in repeats.values() if r.get(name)])
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
    if (
        not_alike(first, other)
        or unlike(figure, first, other)
        or (name == cpu_checks.CPU and cpu_checks.differ(*summaries))
    ):
        verdict = None
    elif not change.excludes_none(comparisons):
        verdict = NONE_SHOWN
    elif figure.better is None:
        verdict = None
    else:
        verdict = "better" if (b > a) == figure.higher else "worse"
    if not change.shares:
        return Difference(other.run_id, b, probability=change.probability, verdict=verdict)
    low, high = change.interval(comparisons)
    return Difference(other.run_id, b, b / a, (math.exp(low), math.exp(high)), change.probability, verdict)


def _comparable(figure: Figure, a: float | None, b: float | None) -> bool:
    """Whether two values have a ratio, or are shares of requests, which are judged by their difference."""
    if a is None or b is None:
        return False
    return (a > 0 and b > 0) or figure.share_of is not None


def _searched(result: ResultDocument) -> bool:
    """Whether it searched for its rate, so that its latencies are of a rate of its own."""
    return is_search(offered(result.model_dump(include={"load"})["load"]))


def _value(result: ResultDocument, name: str) -> float | None:
    return FIGURES[name].stored(result.summary.model_dump())


def _settings(views: Sequence[RunView], results: Sequence[ResultDocument]) -> list[dict[str, Any]]:
    """What the jobs asked differently, then what else differs of how they were run."""
    paths = list(dict.fromkeys(path for view in views for path in (view.differs or {})))
    rows = [
        {"field": path, **{view.run_id: (view.differs or {}).get(path) for view in views}} for path in paths
    ]
    names = {last(path) for path in paths}
    return rows + [
        row for row in compare(results) if row["field"] not in FIGURES and last(row["field"]) not in names
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


def _cpu_notes(results: Sequence[ResultDocument]) -> list[str]:
    """Whether CPU times are of one clock and of cores that were shared alike."""
    summaries = [result.summary.model_dump() for result in results]
    if any(FIGURES[cpu_checks.CPU].stored(summary) is None for summary in summaries):
        return []
    notes = [
        f"The CPU time of {results[0].run_id} and {other.run_id} is not compared: {text}."
        for other, summary in zip(results[1:], summaries[1:], strict=True)
        if (text := cpu_checks.differ(summaries[0], summary))
    ]
    if text := cpu_checks.unknown(*summaries):
        notes.append(f"CPU times are compared as if clocks were the same, and cores shared alike: {text}.")
    return notes


def _on_pair(first: ResultDocument, other: ResultDocument) -> tuple[str | None, ...]:
    return (
        not_alike(first, other),
        loads_differ(first, other),
        rates_of_their_own(first, other),
        judged_on_others(first, other),
    )


def _notes(results: Sequence[ResultDocument], repeats: Repeats) -> list[str]:
    pairs = [(results[0], other) for other in results[1:]]
    notes = [text for pair in pairs for text in _on_pair(*pair) if text]
    notes = list(dict.fromkeys(notes))
    if len({result.summary.energy.method for result in results} - {None}) > 1:
        notes.append("Their energies were got by different methods, which measure different things.")
    for result in results:
        ledger = (result.summary.model_extra or {}).get("interference") or {}
        if findings := [finding["text"] for finding in ledger.get("findings", [])]:
            notes.append(
                f"{result.run_id} was disturbed, which may be all of a difference: {'; '.join(findings)}."
            )
    if any(map(_searched, results)):
        notes.append(
            "A run that searched for its highest rate has its latencies, and what else depends on the rate, at a rate "
            "of its own: these are shown and not compared."
        )
    if len({(r.model.name, r.model.digest) for r in results}) > 1:
        notes.append("The runs did not serve the same model.")
    counts = {r.run_id: max((len(v) for v in repeats.get(r.run_id, {}).values()), default=1) for r in results}
    if min(counts.values()) < 3:
        notes.append(
            "The spread between runs of the same configuration is known from few runs "
            f"({', '.join(str(count) for count in counts.values())}); a quiet machine's "
            f"{DRIFT_RATIO:.0%} is assumed beside them. Repeated runs would tell more."
        )
    return notes
