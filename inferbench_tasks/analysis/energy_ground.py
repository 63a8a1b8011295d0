"""How an energy was got, and of whose electricity a CO₂ is: of two methods or regions they are of unlike things.

An estimate of a server's own share is less than what a counter reads of the whole processor with all that idles there,
whichever server is better; and the same energy emits eight times as much in one region as in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure

_METHOD, _ELECTRICITY = "energy.method", "carbon.g_per_kwh"


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
    if not figure.energy_based:
        return ""
    words = f"energy by {value_at(summary, _METHOD) or 'a method that is not known'}"
    if not _emitted(figure):
        return words
    electricity = value_at(summary, _ELECTRICITY)
    return f"{words}, " + ("electricity not known" if electricity is None else f"{electricity:g} g CO2e/kWh")


def _emitted(figure: Figure) -> bool:
    """Whether it is a mass of CO₂."""
    return figure.unit.startswith("g/")
