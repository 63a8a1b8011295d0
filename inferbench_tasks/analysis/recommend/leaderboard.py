"""The leaderboard: valid results by any figure, within one task, data set and load, with ties and intervals.

An open loop's throughput is what it was offered, and its cost the reciprocal; at a hundredth of the rate any latency is
low. So the load is part of the group (``perfdb.offered``); for a figure of a request, so is the request's size.
The data set of a measure of answers is what they were judged on (``perfdb.judged_on``). What is no model at all has a
group of its own, whose ``task`` says so (``perfdb.no_model``).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from inferbench_tasks.analysis import energy_ground, model_names, price_ground, steadiness
from inferbench_tasks.analysis.evaluations.listed import PART
from inferbench_tasks.analysis.goodness import OF_GOOD_ANSWERS
from inferbench_tasks.analysis.goodness import PATHS as GOODNESS
from inferbench_tasks.analysis.recommend.comparable import load_of_ranked, newest_of
from inferbench_tasks.analysis.recommend.lines import SHOWN, Line, line_of, placed
from inferbench_tasks.analysis.recommend.prices import prices
from inferbench_tasks.analysis.recommend.selection import Selection
from inferbench_tasks.analysis.stated import needed
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields, judged_on, no_model
from inferbench_tasks.perfdb.held import Held, Row, held, identity, load_of
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: What servers are ranked by unless another figure is asked for: the highest rate that kept an objective, where any
#: matching run searched for it; tokens, where none has a p99, which takes more answers than language models often give.
MAX_RATE, TOKENS, USUAL = "max_rate_samples_per_s", "output_tokens_per_s", "p99_ms"
#: Why it is another than the usual one.
UNUSUAL = {MAX_RATE: "runs that match searched for it", TOKENS: f"no run that matches has a {USUAL}"}
#: Of so many objectives the best are read, where a figure depends on them.
_OBJECTIVES = 10
EVERYTHING = Selection()
#: Of however many groups there are, so many rows of each can be read: who is best, and by how much.
_FEWEST = 5
#: So many lines are kept by a figure with the same ones beside it, and so many rankings of a figure.
_MOST_LINES, _MOST_RANKINGS = 10_000, 200


def usual_figure(db: PerfDB, query: str | Iterable[str] = "") -> str:
    """The figure that matching results are ranked by where none is asked for."""
    index = held(db)
    rows = index.rows(parse(query).filter)
    for name in (MAX_RATE, USUAL, TOKENS):
        if index.any(FIGURES[name].field_path, rows):
            return name
    return USUAL


def any_streamed(db: PerfDB, query: str | Iterable[str] = "") -> bool:
    """Whether any valid result that matches is of streams of tokens: only then their figures are offered to people."""
    index = held(db)
    return index.any(FIGURES["output_tokens_per_s"].field_path, index.rows(parse(query).filter))


@dataclass(frozen=True)
class Board:
    """``rows``, best first in each group, at most ``of_each`` of it; ``configurations``: how many there are, with those
    that have no row.
    """

    rows: list[dict[str, Any]]
    configurations: int
    of_each: int


def leaderboard(
    db: PerfDB,
    metric: str,
    query: str | Iterable[str] = "",
    limit: int = 20,
    beside: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The rows of ``board_of`` all that match."""
    return board_of(db, metric, query, limit, beside).rows


