"""The report of an invocation: one HTML file over all its runs, whatever became of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.ceilings import Ceilings
from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.report.advice import Advice
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.beginning import in_short, picture_of
from inferbench_tasks.analysis.report.columns import Column, columns_of, unsteady_notes
from inferbench_tasks.analysis.report.links import links
from inferbench_tasks.analysis.report.missing import missing_notes, withheld_notes
from inferbench_tasks.analysis.report.provenance import beside
from inferbench_tasks.analysis.report.runs import RunView, load_runs
from inferbench_tasks.analysis.report.sections import sections
from inferbench_tasks.contracts.verdict import reasons_of
from inferbench_tasks.perfdb.store import PerfDB

REPORT_FILE = "report.html"
#: So many remarks stand in the text beneath the table of runs; more are folded, each on a line.
_INLINE = 2


def make_report(
    db: PerfDB,
    run_ids: Sequence[str],
    submission: dict[str, Any],
    path: Path,
    ceilings: Ceilings | None = None,
) -> list[RunView]:
    """Draw the report of these runs into a file; the runs that it shows.

    ``submission``: the submission as plain values; {} where it is not known any more.
    """
    views = load_runs(db, run_ids)
    page.write(path, html(views, submission, len(run_ids) - len(views), ceilings))
    return views


def html(
    views: list[RunView],
    submission: dict[str, Any],
    unstarted: int = 0,
    ceilings: Ceilings | None = None,
) -> str:
    """The page of these runs as HTML."""
    advice = advise(views)
    charts: dict[str, Any] = {}
    blocks = []
    found = sections(views, ceilings)
    picture = picture_of(found)
    if picture is not None:
        charts["c0"] = picture
    for section in found:
        items = []
        for chart in section.charts:
            if chart is picture:  # it stands above already
                continue
            key = f"c{len(charts)}"
            charts[key] = chart
            items.append({"id": key, "caption": _count(views)})
        if items or section.tables or section.text:
            blocks.append({**section.as_dict(), "charts": items})
    short, why = in_short(advice)
    measured = [view for view in views if view.measured]
    columns = columns_of(views)
    name = str(submission.get("name") or (views[0].job.get("name") if views else "") or "report")
    return page.render(
        "report.html",
        title=name,
        subtitle=subtitle(views, submission),
        links=links(views, submission),
        description=submission.get("description") or "",
        advice=short,
        why=why,
        picture="c0" if picture is not None else None,
        best=advice.best is not None,
        troubled=[view for view in views if not view.valid],
        notes=notes_of(views, unstarted),
        columns=columns,
        rows=[row_of(view, columns, advice) for view in views],
        beneath=[*withheld_notes(measured), *unsteady_notes(measured)],
        inline=_INLINE,
        sections=blocks,
        certificates=[_certificate(view) for view in views if view.result and view.result.certificate],
        provenance=beside(views),
        submission=page.as_yaml(submission),
        counts=_count(views),
        charts=charts,
    )


def row_of(view: RunView, columns: Sequence[Column], advice: Advice) -> dict[str, Any]:
    """A run's line in the table of runs."""
    cells = [column.cell(view) for column in columns]
    return {
        "label": view.label,
        "run": view.run_id,
        "cells": cells,
        "verdict": view.said_with_load,
        "state": view.state,
        "best": view is advice.best,
    }


def _certificate(view: RunView) -> dict[str, Any]:
    assert view.result is not None
    certificate = view.result.certificate
    return {
        "label": view.label,
        "valid": certificate.get("valid"),
        "reasons": [reason.text for reason in reasons_of(certificate)],
        "warnings": certificate.get("warnings", []),
        "checks": [
            {
                "name": check["name"].replace("_", " "),
                "value": page.number(check["value"]),
                "bound": page.number(check["limit"]),
                "unit": check["unit"],
                "ok": check["ok"],
            }
            for check in certificate.get("checks", [])
        ],
    }


def notes_of(views: Sequence[RunView], unstarted: int) -> list[str]:
    """What a reader should know though it makes no run invalid."""
    notes = []
    if unstarted:
        notes.append(f"{unstarted} run(s) of this submission never started.")
    notes += disturbed_notes(views)
    for view in views:
        if repeats := view.result.extensions.get("repeats") if view.result else None:
            notes.append(f"{view.label}: this is its second attempt; the first was {repeats['verdict']}")
        monitor = view.figure("resources.monitor") or {}
        if monitor.get("problem"):
            notes.append(f"{view.label}: the monitors' record is not complete: {monitor['problem']}")
        served = view.figure("accuracy_ratio")
        source = view.result.model.accuracy_ratio if view.result else None
        if served is not None and source is not None and served < source - 0.02:
            notes.append(
                f"{view.label}: {served:.1%} of the answers through the server are right, "
                f"the source model reaches {source:.1%} on its whole test set."
            )
        if view.measured and view.problem:
            notes.append(f"{view.label}: its raw records can't be read: {view.problem}")
        warnings = view.result.certificate.get("warnings", []) if view.result else []
        notes += [f"{view.label}: {warning}" for warning in warnings]
    return notes + missing_notes(views)


def disturbed_notes(views: Sequence[RunView]) -> list[str]:
    """That valid runs were disturbed, not enough to count as invalid but enough to be seen in their figures."""
    notes = []
    for kind, text in (
        ("foreign_cpu", "other processes used up to {:.0%} of the CPU meanwhile"),
        (
            "waited_for_cpu",
            "the server waited for a core up to {:.0%} of the time in which it had work to do",
        ),
        ("steal", "the hypervisor took up to {:.1%} of the CPU time"),
    ):
        # Of a load from other hosts each of these has findings of its own.
        shares = [
            max(values)
            for view in views
            if view.valid
            and (
                values := [
                    finding["value"]
                    for finding in (view.figure("interference") or {}).get("findings", [])
                    if finding["kind"] == kind
                ]
            )
        ]
        if shares:
            valid = sum(view.valid for view in views)
            notes.append(
                f"{len(shares)} of {valid} valid run(s): {text.format(max(shares))}; see Interference."
            )
    return notes


def subtitle(views: Sequence[RunView], submission: dict[str, Any]) -> str:
    results = [view.result for view in views if view.result]
    parts = []
    if results:
        first = results[0]
        parts.append(" and ".join(dict.fromkeys(r.model.name for r in results)))
        parts.append(" and ".join(dict.fromkeys(r.backend.label or r.backend.kind for r in results)))
        parts.append(first.device.name or first.device.kind)
        parts.append(f"{first.created_at:%Y-%m-%d %H:%M} UTC")
    if user := submission.get("user"):
        parts.append(f"by {user}")
    return " · ".join(parts)


def _count(views: Sequence[RunView]) -> str:
    valid = sum(view.valid for view in views)
    others = len(views) - valid
    return f"{valid} valid run{'' if valid == 1 else 's'}" + (f", {others} not valid" if others else "")
