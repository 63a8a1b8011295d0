"""Which results a figure compares at all: those of one task and data set, of one quality, under one load, of models.

A small model at 1,000 requests/s is no better than a large one at 20. Where results of several grounds match, nobody is
recommended: the message names the grounds and what picks one. Within a ground configurations may differ in accuracy, by
their models or by how these were converted: then there is no best, only a trade-off.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.recommend.parts import configurations
from inferbench_tasks.errors import InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on, no_model
from inferbench_tasks.perfdb.held import Held
from inferbench_tasks.perfdb.held_columns import Matching, Row
from inferbench_tasks.perfdb.offered import (
    OF_ANY_LENGTH,
    OF_ANY_LOAD,
    WITHOUT_LOAD,
    but_for_length,
    is_search,
    named,
    of_figures,
    of_requests,
    sets_rate,
)
from inferbench_tasks.perfdb.store import PerfDB

ACCURACY = "accuracy_ratio"
#: Accuracies that are no further apart are one quality.
ACCURACY_BOUND = 0.01
#: So many grounds are named.
_NAMED = 12


@dataclass(frozen=True, order=True)
class Ground:
    """``model`` is empty where task and data set are known and so is every accuracy: then models can be compared.

    ``no_model``: what it is, where it is none (``perfdb.no_model``); such a ground always names its ``model``.
    """

    task: str
    dataset: str
    model: str
    load: str
    no_model: str = ""

    @property
    def choice(self) -> str:
        """The query and the option that pick it."""
        return " ".join([*map(shlex.quote, self.terms), "--load", shlex.quote(self.load)])

    @property
    def terms(self) -> list[str]:
        """The terms of the query that pick it, but for its load."""
        terms = {"task": self.task, "dataset": self.dataset, "model": self.model}
        return [f"{name}={value}" for name, value in terms.items() if value]

    @property
    def words(self) -> str:
        """What it is, for people."""
        of = " on ".join(part for part in (self.task, self.dataset) if part)
        return ", ".join(part for part in (of, self.model, self.load, self.no_model) if part)


#: As grounds are ordered themselves; of many in a fraction of the time.
IN_ORDER = attrgetter("task", "dataset", "model", "load", "no_model")


class SeveralGrounds(InputError):
    """What matches is of several grounds; ``counts``: how many configurations each has."""

    def __init__(self, counts: dict[Ground, int]) -> None:
        self.counts = counts
        self.why = (
            f"The results that match are of {len(counts)} tasks, data sets, models or loads, between which no figure "
            "chooses: a server shows what it is asked for."
        )
        named = sorted(counts, key=IN_ORDER)[:_NAMED]
        lines = [
            f"  {ground.choice}  ({counts[ground]} configuration(s){ground.no_model and ', '}{ground.no_model})"
            for ground in named
        ] + _more(len(counts))
        super().__init__(
            f"{self.why} Pick one by the query and --load (over REST: load):\n" + "\n".join(lines)
        )


def stands(figure: Figure, load: str) -> bool:
    """Whether a figure of a run under that load (``offered``'s words) can be ranked.

    Of a run without a load only measures of answers are: nobody watched what disturbed its cold start. Of a search for
    a rate no figure is that follows from the rate; nor, of a load under which the server says how much it answers, one
    that is more where more is answered.
    """
    if figure.evaluated:
        return True
    if figure.follows_rate and not sets_rate(load):
        return False
    return load != WITHOUT_LOAD and (figure.rate_free or not is_search(load))


def load_for(figures: Iterable[Figure], load: str) -> str:
    """What of a load, in ``offered``'s words, has to be the same for these figures of two runs to be compared."""
    return of_figures(load, (figure.name for figure in figures if not figure.evaluated))


def load_of_ranked(figure: Figure) -> Callable[[str, int | None], str]:
    """The same of the figure that a leaderboard ranks by, of a load and of how many samples a request has.

    There may be a hundred thousand results: what is the same for all of them is decided once.
    """
    if figure.per_sample:
        return of_requests
    if figure.evaluated or figure.name in (*OF_ANY_LOAD, *OF_ANY_LENGTH):
        return lambda load, _: but_for_length(load)
    return lambda load, _: load


def newest_of(db: PerfDB, index: Held, rows: Matching, figures: Sequence[Figure]) -> dict[str, Row]:
    """Configuration on a device -> the newest of its runs that has all ``figures`` and ``stands`` by each of them.

    The newest first. The newest stands for all, so that a lucky run of many does not win. The keys are those of
    ``parts.configurations``: by figures that are no measures parts of an evaluation are runs of one configuration.
    """
    for figure in figures:
        rows = rows.only(index.present(figure.field_path, rows))
    rows = rows.offered_any(lambda load: all(stands(figure, load) for figure in figures))
    key = configurations(db, index, rows, figures)
    newest: dict[str, Row] = {}
    for row in rows.newest_of_each():
        newest.setdefault(key(row), row)
    return newest


def rows_of_one_ground(
    index: Held, rows: Matching, figures: Sequence[Figure], bounds: Sequence[Bound], load: str | None
) -> Matching:
    """Those under ``load``, if one is picked. ``figures``: all by which configurations are judged.

    InputError lists the grounds if there are several, or the loads if there is none of that load.
    """
    rows_left = rows if load is None else rows.offered_any(named(load))
    if rows and not rows_left:
        loads = sorted(rows.offered())
        raise InputError(f"No result that matches was offered the load {load!r}; there is {_some(loads)}")
    bounded = any(bound.figure == ACCURACY for bound in bounds)
    grounds = _grounds(index, rows_left, figures, accuracy_bounded=bounded)
    if len(grounds) > 1:
        raise SeveralGrounds(grounds)
    return rows_left


def require_one_data(index: Held, rows: Matching, figures: Sequence[Figure]) -> None:
    """InputError where measures are asked for, and what matches was judged on different data: it says what picks one.

    Results without the measure are no part of it.
    """
    if not (measures := [figure for figure in figures if figure.evaluated]):
        return
    has = np.any([index.present(figure.field_path, rows) for figure in measures], axis=0)
    asked = set(map(index.columns(*judged_on.PATHS), rows.only(has)))
    judged = {judged_on.words(*one): judged_on.query(*one) for one in asked}
    if len(judged) > 1:
        lines = [f"  {query}" for _, query in sorted(judged.items())]
        raise InputError(
            f"{', '.join(figure.name for figure in measures)}: the results that match were judged on {len(judged)} "
            f"sets of samples, between which no measure chooses. Pick one by the query:\n{_some(lines, chr(10))}"
        )


def _grounds(
    index: Held, rows: Matching, figures: Sequence[Figure], *, accuracy_bounded: bool
) -> dict[Ground, int]:
    """Each ground with its number of configurations."""
    known, of_row = rows.offered_with("model.task", "model.dataset", "model.name", *no_model.PATHS)
    # There may be a hundred thousand rows, and few that differ in this.
    models: dict[tuple[str, str, str, str, str], int] = {}
    of_known = [
        models.setdefault(
            (task or "", dataset or "", load_for(figures, load), no_model.words(*of), model or ""),
            len(models),
        )
        for load, task, dataset, model, *of in known
    ]
    model_of_row = np.array(of_known, dtype=np.int64)[of_row]
    counts = rows.configurations_of(model_of_row, len(models))
    lacks = ~index.present(FIGURES[ACCURACY].field_path, rows)
    lacking = set(np.unique(model_of_row[lacks]).tolist())
    # Of each task, data set, load and what is no model the configurations by model, and whether an accuracy is missing.
    wide: dict[tuple[str, str, str, str], dict[str, int]] = {}
    lacking_in: set[tuple[str, str, str, str]] = set()
    for (*parts, model), at in models.items():
        ground = (parts[0], parts[1], parts[2], parts[3])
        wide.setdefault(ground, {})[model] = counts[at]
        if at in lacking:
            lacking_in.add(ground)
    grounds: dict[Ground, int] = {}
    for ground, by_model in wide.items():
        task_, dataset_, load, none = ground
        if task_ and dataset_ and not none and (accuracy_bounded or ground not in lacking_in):
            grounds[Ground(task_, dataset_, "", load)] = sum(by_model.values())
        else:
            grounds |= {Ground(task_, dataset_, name, load, none): count for name, count in by_model.items()}
    return grounds


def trade_off(
    order: Sequence[Candidate], objective: str, bounds: Sequence[Bound]
) -> tuple[list[Candidate], list[str]]:
    """Of candidates, best first, those between which accuracy is bought by the objective, and what is to be said.

    All of them, without a word, where they are of one quality: it is bounded, or differs by ``ACCURACY_BOUND`` at most.
    """
    accuracies = {candidate.key: accuracy_of(candidate) for candidate in order}
    numbers = [value for value in accuracies.values() if value is not None]
    stated = objective == ACCURACY or any(bound.figure == ACCURACY for bound in bounds)
    if stated or len(numbers) < len(order) or not numbers or max(numbers) - min(numbers) <= ACCURACY_BOUND:
        return [*order], []
    steps: list[Candidate] = []
    reached = -1.0
    for candidate in order:
        if (accuracy := accuracies[candidate.key] or 0.0) > reached + (ACCURACY_BOUND if steps else 0):
            steps.append(candidate)
            reached = accuracy
    return steps, [
        f"The configurations differ in accuracy ({min(numbers):.3g} to {max(numbers):.3g}), so none is the best: "
        f"this is a trade-off between accuracy and {objective}, and each next row buys more accuracy. State the "
        f"quality to choose within it, for instance --slo '{ACCURACY}>={max(numbers) - ACCURACY_BOUND:.3g}'."
    ]


def accuracy_of(candidate: Candidate) -> float | None:
    """The mean over its runs that have it; None where none has."""
    values = candidate.values(ACCURACY)
    return sum(values) / len(values) if values else None


def _some(texts: Iterable[str], separator: str = "; ") -> str:
    items = list(texts)
    return separator.join([*items[:_NAMED], *_more(len(items))])


def _more(count: int) -> list[str]:
    return [f"and {count - _NAMED} more"] if count > _NAMED else []
