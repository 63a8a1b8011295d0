"""The recommender: an SLO and constraints in, the top three configurations out, and how sure that is.

Only valid results count. Several runs of one configuration are one candidate. How sure the order is, and whether a
bound is really kept, comes from the spread between runs (see ``certainty``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from inferbench_tasks.analysis.recommend import certainty
from inferbench_tasks.analysis.recommend.candidates import (
    SIZE_FIGURES,
    Bound,
    Candidate,
    describe,
    per_request_note,
    within_sd,
)
from inferbench_tasks.analysis.recommend.certainty import DRIFT_RATIO, MOST_RUNS, Estimate
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.held import Row, configuration, configuration_of, held, identity
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

__all__ = ["DRIFT_RATIO", "SETTLED", "Bound", "Candidate", "Recommendation", "choose", "recommend"]

#: Below this probability the order of two candidates, or that one keeps a bound, is not settled.
SETTLED = 0.90
TOP = 3


@dataclass(frozen=True)
class Recommendation:
    """``top``: rows, best first. ``notes``: what the data can't tell, and which runs would settle it;
    ``wanted``: those runs, as candidates' keys, the most useful first.
    """

    top: list[dict[str, Any]]
    notes: list[str]
    candidates: int
    fitting: int
    wanted: tuple[str, ...] = ()


def recommend(
    db: PerfDB, objective: str, bounds: Sequence[Bound], query: str | Iterable[str] = ""
) -> Recommendation:
    """The best configurations by ``objective`` that keep all ``bounds``, from the results that match."""
    figure = FIGURES.ranking(objective)
    names = [figure.name, *(bound.figure for bound in bounds), *(SIZE_FIGURES if figure.per_sample else ())]
    known = held(db)
    read = {name: known.values(FIGURES.named(name).field_path) for name in names}
    runs: dict[str, list[Row]] = {}
    for row in known.rows(parse(query).filter):
        runs.setdefault(configuration(row), []).append(row)
    candidates = [
        Candidate(key, figures={name: [*map(value, rows)] for name, value in read.items()})
        for key, rows in runs.items()
    ]

    def fill(candidate: Candidate) -> None:
        candidate.documents = _documents(db, runs[candidate.key])

    return _decide(candidates, figure, bounds, fill)


def choose(documents: Sequence[dict[str, Any]], objective: str, bounds: Sequence[Bound]) -> Recommendation:
    """Like ``recommend``, on results at hand (plain mappings)."""
    candidates: dict[str, Candidate] = {}
    for document in documents:
        key = _key(document)
        candidates.setdefault(key, Candidate(key)).documents.append(document)
    return _decide(list(candidates.values()), FIGURES.ranking(objective), bounds)


def _documents(db: PerfDB, rows: list[Row]) -> list[dict[str, Any]]:
    """The results of one configuration in that order: the first one whole, of the others their intervals."""
    where = {"run_id": {"$in": [identity(row)[0] for row in rows]}}
    found = db.find_raw(where, BY_RUN, fields=("run_id", "attempt", "summary.e2e_latency_ms.ci95"))
    intervals = {(d["run_id"], d["attempt"]): to_plain(d) for d in found}
    newest = db.get_result(*identity(rows[0])).model_dump()
    return [newest, *(intervals[i] for row in rows[1:] if (i := identity(row)) in intervals)]


def _decide(
    candidates: list[Candidate],
    figure: Figure,
    bounds: Sequence[Bound],
    fill: Callable[[Candidate], None] = lambda candidate: None,
) -> Recommendation:
    """``fill`` gives those that are shown their documents."""
    objective = figure.name
    notes = []
    fitting, unknown = [], []
    means: dict[str, float] = {}
    for candidate in candidates:
        kept: set[bool | None] = set()
        for bound in bounds:
            kept.add(_keeps(candidate, bound))
            if False in kept:
                break
        else:
            mean = candidate.mean(objective)
            if None in kept or mean is None:
                unknown.append(candidate)
            else:
                fitting.append(candidate)
                means[candidate.key] = mean
    fitting.sort(key=lambda c: means[c.key] * (-1 if figure.higher else 1))
    shown = (*fitting[: TOP + 1], *unknown[:1])
    for candidate in shown:
        fill(candidate)
    names = describe(shown)
    if unknown:
        notes.append(
            f"{len(unknown)} configuration(s) can't be judged: {_missing(unknown[0], objective, bounds)}. "
            f"Longer runs would tell, for instance of {names[unknown[0].key]}."
        )
    if not candidates:
        notes.append("No valid result matches: run a submission with the configurations in question first.")
    elif not fitting:
        notes.append(
            f"None of {len(candidates)} configuration(s) keeps {', '.join(map(str, bounds)) or 'the bounds'}."
        )
    if note := per_request_note(objective, (candidate.samples_per_request for candidate in fitting)):
        notes.append(note)
    judge = Judge(candidates, names, objective, tuple(bounds), figure.higher)
    rows = [judge.row(index, fitting) for index in range(min(TOP, len(fitting)))]
    open_notes, wanted = judge.unsettled(fitting)
    return Recommendation(rows, notes + open_notes, len(candidates), len(fitting), wanted)


def _key(document: dict[str, Any]) -> str:
    """As ``held.configuration``, of a document."""
    digest, device = document["submission"].get("digest"), document["device"]
    return configuration_of(digest, document["run_id"], device.get("name"), device.get("cores"))


def _keeps(candidate: Candidate, bound: Bound) -> bool | None:
    """Whether every run keeps it, not only their mean; None where a run lacks the figure."""
    values = candidate.values(bound.figure)
    if values and (max(values) > bound.value if bound.at_most else min(values) < bound.value):
        return False
    return True if len(values) == candidate.runs else None


def _missing(candidate: Candidate, objective: str, bounds: Sequence[Bound]) -> str:
    names = [b.figure for b in bounds if len(candidate.values(b.figure)) < candidate.runs]
    if candidate.mean(objective) is None:
        names.append(objective)
    return f"no {', '.join(dict.fromkeys(names))} was measured (too few requests, or no source)"


@dataclass(frozen=True)
class Judge:
    """How sure the figures of candidates are; ``candidates`` are all, for the spread that they share; ``names``: what
    those that are shown are called, by their keys.
    """

    candidates: list[Candidate]
    names: dict[str, str]
    objective: str
    bounds: tuple[Bound, ...]
    higher: bool
    _pooled: dict[str, float] = field(default_factory=dict)

    def estimate(self, candidate: Candidate, figure: str) -> Estimate:
        """The figure with its spread."""
        if figure not in self._pooled:
            samples = [values for c in self.candidates if (values := c.values(figure))]
            self._pooled[figure] = certainty.pooled_ratio(samples)
        within = max(within_sd(document, figure) for document in candidate.documents)
        return certainty.estimate(candidate.values(figure), self._pooled[figure], within)

    def beats(self, a: Candidate, b: Candidate) -> float:
        """The probability that ``a`` is really better than ``b``."""
        greater = certainty.greater(self.estimate(a, self.objective), self.estimate(b, self.objective))
        return greater if self.higher else 1 - greater

    def keeps(self, candidate: Candidate) -> float | None:
        """The probability that it really keeps every bound, the least sure one; None without bounds."""
        found = []
        for bound in self.bounds:
            known = self.estimate(candidate, bound.figure)
            room = bound.value - known.mean if bound.at_most else known.mean - bound.value
            # A figure that never moved (no errors in any run) and is at its bound keeps it.
            exact = known.error == 0 and room == 0
            found.append(1.0 if exact else certainty.above(room, known.error, known.freedom))
        return min(found) if found else None

    def row(self, index: int, fitting: list[Candidate]) -> dict[str, Any]:
        """One line of the recommendation."""
        candidate = fitting[index]
        known = self.estimate(candidate, self.objective)
        following = fitting[index + 1] if index + 1 < len(fitting) else None
        bounded = {b.figure: candidate.mean(b.figure) for b in self.bounds if b.figure != self.objective}
        keeps = self.keeps(candidate)
        return {
            "rank": index + 1,
            "configuration": self.names[candidate.key],
            self.objective: known.mean,
            "ci95": known.interval95(),
            **bounded,
            "runs": candidate.runs,
            "beats_next_probability": self.beats(candidate, following) if following else None,
            **({"keeps_slo_probability": keeps} if keeps is not None else {}),
            "run": candidate.documents[0]["run_id"],
        }

    def unsettled(self, fitting: list[Candidate]) -> tuple[list[str], tuple[str, ...]]:
        """What is not sure among the top three, and which candidates to run again."""
        notes: list[str] = []
        wanted: list[str] = []
        for rank, candidate in enumerate(fitting[:TOP], start=1):
            keeps = self.keeps(candidate)
            if keeps is not None and keeps < SETTLED:
                notes.append(
                    f"Rank {rank} keeps its bounds with probability {keeps:.0%} only: it is close to one. More "
                    f"runs of it would tell ({self.names[candidate.key]})."
                )
                wanted.append(candidate.key)
        for rank, (candidate, following) in enumerate(pairwise(fitting[: TOP + 1]), start=1):
            probability = self.beats(candidate, following)
            if probability >= SETTLED:
                continue
            both = f"({self.names[candidate.key]}; {self.names[following.key]})"
            mine, theirs = (self.estimate(c, self.objective) for c in (candidate, following))
            more = certainty.runs_to_settle(mine, theirs, SETTLED)
            start = f"Rank {rank} beats the next with probability {probability:.0%} only"
            if more is None:
                notes.append(
                    f"{start}: more than {MOST_RUNS} runs of both would be needed; choose freely {both}."
                )
            else:
                notes.append(f"{start}: about {more} more run(s) of both would settle it {both}.")
                wanted += [candidate.key, following.key]
        if fitting and all(candidate.runs == 1 for candidate in self.candidates):
            notes.append(
                f"No configuration ran more than once, so the spread between runs is taken to be {DRIFT_RATIO:.0%}; "
                "repeat some to measure it."
            )
        return notes, tuple(dict.fromkeys(wanted))
