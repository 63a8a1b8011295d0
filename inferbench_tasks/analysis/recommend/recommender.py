"""The recommender: an SLO and constraints in, the top three configurations out, and how sure that is.

Only valid results count. Several runs of one configuration are one candidate. How sure the order is, and whether a
bound is really kept, comes from the spread between runs (see ``certainty``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from inferbench_tasks.analysis import energy_ground, lacking, price_ground
from inferbench_tasks.analysis.certainty import DRIFT_RATIO, MOST_RUNS, SETTLED, runs_to_settle
from inferbench_tasks.analysis.evaluations.listed import PART
from inferbench_tasks.analysis.goodness import OF_GOOD_ANSWERS, good_within
from inferbench_tasks.analysis.lacking import lack_of
from inferbench_tasks.analysis.recommend.candidates import (
    SIZE_FIGURES,
    Bound,
    Candidate,
    describe,
    per_request_note,
    value_of,
)
from inferbench_tasks.analysis.recommend.comparable import (
    ACCURACY,
    load_for,
    require_one_data,
    rows_of_one_ground,
    stands,
    trade_off,
)
from inferbench_tasks.analysis.recommend.energies import bounds_notes, got_alike, require_one_way
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.recommend.left_out import left_out_note
from inferbench_tasks.analysis.recommend.moved import moved_notes
from inferbench_tasks.analysis.recommend.parts import configuration_in, configurations, own_configuration
from inferbench_tasks.analysis.recommend.prices import prices
from inferbench_tasks.analysis.recommend.reasons import why
from inferbench_tasks.analysis.recommend.versions import versions_notes
from inferbench_tasks.analysis.stated import needed
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import no_model
from inferbench_tasks.perfdb.held import Row, configuration, held, identity
from inferbench_tasks.perfdb.offered import WITHOUT_LOAD, is_search, named, offered
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

__all__ = ["Bound", "Candidate", "Recommendation", "choose", "recommend"]

TOP = 3
_VERSION = "backend.version"
#: What is optimised unless something else is asked for.
THROUGHPUT, MAX_RATE = "throughput_samples_per_s", "max_rate_samples_per_s"


@dataclass(frozen=True)
class Recommendation:
    """``top``: rows, best first, each with its reasons (``why``); ``ci95`` is of the configuration by itself, with the
    spread from run to run, and not widened for its being the best of several. ``notes``: what the data can't tell, and
    which runs would settle it; ``reruns``: those runs, as candidates' keys, the most useful first.
    """

    top: list[dict[str, Any]]
    notes: list[str]
    candidates: int
    fitting: int
    reruns: tuple[str, ...] = ()


_UNWATCHED = (
    "{} result(s) of runs without a load are left out: nobody watched what disturbed them, and only how right their "
    "answers are counts."
)


def usual_objective(db: PerfDB, query: str | Iterable[str] = "", load: str | None = None) -> str:
    """What to optimise where nothing is asked for: the highest rate, where every matching result searched for it."""
    loads = set(filter(named(load) if load else None, held(db).rows(parse(query).filter).offered()))
    return MAX_RATE if loads and all(map(is_search, loads)) else THROUGHPUT


def recommend(
    db: PerfDB,
    objective: str,
    bounds: Sequence[Bound],
    query: str | Iterable[str] = "",
    load: str | None = None,
) -> Recommendation:
    """The best configurations by ``objective`` that keep all ``bounds``, from the results that match.

    ``load``: of these only those under that load, in the words of ``perfdb.offered``. InputError where what is left is
    of several tasks, data sets or loads, or of several models whose accuracy nobody measured, was judged on several
    sets of samples where a measure of that is asked for, or has its energies in several ways where one is asked for: it
    lists what picks one.
    """
    figure = FIGURES.ranking(objective)
    names = [
        figure.name,
        *(bound.figure for bound in bounds),
        *(SIZE_FIGURES if figure.per_sample else ()),
        ACCURACY,
    ]
    index = held(db)
    getters = {name: index.values(FIGURES.named(name).field_path) for name in names}
    runs: dict[str, list[Row]] = {}
    matching = index.rows(parse(query).filter)
    asked = [figure, *(FIGURES.named(bound.figure) for bound in bounds)]
    of_answers = all(each.evaluated for each in asked)
    watched = matching if of_answers else matching.offered_any(lambda each: each != WITHOUT_LOAD)
    rows = watched.offered_any(lambda each: stands(figure, each))
    kept = rows_of_one_ground(index, rows, asked, bounds, load)
    require_one_data(index, kept, asked)
    key = configurations(db, index, kept, asked)
    # What a candidate is called is its newest run's own key, which begins with a job's digest.
    called: dict[str, str] = {}
    for row in kept:
        runs.setdefault(called.setdefault(key(row), configuration(row)), []).append(row)
    runs, earlier = of_newest_version(runs, index.values(_VERSION))
    otherwise_got = otherwise_priced = 0
    ways = [*dict.fromkeys(path for each in asked for path in energy_ground.paths(each))]
    repeated = any(len(rows) > 1 for rows in runs.values())
    if ways:
        way = [index.values(f"summary.{path}") for path in ways]

        def got(row: Row) -> tuple[Any, ...] | None:
            return energy_ground.known(get(row) for get in way)

        runs, otherwise_got = of_newest_version(runs, got)
        require_one_way(asked, ways, (got(row) for rows in runs.values() for row in rows))
    if repeated and any(each.price_based for each in asked):
        price = prices(db, index, [row for rows in runs.values() if len(rows) > 1 for row in rows])
        runs, otherwise_priced = of_newest_version(runs, lambda row: price(row).rate)
    candidates = [
        Candidate(key, figures={name: [*map(value, rows)] for name, value in getters.items()})
        for key, rows in runs.items()
    ]

    def fill(candidate: Candidate) -> None:
        candidate.documents = _documents(db, runs[candidate.key], names)

    recommendation = _decide(candidates, figure, bounds, fill)
    notes = [note] if (note := left_out_note(db, query)) else []
    if earlier:
        notes.append(
            f"{earlier} result(s) of other versions of a server than its configuration was last measured with are left "
            "out: what they say is of another program."
        )
    if otherwise_got:
        notes.append(
            f"{otherwise_got} result(s) whose energy was got in another way than in the newest run of their "
            "configuration are left out: a mean over both would be of none."
        )
    if otherwise_priced:
        notes.append(
            f"{otherwise_priced} result(s) whose cost is by another price than that of the newest run of their "
            "configuration are left out: a mean over both would be of none."
        )
    if unwatched := len(matching) - len(watched):
        notes.append(_UNWATCHED.format(unwatched))
    if searches := len(watched) - len(rows):
        notes.append(
            f"{searches} result(s) of loads under which each server answers at a rate of its own (searches for the "
            f"highest rate, users who wait) are left out: their {figure.word} follows from it."
            if figure.follows_rate
            else f"{searches} result(s) of runs that searched for their highest rate are left out: each has its "
            f"{figure.word} at a rate of its own."
        )
    return replace(recommendation, notes=[*recommendation.notes, *notes])


def of_newest_version(
    runs: dict[str, list[Row]], version: Callable[[Row], Any]
) -> tuple[dict[str, list[Row]], int]:
    """Of each configuration's runs, the newest first, those with the server's version (or whatever else ``version``
    tells) of the newest one that has any; and how many are left out. A mean over two programs is of none of them.
    """
    kept = {}
    for key, rows in runs.items():
        newest = next((version(row) for row in rows if version(row) is not None), None)
        kept[key] = [row for row in rows if version(row) in (None, newest)]
    return kept, sum(map(len, runs.values())) - sum(map(len, kept.values()))


def choose(documents: Sequence[dict[str, Any]], objective: str, bounds: Sequence[Bound]) -> Recommendation:
    """Like ``recommend``, on results at hand (plain mappings), which whoever hands them over wants to be compared.

    Where they were offered different loads, or some are of no model, that is said. Of an objective that is an energy
    those count that were got as most of them were: the others are neither better nor worse.
    """
    candidates: dict[str, Candidate] = {}
    asked = [FIGURES.ranking(objective), *(FIGURES.named(bound.figure) for bound in bounds)]
    given = len(documents)
    if not all(figure.evaluated for figure in asked):
        documents = [each for each in documents if offered(each.get("load") or {}) != WITHOUT_LOAD]
    unwatched = given - len(documents)
    documents, otherwise_got = got_alike(documents, asked[0])
    for document in documents:
        # As in ``recommend``: what it is called begins with a job's digest.
        own = Candidate(own_configuration(document))
        candidates.setdefault(configuration_in(document, asked), own).documents.append(document)
    recommendation = _decide(list(candidates.values()), asked[0], bounds)
    recommendation.notes.extend(otherwise_got)
    if unwatched:
        recommendation.notes.append(_UNWATCHED.format(unwatched))
    loads = sorted({load_for(asked, offered(document.get("load") or {})) for document in documents})
    if len(loads) > 1:
        recommendation.notes.append(
            f"They were offered {len(loads)} different loads, such as {loads[0]} and {loads[-1]}: what a run reaches "
            "follows from its load as well as from its configuration."
        )
    if len(kinds := sorted({no_model.of_document(document) for document in documents})) > 1:
        recommendation.notes.append(
            f"Not all are alike ({'; '.join(kind or 'models' for kind in kinds)}): what is no model is no better than "
            "one, however fast."
        )
    return recommendation


def _documents(db: PerfDB, rows: list[Row], figures: Sequence[str]) -> list[dict[str, Any]]:
    """The results of one configuration in that order: the first whole, of the others what they say of their errors."""
    where = {"run_id": {"$in": [identity(row)[0] for row in rows]}}
    asked = [FIGURES.named(name) for name in figures]
    paths = dict.fromkeys(
        path
        for each in asked
        for path in (
            *needed(each),
            *lacking.needed(each),
            PART,
            *(f"summary.{way}" for way in energy_ground.paths(each)),
        )
    )
    documents = db.find_raw(where, BY_RUN, fields=("run_id", "attempt", *paths))
    errors = {(d["run_id"], d["attempt"]): to_plain(d) for d in documents}
    newest = db.get_result(*identity(rows[0])).model_dump()
    return [newest, *(errors[i] for row in rows[1:] if (i := identity(row)) in errors)]


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
        answers: set[bool | None] = set()
        for bound in bounds:
            answers.add(_keeps(candidate, bound))
            if False in answers:
                break
        else:
            mean = candidate.mean(objective)
            if None in answers or mean is None:
                unknown.append(candidate)
            else:
                fitting.append(candidate)
                means[candidate.key] = mean
    fitting.sort(key=lambda c: means[c.key] * (-1 if figure.higher else 1))
    count = len(fitting)
    fitting, trade_offs = trade_off(fitting, objective, bounds)
    front = (*fitting[: TOP + 1], *unknown[:1])
    for candidate in front:
        fill(candidate)
    names = describe(front)
    if unknown:
        notes.append(
            f"{len(unknown)} configuration(s) can't be judged, for instance {names[unknown[0].key]}: "
            f"{_missing(unknown[0], objective, bounds)}"
        )
    if not candidates:
        notes.append("No valid result matches: run a submission with the configurations in question first.")
    elif not fitting:
        notes.append(
            f"None of {len(candidates)} configuration(s) keeps {', '.join(map(str, bounds)) or 'the bounds'}."
        )
    if lower := [names[c.key] for c in fitting[: TOP + 1] if _is_lower_bound(c, figure)]:
        notes.append(
            f"The highest rate of {'; '.join(lower)} is a lower bound: a search ended before it met a rate that breaks "
            "the objective, so it may be better than where it stands. A longer load.arrivals.limit_s, or more senders, "
            "would tell."
        )
    if note := per_request_note(objective, (candidate.samples_per_request for candidate in fitting)):
        notes.append(note)
    good = sorted({good_within(c.documents[0].get("summary") or {}) for c in fitting[: TOP + 1]})
    if objective in OF_GOOD_ANSWERS and len(good) > 1:
        notes.append(
            f"{figure.word.capitalize()} is by objectives that differ here ({'; '.join(good)}): under a wider one more "
            "answers are good, and no server is better. Compare runs of one objective."
        )
    notes += bounds_notes(bounds, fitting[: TOP + 1])
    if figure.price_based or any(FIGURES.named(bound.figure).price_based for bound in bounds):
        dates = [price_ground.priced_at(c.documents[0].get("summary") or {}) for c in fitting[: TOP + 1]]
        notes += [note] if (note := price_ground.dates_note(dates)) else []
    notes += [f"{note}." for note in versions_notes({names[c.key]: c for c in fitting[:TOP]})]
    notes += moved_notes(fitting[:TOP], names, (objective, *(bound.figure for bound in bounds)))
    notes += trade_offs
    beside = (ACCURACY,) if trade_offs else ()
    judge = Judge(candidates)
    words = _Words(judge, names, objective, tuple(bounds), beside)
    rows = [words.row(index, fitting) for index in range(min(TOP, len(fitting)))]
    for index, row in enumerate(rows):
        row["why"] = why(
            judge, fitting, index, count, len(unknown), objective, bounds, traded=bool(trade_offs)
        )
    open_notes, reruns = words.unsettled(fitting)
    return Recommendation(rows, notes + open_notes, len(candidates), count, reruns)


def _is_lower_bound(candidate: Candidate, figure: Figure) -> bool:
    """Whether any of its runs, of which the documents are there, has no more than that."""
    return any(figure.unbounded_in(document.get("summary") or {}) for document in candidate.documents)


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
    texts, longer = [], False
    for figure in map(FIGURES.named, dict.fromkeys(names)):
        without = [d for d in candidate.documents if value_of(d, figure.name) is None]
        whys = {str(lack): lack for d in without if (lack := lack_of(figure, d["summary"]))}
        longer = longer or any(lack.longer for lack in whys.values())
        said = f"({'; '.join(whys)})" if whys else "was measured"
        texts.append(f"no {figure.name} {said}")
    return f"{'; '.join(texts)}.{' A longer run would tell.' if longer else ''}"


@dataclass(frozen=True)
class _Words:
    """Rows and notes; ``names``: what the candidates that are shown are called, by their keys; ``beside``: figures that
    stand in the rows beside the objective and those bounded.
    """

    judge: Judge
    names: dict[str, str]
    objective: str
    bounds: tuple[Bound, ...]
    beside: tuple[str, ...] = ()

    def row(self, index: int, fitting: list[Candidate]) -> dict[str, Any]:
        """One line of the recommendation."""
        candidate = fitting[index]
        own = self.judge.estimate(candidate, self.objective)
        following = fitting[index + 1] if index + 1 < len(fitting) else None
        names = (*(bound.figure for bound in self.bounds), *self.beside)
        bounded = {name: candidate.mean(name) for name in names if name != self.objective}
        keeps = self.judge.keeps(candidate, self.bounds)
        return {
            "rank": index + 1,
            "configuration": self.names[candidate.key],
            self.objective: own.mean,
            "ci95": self.judge.interval95(candidate, self.objective),
            **bounded,
            "runs": candidate.runs,
            "beats_next_probability": self.judge.beats(candidate, following, self.objective)
            if following
            else None,
            "expected_loss_ratio": self.judge.expected_loss(candidate, following, self.objective)
            if following
            else None,
            **({"keeps_slo_probability": keeps} if keeps is not None else {}),
            "run": candidate.documents[0]["run_id"],
        }

    def unsettled(self, fitting: list[Candidate]) -> tuple[list[str], tuple[str, ...]]:
        """What is not sure among the top three, and which candidates to run again."""
        notes: list[str] = []
        reruns: list[str] = []
        for rank, candidate in enumerate(fitting[:TOP], start=1):
            keeps = self.judge.keeps(candidate, self.bounds)
            if keeps is not None and keeps < SETTLED:
                least = "at least " if len(self.bounds) > 1 else ""
                notes.append(
                    f"Rank {rank} keeps its bounds with probability {least}{keeps:.0%} only: it is close to one. More "
                    f"runs of it would tell ({self.names[candidate.key]})."
                )
                reruns.append(candidate.key)
        # Of a trade-off the next row is what accuracy is bought with, no matter of taste.
        choice = "the next one is more accurate" if self.beside else "choose freely"
        for rank, (candidate, following) in enumerate(pairwise(fitting[: TOP + 1]), start=1):
            probability = self.judge.beats(candidate, following, self.objective)
            if probability >= SETTLED:
                continue
            both = f"({self.names[candidate.key]}; {self.names[following.key]})"
            mine, theirs = (self.judge.estimate(c, self.objective) for c in (candidate, following))
            more = runs_to_settle(mine, theirs)
            start = f"Rank {rank} beats the next with probability {probability:.0%} only"
            if more is None:
                notes.append(f"{start}: more than {MOST_RUNS} runs of both would be needed; {choice} {both}.")
            else:
                notes.append(f"{start}: about {more} more run(s) of both would settle it {both}.")
                reruns += [candidate.key, following.key]
        once = all(candidate.runs == 1 for candidate in self.judge.candidates)
        if fitting and once and FIGURES.named(self.objective).drifts:
            notes.append(
                f"No configuration ran more than once, so the spread between runs is taken to be {DRIFT_RATIO:.0%}; "
                "repeat some to measure it."
            )
        return notes, tuple(dict.fromkeys(reruns))
