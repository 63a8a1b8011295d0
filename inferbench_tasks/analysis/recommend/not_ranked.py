"""Which results that have a figure are not ranked by it, and why, in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from inferbench_tasks.analysis.recommend.comparable import stands
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.held import held
from inferbench_tasks.perfdb.offered import WITHOUT_LOAD, is_search, sets_rate
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB

#: So many loads are named.
_NAMED = 3


def not_ranked_note(db: PerfDB, by: str, query: str | Iterable[str] = "", *, listed: int = 0) -> str | None:
    """Of the valid results that match and have the figure ``by``; None where all of them can be ranked by it.

    ``listed``: how many rows the leaderboard has. It is said where there is none, and always of a figure that follows
    from the rate. InputError for a query or a figure that is none.
    """
    figure = FIGURES.ranking(by)
    if listed and not figure.follows_rate:
        return None
    index = held(db)
    rows = index.rows(parse(query).filter)
    counts = Counter(rows.only(index.present(figure.field_path, rows)).offered())
    left: dict[str, list[tuple[str, int]]] = {}
    for load, count in counts.most_common():
        if not stands(figure, load):
            left.setdefault(_why(figure, load), []).append((load, count))
    return (
        " ".join(
            f"{sum(count for _, count in loads)} result(s) are not ranked by {figure.name} "
            f"({_named([load for load, _ in loads])}): {why}"
            for why, loads in left.items()
        )
        or None
    )


def _why(figure: Figure, load: str) -> str:
    if load == WITHOUT_LOAD:
        return "without a load nobody watched what disturbed them."
    if figure.follows_rate and not sets_rate(load):
        beside = " cpu_ms_per_sample compares them." if figure.name == "cpu_cores" else ""
        return f"there the server says how much it answers, and by answering less it has less {figure.word}.{beside}"
    assert is_search(load)
    return f"each searched for its highest rate, and has its {figure.word} at a rate of its own."


def _named(loads: list[str]) -> str:
    more = f"; and {len(loads) - _NAMED} more loads" if len(loads) > _NAMED else ""
    return "; ".join(loads[:_NAMED]) + more
