"""Two to six runs side by side: what was asked differently, how their figures differ, and how sure that is.

A difference of one run from another mixes what was changed with what changes anyway between two runs of the
same thing. Both are put together as normal laws: the error within a run (its 95% interval, where it has
one) and a machine's usual drift between runs (``recommend.DRIFT_RATIO``). A difference counts as real from
a probability of ``recommend.SETTLED`` on; several runs of each would tell more, and the note says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferbench_tasks.analysis.recommend import DRIFT_RATIO, HIGHER_IS_BETTER, SETTLED
from inferbench_tasks.analysis.replay import environment_differences
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.comparison import FIGURES, compare
from inferbench_tasks.perfdb.documents import ResultDocument

_LATENCY = "summary.e2e_latency_ms."
NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Difference:
    """A figure of a run against the first run's.

    ``ratio``: value / first; ``ci95``: its 95% interval; ``probability``: that the sign of the
    difference is real; ``verdict``: better, worse or "no difference shown". All None without both values.
    """

    run: str
    value: float | None
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    probability: float | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Comparison:
    """``settings`` and ``environment``: {field, values by run}; ``figures``: {figure, first, differences}."""

    runs: list[str]
    settings: list[dict[str, Any]]
    figures: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compare_runs(results: Sequence[ResultDocument]) -> Comparison:
    """The first against each of the others."""
    names = [result.run_id for result in results]
    table = compare(results)
    settings = [row for row in table if row["field"] not in FIGURES]
    figures = []
    for name in FIGURES:
        figure = fields.field(name)
        values = [figure.value(result.model_dump()) for result in results]
        if all(value is None for value in values):
            continue
        others = [difference(results[0], other, name) for other in results[1:]]
        figures.append(
            {
                "figure": name,
                "unit": figure.help,
                names[0]: values[0],
                "differences": [asdict(other) for other in others],
            }
        )
    return Comparison(names, settings, figures, _environment(results), _notes(results))


def difference(first: ResultDocument, other: ResultDocument, name: str) -> Difference:
    """One figure of two runs.

    On a logarithmic scale: sd^2 = 2 DRIFT_RATIO^2 + (se_a / a)^2 + (se_b / b)^2, the delta method for a
    ratio of two independent figures; probability = Phi(|ln ratio| / sd).
    """
    figure = fields.field(name)
    a, b = figure.value(first.model_dump()), figure.value(other.model_dump())
    if a is None or b is None:
        return Difference(other.run_id, b)
    if a <= 0 or b <= 0:
        equal = a == b
        return Difference(other.run_id, b, verdict="no difference shown" if equal else None)
    spread = math.sqrt(
        2 * DRIFT_RATIO**2 + _relative_error(first, figure) ** 2 + _relative_error(other, figure) ** 2
    )
    change = math.log(b / a)
    probability = 0.5 * (1 + math.erf(abs(change) / spread / math.sqrt(2)))
    half = NORMAL_95 * spread
    if probability < SETTLED:
        verdict = "no difference shown"
    else:
        verdict = "better" if (change > 0) == (name in HIGHER_IS_BETTER) else "worse"
    return Difference(
        other.run_id, b, b / a, (math.exp(change - half), math.exp(change + half)), probability, verdict
    )


def _relative_error(result: ResultDocument, figure: fields.Field) -> float:
    """Standard error within the run as a share of the figure, from its 95% interval; 0 where it has none."""
    if not figure.path.startswith(_LATENCY):
        return 0.0
    bounds = (result.summary.e2e_latency_ms.ci95 or {}).get(figure.path.removeprefix(_LATENCY))
    value = figure.value(result.model_dump())
    if not bounds or not value:
        return 0.0
    return float((bounds[1] - bounds[0]) / 2 / NORMAL_95 / value)


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


def _notes(results: Sequence[ResultDocument]) -> list[str]:
    notes = [
        f"{result.run_id} does not count ({result.verdict}): its figures are shown, not to be relied on."
        for result in results
        if not result.valid
    ]
    digests = {(r.model.name, r.model.digest) for r in results}
    if len(digests) > 1:
        notes.append("The runs did not serve the same model.")
    notes.append(
        f"One run of each: between two runs of the same thing a quiet machine differs by {DRIFT_RATIO:.0%} "
        "(standard deviation), which the intervals take into account. Repeated runs would tell more."
    )
    return notes
