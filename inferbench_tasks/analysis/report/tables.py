"""A report's tables beside its charts: stages, energy with its method, cost by instance, interference.

Each is {title, head, rows} and may have ``numbers``, the columns to align at their right, and ``note``, what is the
same for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.metrics.energy import SCOPE
from inferbench_tasks.metrics.interference import decides
from inferbench_tasks.metrics.stages import PARTS, WORTH_SHOWING_RATIO

Table = dict[str, Any]
_METHODS = {
    "per_request": "the server told its spans with every answer",
    "server_statistics": "the server's own statistics, means over the window",
    "difference": "the backend tells nothing, so the parts can't be told apart",
}


def stage_text(views: Sequence[RunView]) -> str:
    """How the stages were got."""
    methods = dict.fromkeys(m for view in views if (m := view.figure("stages_ms.method")))
    return "; ".join(_METHODS[m] for m in methods).capitalize() + "." if methods else ""


def stage_table(views: Sequence[RunView]) -> list[Table]:
    """Mean (and p99) of each part, and what share of the latency nobody accounts for."""
    rows = []
    for view in views:
        if not view.figure("stages_ms.method"):
            continue
        e2e = view.figure("stages_ms.e2e.mean")
        rest = view.figure("stages_ms.unattributed.mean") or 0.0
        cells = [_mean_and_p99(view.figure(f"stages_ms.{part}")) for part in PARTS]
        share = f"{rest / e2e:.1%}{' (!)' if rest / e2e > WORTH_SHOWING_RATIO else ''}" if e2e else "–"
        rows.append([view.label, *cells, _mean_and_p99(view.figure("stages_ms.e2e")), share])
    head = ["run", *PARTS, "end to end", "unattributed share"]
    numbers = list(range(1, len(head)))
    table = {"title": "Mean (p99), ms per request", "head": head, "rows": rows, "numbers": numbers}
    return [table] if rows else []


def condensed(table: Table, always: Sequence[str]) -> Table:
    """A table without the columns, but for ``kept``, that say the same in all of its rows; its note says it."""
    head, rows = table["head"], table["rows"]
    if len(rows) < 2:
        return table
    values = dict(zip(head, zip(*rows, strict=True), strict=True))
    same = [name for name in head if name not in always and len(set(values[name])) == 1]
    texts = [f"{name}: {'none' if values[name][0] == '–' else values[name][0]}" for name in same]
    places = [index for index, name in enumerate(head) if name not in same]
    return {
        **table,
        "head": [head[index] for index in places],
        "rows": [[row[index] for index in places] for row in rows],
        "numbers": [place for place, index in enumerate(places) if index in table.get("numbers", [])],
        "note": f"For all rows: {'; '.join(texts)}." if texts else "",
    }


def energy_table(views: Sequence[RunView]) -> list[Table]:
    """Energy with its method and uncertainty, beside what other methods say; why there is none."""
    rows = []
    checked: set[str] = set()
    for view in views:
        energy, carbon = view.figure("energy") or {}, view.figure("carbon") or {}
        joule = energy.get("joule_per_request")
        if joule is None and not energy.get("reason"):
            continue
        error = energy.get("uncertainty_ratio")
        left_out = energy.get("left_out") or {}
        others = ", ".join(
            [
                *(
                    f"{name} {number(value)} J ({number(value / joule)} times)"
                    for name, value in (energy.get("others") or {}).items()
                ),
                *(
                    f"{name} {number(one['joule_per_request'])} J, not this run's: {one['reason']}"
                    for name, one in left_out.items()
                ),
            ]
        )
        checked |= {*(energy.get("others") or {}), *left_out}
        rows.append(
            [
                view.label,
                "–" if joule is None else f"{number(joule)} ± {error:.0%}",
                energy.get("method") or "–",
                energy.get("scope") or energy.get("reason"),
                others or "–",
                *_emission(carbon),
            ]
        )
    main = ["run", "J/request", "CO₂e, g/1,000 requests"]
    head = [*main[:2], "method", "of what", "cross-check", main[2], "electricity"]
    if not rows:
        return []
    table = condensed({"title": "Energy and CO₂", "head": head, "rows": rows, "numbers": [1, 5]}, main)
    scopes = "".join(f" {name} is of: {SCOPE.get(name, name)}." for name in sorted(checked))
    return [{**table, "note": f"{table.get('note', '')}{scopes}".strip()}] if scopes else [table]


def cost_table(views: Sequence[RunView]) -> list[Table]:
    """Every instance with the device, or why there is none."""
    rows = []
    for view in views:
        cost = view.figure("cost") or {}
        if cost.get("reason"):
            rows.append([view.label, "–", "–", "–", "–", cost["reason"]])
        for entry in cost.get("instances") or []:
            under = entry["usd_per_1k_under_slo"]
            notes = ["unverified"] if entry.get("unverified") else []
            notes += (
                ["the product's name is hidden; an instance of its family"] if entry["approximate"] else []
            )
            rows.append(
                [
                    view.label,
                    f"{entry['provider']} {entry['instance']} ({entry['region']})",
                    number(entry["usd_per_hour"]),
                    marked(number(entry["usd_per_1k"]), entry),
                    marked(number(under), entry) if under is not None else "–",
                    "; ".join([f"{entry['source']}, {entry['date']}", *notes]),
                ]
            )
    main = ["run", "instance", "USD/h", "USD/1,000 requests", "USD/1,000 within the SLO"]
    table = {
        "title": "Cost at the measured throughput",
        "head": [*main, "source"],
        "rows": rows,
        "numbers": [2, 3, 4],
    }
    return [condensed(table, main)] if rows else []


def marked(text: str, entry: dict[str, Any]) -> str:
    """A cost with the word that its rate earned."""
    return f"{text} (unverified)" if entry.get("unverified") else text


def interference_table(views: Sequence[RunView]) -> list[Table]:
    """What else happened on the machine, and what of it decided the verdict."""
    rows = []
    for view in views:
        ledger = view.figure("interference") or {}
        rows += [
            [view.label, finding["text"], "disturbed" if decides(finding, ledger.get("mode")) else "noted"]
            for finding in ledger.get("findings", [])
        ]
        rows += [
            [view.label, f"{what}: not watched", "would not be seen"]
            for what in ledger.get("not_watched", [])
        ]
    return (
        [{"title": "What disturbed the runs", "head": ["run", "finding", "consequence"], "rows": rows}]
        if rows
        else []
    )


def _emission(carbon: dict[str, Any]) -> list[str]:
    """The emission, and by which electricity."""
    if carbon.get("g_per_1k") is None:
        return ["–", "–"]
    return [
        number(carbon["g_per_1k"]),
        f"{carbon['region']}, {carbon['g_per_kwh']:g} g/kWh, {carbon['date']}",
    ]


def _mean_and_p99(figures: Any) -> str:
    if not figures or figures.get("mean") is None:
        return "–"
    p99 = figures.get("p99")
    return number(figures["mean"]) + (f" ({number(p99)})" if p99 is not None else "")
