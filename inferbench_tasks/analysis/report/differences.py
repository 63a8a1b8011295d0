"""Two to six runs side by side: what was asked differently, how their figures differ, and how sure that is.

A difference of one run from another mixes what was changed with what changes anyway between two runs of the
same thing. That spread comes from the repeated runs of each configuration and, where there are few, from what a
quiet machine shows (see ``certainty``); the error within a run is its floor. A difference counts as shown from a
probability of ``recommend.SETTLED`` on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferbench_tasks.analysis.recommend import certainty
from inferbench_tasks.analysis.recommend.recommender import SETTLED
from inferbench_tasks.analysis.report.replay import environment_differences
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.dotted import last
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.comparison import compare
from inferbench_tasks.perfdb.documents import ResultDocument

NORMAL_95 = 1.959964
NONE_SHOWN = "no difference shown"
#: Run id -> figure -> its values in the valid runs of the same configuration.
Repeats = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Difference:
    """A figure of a run against the first run's.

    ``ratio``: value / first; ``ci95``: its 95% interval; ``probability``: that the sign of the difference is
    real; ``verdict``: better, worse or "no difference shown". All None where they can't be told.
    """

    run: str
    value: float | None
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    probability: float | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Comparison:
    """``settings`` and ``environment``: {field, values by run}; ``figures``: {figure, first's, differences}.

    ``labels``: run id -> what tells it from the others.
    """

    runs: list[str]
    labels: dict[str, str]
    settings: list[dict[str, Any]]
    figures: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compare_runs(views: Sequence[RunView], repeats: Repeats | None = None) -> Comparison:
    """The first against each of the others; every view has a result."""
    results = [view.result for view in views if view.result is not None]
    names = [result.run_id for result in results]
    known = repeats or {}
    figures = []
    for name, figure in FIGURES.items():
        values = [_value(result, name) for result in results]
        if all(value is None for value in values):
            continue
        others = [difference(results[0], other, name, known) for other in results[1:]]
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
        notes=_notes(results, known),
    )


def difference(first: ResultDocument, other: ResultDocument, name: str, repeats: Repeats) -> Difference:
    """One figure of two runs.

    Relative spreads s of each give sd = sqrt(s_a^2 + s_b^2) of ln(b / a) (the delta method), judged by
    Student's t with Welch's degrees of freedom.
    """
    from scipy.stats import t

    a, b = _value(first, name), _value(other, name)
    if a is None or b is None:
        return Difference(other.run_id, b)
    if a <= 0 or b <= 0:
        return Difference(other.run_id, b, verdict=NONE_SHOWN if a == b else None)
    pooled = certainty.pooled_ratio([r.get(name, ()) for r in repeats.values() if r.get(name)])
    spreads = [_spread(result, name, repeats, pooled) for result in (first, other)]
    sd = math.hypot(*(s for s, _ in spreads))
    freedom = sd**4 / sum(s**4 / f for s, f in spreads)
    change = math.log(b / a)
    probability = float(t.cdf(abs(change) / sd, freedom))
    half = float(t.ppf(0.975, freedom)) * sd
    if probability < SETTLED:
        verdict = NONE_SHOWN
    elif FIGURES[name].better is None:
        verdict = None
    else:
        verdict = "better" if (change > 0) == FIGURES[name].higher else "worse"
    interval = (math.exp(change - half), math.exp(change + half))
    return Difference(other.run_id, b, b / a, interval, probability, verdict)


def _spread(result: ResultDocument, name: str, repeats: Repeats, pooled: float) -> tuple[float, float]:
    """Standard deviation of one run of that configuration as a share of the figure, and its freedom."""
    value = _value(result, name)
    assert value is not None
    values = repeats.get(result.run_id, {}).get(name) or [value]
    found = certainty.estimate(values, pooled)
    return max(found.sd / found.mean, _within(result, name)), found.freedom


def _within(result: ResultDocument, name: str) -> float:
    """Standard error within the run as a share of the figure, from its 95% interval; 0 where it has none."""
    figure, summary = FIGURES[name], result.summary.model_dump()
    bounds, value = figure.interval_in(summary), figure.stored(summary)
    return (bounds[1] - bounds[0]) / 2 / NORMAL_95 / value if bounds and value else 0.0


def _value(result: ResultDocument, name: str) -> float | None:
    return FIGURES[name].stored(result.summary.model_dump())


def _settings(views: Sequence[RunView], results: Sequence[ResultDocument]) -> list[dict[str, Any]]:
    """What the jobs asked differently, then what else differs of how they were run."""
    paths = list(dict.fromkeys(path for view in views for path in (view.differs or {})))
    rows = [
        {"field": path, **{view.run_id: (view.differs or {}).get(path) for view in views}} for path in paths
    ]
    asked = {last(path) for path in paths}
    return rows + [
        row for row in compare(results) if row["field"] not in FIGURES and last(row["field"]) not in asked
    ]


def _environment(results: Sequence[ResultDocument]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for other in results[1:]:
        for row in environment_differences(results[0], other):
            entry = found.setdefault(row["what"], {"field": row["what"], results[0].run_id: row["then"]})
            entry[other.run_id] = row["now"]
    # A run that does not differ from the first has the first's value.
    for entry in found.values():
        for other in results[1:]:
            entry.setdefault(other.run_id, entry[results[0].run_id])
    return list(found.values())


def _notes(results: Sequence[ResultDocument], repeats: Repeats) -> list[str]:
    notes = [
        f"{result.run_id} does not count ({result.verdict}): its figures are shown, not to be relied on."
        for result in results
        if not result.valid
    ]
    for result in results:
        ledger = (result.summary.model_extra or {}).get("interference") or {}
        if findings := [finding["text"] for finding in ledger.get("findings", [])]:
            notes.append(
                f"{result.run_id} was disturbed, which may be all of a difference: {'; '.join(findings)}."
            )
    if len({(r.model.name, r.model.digest) for r in results}) > 1:
        notes.append("The runs did not serve the same model.")
    counts = {r.run_id: max((len(v) for v in repeats.get(r.run_id, {}).values()), default=1) for r in results}
    if min(counts.values()) < 3:
        notes.append(
            "The spread between runs of the same configuration is known from few runs "
            f"({', '.join(str(count) for count in counts.values())}); a quiet machine's "
            f"{certainty.DRIFT_RATIO:.0%} is assumed beside them. Repeated runs would tell more."
        )
    return notes
