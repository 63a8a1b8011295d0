"""The recommender: an SLO and constraints in, the top three configurations out, and how sure that is.

Only valid results count. Several runs of one configuration are one candidate. The probability that a
candidate really beats the next comes from normal laws around both means: the spread between repeated runs
where there are several, a machine's usual drift (``DRIFT_RATIO``) where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: Standard deviation between two runs of the same thing, as a share of the figure: what a quiet machine
#: shows. A single run says nothing about its own.
DRIFT_RATIO = 0.05
#: From so many runs on, their own spread is trusted.
ENOUGH_RUNS = 3
#: Below this probability the order of two candidates is not settled.
SETTLED = 0.90
TOP = 3
HIGHER_IS_BETTER = frozenset({"throughput_rps", "samples_per_s", "goodput_rps", "accuracy"})
#: Objectives that are no field of their own: name -> path in a result.
_EXTRA = {
    "samples_per_s": "summary.throughput_samples_per_s",
    "cpu_cores": "summary.resources.server.cpu_cores.mean",
    "rss_bytes": "summary.resources.server.rss_bytes.max",
}
OBJECTIVES = (*(f.name for f in fields.FIELDS if f.path.startswith("summary.")), *_EXTRA)
_READ = 20_000


@dataclass(frozen=True)
class Bound:
    """``figure`` at most (or at least) ``value``."""

    figure: str
    at_most: bool
    value: float

    def __str__(self) -> str:
        return f"{self.figure} {'≤' if self.at_most else '≥'} {self.value:g}"


@dataclass
class Candidate:
    """A configuration with all its runs' documents."""

    key: str
    documents: list[dict[str, Any]] = field(default_factory=list)

    def values(self, figure: str) -> list[float]:
        """The figure of every run that has it."""
        return [v for document in self.documents if (v := value_of(document, figure)) is not None]

    def mean(self, figure: str) -> float | None:
        """None if any of its runs lacks the figure: a mean over the others would hide why."""
        values = self.values(figure)
        return sum(values) / len(values) if values and len(values) == len(self.documents) else None

    def error(self, figure: str) -> float:
        """Standard error of the mean."""
        values = self.values(figure)
        mean = sum(values) / len(values)
        spread = DRIFT_RATIO * abs(mean)
        if len(values) >= ENOUGH_RUNS:
            spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        return spread / math.sqrt(len(values))


@dataclass(frozen=True)
class Recommendation:
    """``top``: rows, best first. ``notes``: what the data can't tell, and which runs would settle it."""

    top: list[dict[str, Any]]
    notes: list[str]
    candidates: int
    fitting: int


def recommend(
    db: PerfDB, objective: str, bounds: Sequence[Bound], query: str | Iterable[str] = ""
) -> Recommendation:
    """The best configurations by ``objective`` that keep all ``bounds``, from the results that match."""
    for name in (objective, *(bound.figure for bound in bounds)):
        path_of(name)
    where = {"$and": [parse(query).filter, {"verdict": "valid"}]}
    documents = [to_plain(d) for d in db.find_raw(where, NEWEST_FIRST, _READ)]
    return choose(documents, objective, bounds)


def choose(documents: Sequence[dict[str, Any]], objective: str, bounds: Sequence[Bound]) -> Recommendation:
    """Like ``recommend``, on results at hand (plain mappings)."""
    candidates: dict[str, Candidate] = {}
    for document in documents:
        key = _key(document)
        candidates.setdefault(key, Candidate(key)).documents.append(document)
    notes = []
    fitting, unknown = [], []
    for candidate in candidates.values():
        kept = [_keeps(candidate, bound) for bound in bounds]
        if False in kept:
            continue
        if None in kept or candidate.mean(objective) is None:
            unknown.append(candidate)
        else:
            fitting.append(candidate)
    higher = objective in HIGHER_IS_BETTER
    fitting.sort(key=lambda c: (c.mean(objective) or 0.0) * (-1 if higher else 1))
    if unknown:
        notes.append(
            f"{len(unknown)} configuration(s) can't be judged: {_missing(unknown[0], objective, bounds)}. "
            f"Longer runs would tell, for instance of {describe(unknown[0])}."
        )
    if not candidates:
        notes.append("No valid result matches: run a submission with the configurations in question first.")
    elif not fitting:
        notes.append(
            f"None of {len(candidates)} configuration(s) keeps {', '.join(map(str, bounds)) or 'the bounds'}."
        )
    rows = [_row(index, fitting, objective, bounds, higher) for index in range(min(TOP, len(fitting)))]
    notes += _unsettled(rows, fitting, objective)
    return Recommendation(rows, notes, len(candidates), len(fitting))