def board_of(
    db: PerfDB,
    metric: str,
    query: str | Iterable[str] = "",
    limit: int = 20,
    beside: Sequence[str] = (),
    selection: Selection = EVERYTHING,
    in_all: int | None = None,
) -> Board:
    """The best valid results by a figure, best first in each group of task, data set and load.

    Each row: ``rank`` (equal for ties), ``tie`` (why it shares one, see ``ranked``), ``task``, ``dataset``, ``load``,
    the figure, ``ci95`` (of the run alone, None where it states none), what was run, and the figures ``beside`` it;
    ``model_apart``, what tells its model from others of the name (None where there are none), and ``not_steady``, why
    its rate is no level of the server. A
    configuration that was run several times stands there once, with its newest result that has the figure. Of equal
    figures the newest is first. So do parts of an evaluation (``evaluate.parts``), but by measures of answers, which
    are of each part's samples: ``part`` says which one it is.
    Figures of good answers are ranked within one objective as well, energies by one method (``energy_ground``), costs
    by prices of one date (``price_ground``).
    Runs without a load stand only by measures of answers.
    Runs that searched for their rate stand only where the figure is ``rate_free``: each has its latency at another one.
    ``selection``: of these configurations only those that it leaves in.
    ``limit``: rows of each group; fewer where those of all groups would be more than ``in_all``.
    Raises InputError for a field that is no figure.
    """
    figure = FIGURES.ranking(metric)
    # Of a load those of several objectives, which documents alone tell.
    mixed = figure.name in OF_GOOD_ANSWERS
    index = held(db)
    groups = _groups(db, index, figure, parse(query).filter, selection)
    if in_all is not None and groups:
        limit = min(limit, max(_FEWEST, in_all // len(groups)))
    best = _best(index, figure, groups, limit * _OBJECTIVES if mixed else limit)
    known = index.kept(("places", figure.name), _MOST_RANKINGS)
    rows = placed(_lines(db, index, best, figure, beside), figure, known)
    if mixed:
        grounds = groupby(rows, key=lambda row: (row["task"], row["dataset"], row["load"]))
        rows = [row for _, members in grounds for row in islice(members, limit)]
    return Board(rows, sum(map(len, groups)), limit)


def _groups(db: PerfDB, index: Held, figure: Figure, filter: Any, selection: Selection) -> list[list[Row]]:
    """Each configuration's row, by what is ranked together, in the order of its words."""
    matching = index.rows(filter)
    rows = list(newest_of(db, index, matching, [figure]).values())
    if selection:
        kept = selection.keeps(db, index, matching)
        rows = [row for row in rows if kept(row)]
    if not rows:
        return []
    groups: dict[tuple[str, ...], list[Row]] = {}
    size = index.values("load.batch_size")
    task, data = index.values("model.task"), judged_on.data_of([figure], index.values)
    no_model_of = no_model.of_rows(index.values)
    got_by, within = energy_ground.of_rows(figure, index.values), load_of_ranked(figure)
    price = prices(db, index, rows if figure.price_based else ())
    for row in rows:
        load = within(load_of(row), size(row))
        ways = (
            (got_by(row),) if figure.energy_based else (price(row).date or "",) if figure.price_based else ()
        )
        key = (no_model.task_in_words(task(row), no_model_of(row)), data(row), load, *ways)
        groups.setdefault(key, []).append(row)
    return [members for _, members in sorted(groups.items())]


def _best(index: Held, figure: Figure, groups: Iterable[Iterable[Row]], limit: int) -> list[Row]:
    """So many of each group, best first."""
    value, sign = index.values(figure.field_path), -1 if figure.higher else 1
    return [
        row
        for members in groups
        for row in heapq.nsmallest(limit, members, key=lambda row: sign * value(row))
    ]


def _lines(db: PerfDB, index: Held, rows: Sequence[Row], figure: Figure, beside: Sequence[str]) -> list[Line]:
    """Those of results, in their order; what was read once is known."""
    known = index.kept(("lines", figure.name, *beside), _MOST_LINES)
    if missing := [row for row in rows if identity(row) not in known]:
        for document in _documents(db, missing, figure, beside):
            line = line_of(document, figure, beside)
            known[line.of] = line
    return [known[identity(row)] for row in rows if identity(row) in known]


def ranked(
    documents: Iterable[dict[str, Any]], figure: Figure, beside: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of results that are in their order, with their ranks and ties (``lines.places``)."""
    return placed([line_of(document, figure, beside) for document in documents], figure)


def _documents(
    db: PerfDB, rows: Sequence[Row], figure: Figure, beside: Sequence[str]
) -> list[dict[str, Any]]:
    """What is shown of these results, in their order."""
    paths = [fields.field(name).path for name in ("run", "attempt", *SHOWN, *beside)]
    shown = [figure, *map(FIGURES.named, beside)]
    paths += [*model_names.PATHS, *(steadiness.PATHS if any(map(steadiness.of_the_rate, shown)) else ())]
    paths += ["model.task", "model.dataset", "load", "summary.energy.method", PART, *needed(figure)]
    paths += [*no_model.PATHS, *(judged_on.PATHS if figure.evaluated else ())]
    paths += [f"summary.{path}" for path in GOODNESS if figure.name in OF_GOOD_ANSWERS]
    paths += [f"summary.{path}" for path in energy_ground.paths(figure)]
    paths += [f"summary.{price_ground.DATE_PATH}"] if figure.price_based else []
    where = {"run_id": {"$in": [identity(row)[0] for row in rows]}}
    documents = {(d["run_id"], d["attempt"]): to_plain(d) for d in db.find_raw(where, BY_RUN, fields=paths)}
    return [documents[identity(row)] for row in rows if identity(row) in documents]
