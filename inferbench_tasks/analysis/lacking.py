"""Why a run lacks a figure, in words: one answer for recommendations, reports, comparisons and the paper's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES

_FLOORS = {NAMES[quantile]: least for quantile, least in FLOORS.items()}


@dataclass(frozen=True)
class Lack:
    """``longer``: whether a longer run would have the figure."""

    text: str
    longer: bool = False

    def __str__(self) -> str:
        return self.text


def needed(figure: Figure) -> tuple[str, ...]:
    """Where in a result stands what ``lack_of`` reads beside the figure."""
    block, _, _ = figure.path.rpartition(".")
    paths = [f"summary.{block}.{name}" for name in ("withheld", "count")] if block else []
    return (*paths, *(f"summary.{part}.reason" for part in _parts(figure)))


def withheld_of(figure: Figure, summary: Mapping[str, Any]) -> str | None:
    """Why the certificate withholds a figure that was measured; None where it does not."""
    block, _, name = figure.path.rpartition(".")
    reasons = value_at(summary, f"{block}.withheld") if block else None
    return (reasons or {}).get(name)


def lack_of(figure: Figure, summary: Mapping[str, Any]) -> Lack | None:
    """Why a summary has no value of a figure; None where it has one, or where nothing says why."""
    if figure.value(summary) is not None:
        return None
    if reason := withheld_of(figure, summary):
        return Lack(f"withheld: {reason}")
    block, _, name = figure.path.rpartition(".")
    count = value_at(summary, f"{block}.count") if block else None
    if count is not None and count < (least := _FLOORS.get(name, 0)):
        return Lack(f"{count:,d} good answers are too few: it takes {least:,d}", longer=True)
    reasons = (value_at(summary, f"{part}.reason") for part in _parts(figure))
    return next((Lack(f"not known: {reason}") for reason in reasons if reason), None)


def _parts(figure: Figure) -> tuple[str, ...]:
    """The parts of a summary that the figure is made of, which say why they are not known."""
    return ("energy",) if figure.energy_based else ("cost",) if figure.price_based else ()