def beats(a: Candidate, b: Candidate, objective: str, higher: bool) -> float:
    """The probability that ``a`` is really better than ``b``: P(N(mean_a - mean_b, se_a^2 + se_b^2) > 0)."""
    difference = (a.mean(objective) or 0.0) - (b.mean(objective) or 0.0)
    error = math.hypot(a.error(objective), b.error(objective))
    signed = difference if higher else -difference
    if error == 0:
        return 0.5 if signed == 0 else float(signed > 0)
    return 0.5 * (1 + math.erf(signed / error / math.sqrt(2)))


def path_of(name: str) -> str:
    """The path of a figure; InputError lists those that there are."""
    if name in _EXTRA:
        return _EXTRA[name]
    try:
        found = fields.field(name)
    except InputError as error:
        raise InputError(f"Unknown figure {name!r}; allowed: {', '.join(OBJECTIVES)}") from error
    if not found.path.startswith("summary."):
        raise InputError(f"{name!r} is no figure of a run; allowed: {', '.join(OBJECTIVES)}")
    return found.path


def value_of(document: dict[str, Any], figure: str) -> float | None:
    """A figure of a result, None if it was not measured."""
    value: Any = document
    for part in path_of(figure).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value is None else float(value)


def describe(candidate: Candidate) -> str:
    """A configuration in words."""
    document = candidate.documents[0]
    load, backend = document["load"], document["backend"]
    parts = [
        document["model"]["name"],
        document["format"],
        backend["kind"],
        *(f"{k} {v}" for k, v in (backend.get("settings") or {}).items() if isinstance(v, (int, float))),
        f"batch {load.get('batch_size')}",
        *(f"{k} {v:g}" for k, v in (load.get("arrivals") or {}).items() if isinstance(v, (int, float))),
        f"network {load.get('network')}",
    ]
    return ", ".join(str(part) for part in parts)


def _key(document: dict[str, Any]) -> str:
    """The same for runs of the same job on the same device."""
    digest = document["submission"].get("digest")
    return f"{digest or document['run_id']} {document['device'].get('name')}"


def _keeps(candidate: Candidate, bound: Bound) -> bool | None:
    """Whether every run keeps it, not only their mean; None where a run lacks the figure."""
    values = candidate.values(bound.figure)
    kept = [value <= bound.value if bound.at_most else value >= bound.value for value in values]
    if False in kept:
        return False
    return True if len(values) == len(candidate.documents) else None


def _missing(candidate: Candidate, objective: str, bounds: Sequence[Bound]) -> str:
    names = [b.figure for b in bounds if len(candidate.values(b.figure)) < len(candidate.documents)]
    if candidate.mean(objective) is None:
        names.append(objective)
    return f"no {', '.join(dict.fromkeys(names))} was measured (too few requests, or no source)"


def _row(
    index: int, fitting: list[Candidate], objective: str, bounds: Sequence[Bound], higher: bool
) -> dict[str, Any]:
    candidate = fitting[index]
    mean, error = candidate.mean(objective), candidate.error(objective)
    assert mean is not None
    following = fitting[index + 1] if index + 1 < len(fitting) else None
    return {
        "rank": index + 1,
        "configuration": describe(candidate),
        objective: mean,
        "ci95": [mean - 1.96 * error, mean + 1.96 * error],
        **{bound.figure: candidate.mean(bound.figure) for bound in bounds if bound.figure != objective},
        "runs": len(candidate.documents),
        "beats_next_probability": beats(candidate, following, objective, higher) if following else None,
        "run": candidate.documents[0]["run_id"],
    }


def _unsettled(rows: list[dict[str, Any]], fitting: list[Candidate], objective: str) -> list[str]:
    """What to run so that the order becomes sure."""
    notes = []
    for row, candidate, following in zip(rows, fitting, fitting[1:], strict=False):
        probability = row["beats_next_probability"]
        if probability is not None and probability < SETTLED:
            wanted = (
                max(0, ENOUGH_RUNS - min(len(candidate.documents), len(following.documents))) or ENOUGH_RUNS
            )
            notes.append(
                f"Rank {row['rank']} beats the next with probability {probability:.0%} only: {wanted} more "
                f"run(s) of both would settle it ({describe(candidate)}; {describe(following)})."
            )
    if any(len(candidate.documents) < ENOUGH_RUNS for candidate in fitting[:TOP]):
        notes.append(
            f"Intervals of {objective} with fewer than {ENOUGH_RUNS} runs assume a drift of {DRIFT_RATIO:.0%} "
            "between runs; repeat them to measure it."
        )
    return notes
