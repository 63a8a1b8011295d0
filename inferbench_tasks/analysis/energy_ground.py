"""How an energy was got, and of whose electricity a CO₂ is: of two methods or regions they are of unlike things.

An estimate of a server's own share is less than what a counter reads of the whole processor with all that idles there,
whichever server is better; and the same energy emits eight times as much in one region as in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure

PATHS = _METHOD, _ELECTRICITY = "energy.method", "carbon.g_per_kwh"


def paths(figure: Figure) -> tuple[str, ...]:
    """Where below a summary stands what ``got_by`` reads; () of a figure that is none of energy."""
    if not figure.energy_based:
        return ()
    return (_METHOD, _ELECTRICITY) if _emitted(figure) else (_METHOD,)


def known(values: Iterable[Any]) -> tuple[Any, ...] | None:
    """What stands at ``paths``, to be compared with that of other results; None where no method is known."""
    method, *electricity = values
    return None if method is None else (method, *electricity)


def got_by(figure: Figure, summary: Mapping[str, Any]) -> str:
    """``energy by rapl``, of a CO₂ ``energy by rapl, 56 g CO2e/kWh``: equal where figures of two runs can be compared.
    "" of other figures.
    """
    return _words(figure, value_at(summary, _METHOD), value_at(summary, _ELECTRICITY))


def ways(figure: Figure, summaries: Iterable[Mapping[str, Any]]) -> list[str]:
    """In which ways (``got_by``) these have a figure of energy, for a picture of each of them; ``[""]`` where all that
    have it got it in one way, or where it is none of energy: that picture is of all.
    """
    found = sorted({got_by(figure, each) for each in summaries if figure.value(each) is not None})
    return found if len(found) > 1 else [""]


def of_rows(figure: Figure, values: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], str]:
    """How to tell the same of a held row; ``values``: how to get a path's value of one.

    Neither is held, for MongoDB has no room for one more index: of figures of energy they are asked of PerfDB, once.
    """
    if not figure.energy_based:
        return lambda row: ""
    method = values(f"summary.{_METHOD}")
    electricity = values(f"summary.{_ELECTRICITY}") if _emitted(figure) else lambda row: None
    return lambda row: _words(figure, method(row), electricity(row))


def _words(figure: Figure, method: Any, electricity: Any) -> str:
    if not figure.energy_based:
        return ""
    words = f"energy by {method or 'a method that is not known'}"
    if not _emitted(figure):
        return words
    return f"{words}, " + ("electricity not known" if electricity is None else f"{electricity:g} g CO2e/kWh")


def _emitted(figure: Figure) -> bool:
    """Whether it is a mass of CO₂."""
    return figure.unit.startswith("g/")
