"""Results side by side: the settings in which they differ, and figures with their ratio to the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.dotted import flatten, value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import fields, judged_on
from inferbench_tasks.perfdb.documents import ResultDocument

#: What ends the name of a column of ratios.
_RATIO = " ratio"
#: Identify a result; they always differ and are shown apart.
IDENTITY = ("attempt", "job", "invocation", "created")
#: Rows that tell, where runs differ in it, how an energy was got, which part a run had of the cores whose idle power
#: is in it, of whose electricity a CO₂ is, and of when the rate is by which a cost is.
GROUNDS = _METHOD, _PART, _ELECTRICITY, _PRICES = (
    "energy by", "energy of the idle power of", "electricity, g CO2e/kWh", "prices of",
)  # fmt: skip


def compare(results: Sequence[ResultDocument]) -> list[dict[str, Any]]:
    """A row per field: ``field``, and for each run its value under the run's id, then the ratios.

    A figure's ratio is to the first run's figure, None where one of the two was not measured, is a measure of the
    answers to other samples (``evaluated on``), an energy by another method (``energy by``) or of a whole machine of
    which the run had another part (a CO₂ also of another electricity), or a lower bound. Settings that are equal in all
    runs are left out, but for the verdict.
    """
    data = [judged_on.of_result(result) for result in results]
    documents = [result.model_dump() for result in results]
    grounds = {
        _METHOD: [value_at(each, "summary.energy.method") for each in documents],
        _PART: [part_of_machine(each) for each in documents],
        _ELECTRICITY: [value_at(each, "summary.carbon.g_per_kwh") for each in documents],
        _PRICES: [_priced_at(each) for each in documents],
    }
    rows = [fields.row(each) for each in documents]
    names = [_column(row, rows) for row in rows]
    table = [
        {"field": name, **dict(zip(names, (row[name] for row in rows), strict=True))}
        for name in rows[0]
        if name not in (*FIGURES, *IDENTITY, "run")
        and (name == "verdict" or any(row[name] != rows[0][name] for row in rows))
    ]
    table += _settings(results, names)
    if len(set(data)) > 1:
        table.append({"field": "evaluated on", **dict(zip(names, data, strict=True))})
    table += [
        {"field": name, **dict(zip(names, values, strict=True))}
        for name, values in grounds.items()
        # Beside a part None is the whole machine, or what counts none.
        if len({*values} - (set() if name == _PART else {None})) > 1
    ]
    for name, figure in FIGURES.items():
        values = [row.get(name) for row in rows]
        if any(value is not None for value in values):
            of = _of(figure, data, grounds, documents)
            ratios = {
                f"{column}{_RATIO}": _ratio(values[0], value) if ground == of[0] else None
                for column, value, ground in zip(names, values, of, strict=True)
            }
            ratios.pop(f"{names[0]}{_RATIO}")
            table.append({"field": name, **dict(zip(names, values, strict=True)), **ratios})
    return table


def _of(
    figure: Figure, data: list[str], grounds: dict[str, list[Any]], documents: list[dict[str, Any]]
) -> list[Any]:
    """What each run's figure is of beside its name: only of equal ones a ratio tells anything."""
    if figure.evaluated:
        return [*data]
    if figure.bracketed:  # a lower bound has no ratio to anything, not to another one either
        return [object() if figure.unbounded_in(each["summary"]) else None for each in documents]
    if not figure.energy_based:
        return [None] * len(data)
    # A mass of CO₂ is of an electricity, too.
    of = grounds[_METHOD], grounds[_PART]
    return [*zip(*of, *([grounds[_ELECTRICITY]] if figure.unit.startswith("g/") else ()), strict=True)]


def part_of_machine(document: dict[str, Any]) -> str | None:
    """``1 of 2 cores``: of an energy that counts a whole machine, of which the run had a part; None of others."""
    machine = value_at(document, "summary.energy.machine") or {}
    cores, of_cores = machine.get("cores"), machine.get("of_cores")
    return f"{cores:g} of {of_cores} cores" if cores and of_cores and cores < of_cores else None


def _priced_at(document: dict[str, Any]) -> str | None:
    """The date of the rate of the cheapest instance, by which a cost is."""
    instances = value_at(document, "summary.cost.instances")
    date = instances[0].get("date") if instances else None
    return None if date is None else str(date)


def shown(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of ``compare`` as people read them: figures in the units of all lists and pages, with the ``unit``."""
    return [_shown(row, FIGURES.get(row["field"])) for row in rows]


def _shown(row: dict[str, Any], figure: Figure | None) -> dict[str, Any]:
    if figure is None:
        return {"field": row["field"], "unit": None, **row}
    values = {
        name: value if value is None or name == "field" or name.endswith(_RATIO) else figure.displayed(value)
        for name, value in row.items()
    }
    return {"field": row["field"], "unit": figure.shown_unit or None, **values}


def _column(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The run's id, and its attempt where one run is compared with itself."""
    same = [other for other in rows if other["run"] == row["run"]]
    return str(row["run"]) if len(same) == 1 else f"{row['run']}#{row['attempt']}"


def _settings(results: Sequence[ResultDocument], names: list[str]) -> list[dict[str, Any]]:
    flat = [flatten(result.backend.settings, "settings.") for result in results]
    paths = dict.fromkeys(path for settings in flat for path in settings)
    return [
        {"field": path, **{name: settings.get(path) for name, settings in zip(names, flat, strict=True)}}
        for path in paths
        if any(settings.get(path) != flat[0].get(path) for settings in flat)
    ]


def _ratio(base: float | None, value: float | None) -> float | None:
    return None if base is None or value is None or base == 0 else value / base
