"""Two figures of every configuration against each other, with the front that nothing beats in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from inferbench_tasks.analysis import energy_ground, steadiness
from inferbench_tasks.analysis.recommend.comparable import newest_of
from inferbench_tasks.analysis.recommend.prices import prices
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields, judged_on, no_model
from inferbench_tasks.perfdb.held import Row, held, identity, load_of
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: The newest configurations that are drawn.
MOST = 10_000
#: Of no more points is read what stands in the documents, which are not held: intervals, and whose rate moved.
MOST_INTERVALS = 500

Interval = tuple[float, float] | None


class _Beside(NamedTuple):
    """What of a result stands in its document alone."""

    x_interval: Interval
    y_interval: Interval
    not_steady: str | None


_UNKNOWN = _Beside(None, None, None)


class Point(NamedTuple):
    """The newest valid run of a configuration that has both figures, in the figures' stored units.

    ``group``: task and data set (of measures what they were judged on), whether it is no model, what a language model
    is asked or how large inputs are, by an energy how it was got and by a cost its price list, within which
    one is better; ``front``: no other of its group is at least as good in both figures and better in one. Intervals are
    of 95%, None where there is none.
    ``not_steady``: why one of the figures is of a rate that moved, None where nothing says so.
    """

    run: str
    x: float
    y: float
    colour: str
    device: str
    model: str
    load: str
    group: str
    front: bool
    x_interval: Interval = None
    y_interval: Interval = None
    not_steady: str | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """``points``, the newest first; ``left_out``: older ones beyond ``MOST``; ``numbers``: whether every colour that is
    known is a number; ``looked_into``: whether intervals and rates that moved were looked for, or there are too many.
    """

    x: Figure
    y: Figure
    points: Sequence[Point]
    left_out: int
    numbers: bool = False
    looked_into: bool = True


def scatter(db: PerfDB, x: str, y: str, colour: str, query: str | Iterable[str] = "") -> Scatter:
    """Figures ``x`` and ``y`` of valid results that match; ``colour``: a field of results.

    InputError for a name that is none. Which runs count is as on the leaderboard (``comparable.stands``), for both.
    """
    across, up, by = FIGURES.ranking(x), FIGURES.ranking(y), fields.field(colour)
    index = held(db)
    at_x, at_y = index.values(across.field_path), index.values(up.field_path)
    rows = list(newest_of(db, index, index.rows(parse(query).filter), (across, up)).values())
    shown = rows[:MOST]
    paths = (by.path, "device.name", "model.name", "model.task")
    colour_of, device, model, task = (index.values(path) for path in paths)
    data = judged_on.data_of((across, up), index.values)
    no_model_of = no_model.of_rows(index.values)
    arrivals = index.values("load.arrivals")
    got_by = [
        energy_ground.of_rows(figure, index.values) for figure in (across, up) if figure.energy_based and rows
    ]
    price = prices(db, index, shown if across.price_based or up.price_based else ())
    looked_into = len(shown) <= MOST_INTERVALS
    beside = _beside(db, shown, across, up) if looked_into else {}
    groups = [
        _group(
            no_model.task_in_words(task(row), no_model_of(row)),
            data(row),
            arrivals(row) or {},
            "; ".join(dict.fromkeys(way(row) for way in got_by)),
            price(row).date,
        )
        for row in shown
    ]
    best = front(
        [(group, at_x(row), at_y(row)) for group, row in zip(groups, shown, strict=True)], across, up
    )
    colours = [colour_of(row) for row in shown]
    points = [
        Point(
            identity(row)[0],
            float(at_x(row)),
            float(at_y(row)),
            colour_text(colours[number]),
            colour_text(device(row)),
            colour_text(model(row)),
            load_of(row),
            group,
            number in best,
            *beside.get(identity(row), _UNKNOWN),
        )
        for number, (group, row) in enumerate(zip(groups, shown, strict=True))
    ]
    known = [value for value in colours if value is not None]
    numbers = bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )
    return Scatter(across, up, points, len(rows) - len(shown), numbers, looked_into)


def front(values: Sequence[tuple[str, float, float]], x: Figure, y: Figure) -> set[int]:
    """Which of ``(group, x, y)`` no other of their group beats: as good in both figures and better in one."""
    signs = (-1 if x.higher else 1, -1 if y.higher else 1)  # less is better from here on
    order = sorted(
        range(len(values)), key=lambda i: (values[i][0], signs[0] * values[i][1], signs[1] * values[i][2])
    )
    kept: set[int] = set()
    group, last = None, (0.0, 0.0)
    for i in order:
        here = (signs[0] * values[i][1], signs[1] * values[i][2])
        if values[i][0] != group or here[1] < last[1] or here == last:
            group, last = values[i][0], here
            kept.add(i)
    return kept


def _group(task: Any, dataset: Any, arrivals: Mapping[str, Any], energy: str, priced_at: str | None) -> str:
    """``arrivals``: with what is asked, where a load says that; ``energy``: how it was got: a board's counter, a
    processor's and an estimate are of unlike things; ``priced_at``: the date of a cost's price list."""
    named = " on ".join(str(part) for part in (task, dataset) if part) or "no task named"
    asked = [arrivals.get(name) for name in ("prompts", "sizes")]
    prices_of = priced_at and f"prices of {priced_at}"
    return ", ".join(str(part) for part in (named, *asked, energy, prices_of) if part)


def _beside(db: PerfDB, rows: Sequence[Row], x: Figure, y: Figure) -> dict[tuple[str, int], _Beside]:
    """Of each result both intervals, and why one of the figures is of a rate that moved."""
    moving = [figure for figure in (x, y) if steadiness.of_the_rate(figure)]
    paths = [f"summary.{figure.interval}" for figure in (x, y) if figure.interval]
    paths += steadiness.PATHS if moving else ()
    if not paths or not rows:
        return {}
    where = {"run_id": {"$in": [identity(row)[0] for row in rows]}}
    found = db.find_raw(where, BY_RUN, fields=list(dict.fromkeys(["run_id", "attempt", *paths])))
    beside = {}
    for document in map(to_plain, found):
        summary = document.get("summary") or {}
        moved = next((why for figure in moving if (why := steadiness.unsteady(figure, document))), None)
        beside[document["run_id"], document["attempt"]] = _Beside(
            x.interval_in(summary),
            y.interval_in(summary),
            moved,
        )
    return beside


def colour_text(value: Any) -> str:
    """A field's value as the legend has it; a dash where it is not known."""
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
